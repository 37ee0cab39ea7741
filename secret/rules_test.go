package secret

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/soak"
)

func find(t testing.TB, s *Scanner, text string) []Finding {
	t.Helper()
	found, err := s.Scan("file", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestRules(t *testing.T) {
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	rules, _, err := readRules()
	if err != nil {
		t.Fatal(err)
	}
	seeds := slices.Concat([]uint64{0}, soak.Seeds(t, 19, 500)) // no example is missed with the seed 0
	type count struct{ yes, found, no, alarms int }
	counts := make([]count, len(forms))
	for _, r := range rules {
		if r.about == "" || r.pattern == nil || len(r.keywords) == 0 || len(r.yes) == 0 || len(r.no) == 0 {
			t.Errorf("rule %s is not complete", r.name)
		}
		if r.window > maxWindow || r.before > maxBefore {
			t.Errorf("rule %s needs more text than a layer keeps", r.name)
		}
		for _, seed := range seeds {
			for _, example := range r.yes {
				text := expand(example, rand.New(rand.NewPCG(seed, 1)))
				for i, form := range forms {
					counts[i].yes++
					if len(find(t, s, form.in(text))) > 0 {
						counts[i].found++
					} else if seed == 0 {
						t.Errorf("rule %s, %s: not found: %s", r.name, form.name, text)
					}
				}
			}
			for _, example := range r.no {
				text := expand(example, rand.New(rand.NewPCG(seed, 1)))
				for i, form := range forms {
					counts[i].no++
					if found := find(t, s, form.in(text)); len(found) > 0 {
						counts[i].alarms++
						if seed == 0 {
							t.Errorf("rule %s, %s: found by %s (%s) in: %s", r.name, form.name, found[0].Rule, found[0].Sample, text)
						}
					}
				}
			}
		}
	}
	t.Logf("%d rules\n%-13s  %6s %6s %7s  %6s %6s %9s", len(rules), "", "true", "found", "recall", "false", "found", "precision")
	for i, form := range forms {
		c := counts[i]
		recall, precision := float64(c.found)/float64(c.yes), float64(c.found)/float64(c.found+c.alarms)
		t.Logf("%-13s  %6d %6d %7.4f  %6d %6d %9.4f", form.name, c.yes, c.found, recall, c.no, c.alarms, precision)
		// A random value may look like a placeholder, repeat itself, or look like a secret.
		if recall < 0.99 || precision < 0.99 {
			t.Errorf("%s: recall %.4f, precision %.4f", form.name, recall, precision)
		}
	}
}
