package secret

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// alphabets are the classes of characters that examples in rules.txt name.
var alphabets = map[byte]string{
	'w': "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-",
	'a': "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
	'c': "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
	'l': "abcdefghijklmnopqrstuvwxyz0123456789",
	'u': "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
	'b': "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
	'x': "0123456789abcdef",
	'X': "0123456789ABCDEF",
	'd': "0123456789",
	's': "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
}

// expand replaces {w93} by 93 random characters. The ends of a run are letters or digits,
// as most issuers have them.
func expand(example string, rnd *rand.Rand) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(example, "{")
		b.WriteString(before)
		if !ok {
			return strings.ReplaceAll(b.String(), `\n`, "\n")
		}
		spec, after, _ := strings.Cut(rest, "}")
		n, err := 0, error(nil)
		if len(spec) > 1 {
			n, err = strconv.Atoi(spec[1:])
		}
		if len(spec) < 2 || alphabets[spec[0]] == "" || err != nil {
			b.WriteByte('{')
			example = rest
			continue
		}
		for i := range n {
			set := alphabets[spec[0]]
			if (i == 0 || i == n-1) && strings.IndexByte("ws", spec[0]) >= 0 {
				set = alphabets['a']
			}
			b.WriteByte(set[rnd.IntN(len(set))])
		}
		example = after
	}
}

func find(t testing.TB, s *Scanner, text string) []Finding {
	t.Helper()
	found, err := s.Scan("file", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// escape is a JSON string with text, as a transcript has it.
func escape(text string) string {
	b, _ := json.Marshal(map[string]string{"content": "Output:\n\t" + text + "\n"})
	return string(b) + "\n"
}

// forms are the ways in which a secret is in a file.
var forms = []struct {
	name string
	in   func(string) string
}{
	{"raw", func(s string) string { return "first line\n" + s + "\nlast line\n" }},
	{"escaped once", escape},
	{"escaped twice", func(s string) string { return escape(escape(s)) }},
	{"base64", func(s string) string {
		return "data: " + base64.StdEncoding.EncodeToString([]byte("the content of a file of a project:\n"+s+"\nend\n")) + "\n"
	}},
}

func TestRules(t *testing.T) {
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := parseRules(rulesText)
	if err != nil {
		t.Fatal(err)
	}
	const draws = 20
	type count struct{ yes, found, no, alarms int }
	counts := make([]count, len(forms))
	for _, r := range rules {
		if r.about == "" || r.pattern == nil || len(r.keywords) == 0 || len(r.yes) == 0 || len(r.no) == 0 {
			t.Errorf("rule %s is not complete", r.name)
		}
		if r.window > maxWindow || r.before > maxBefore {
			t.Errorf("rule %s needs more text than a layer keeps", r.name)
		}
		for seed := range uint64(draws) {
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
