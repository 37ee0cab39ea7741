package secret

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/soak"
)

//go:embed testdata/formats.txt
var formatsText string

// A format is a kind of credential in formats.txt.
type format struct{ name, text, source string }

func readFormats(t testing.TB) (list []format) {
	t.Helper()
	names := map[string]bool{}
	for line := range strings.Lines(formatsText) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		parts := strings.Split(line, " | ")
		if len(parts) != 3 || names[parts[0]] {
			t.Fatalf("formats.txt has a malformed or second line %q", line)
		}
		names[parts[0]] = true
		list = append(list, format{parts[0], parts[1], parts[2]})
	}
	return list
}

// TestCredentialsOfKnownIssuersAreFound measures the recall on credentials with random values. The
// formats were not taken from the rules, so a format without a rule counts as not found.
func TestCredentialsOfKnownIssuersAreFound(t *testing.T) {
	formats := readFormats(t)
	if len(formats) < 160 {
		t.Errorf("formats.txt has %d formats", len(formats))
	}
	seeds := soak.Seeds(t, 10, 200)
	draws := len(seeds)
	s := scanner(t, Options{})
	found := make([]int, len(forms))
	for i, format := range formats {
		missed, row := 0, ""
		for j, form := range forms {
			n := 0
			for _, seed := range seeds {
				text := expand(format.text, rand.New(rand.NewPCG(seed, uint64(i))))
				if len(find(t, s, form.in(text))) > 0 {
					n++
				}
			}
			found[j] += n
			missed += draws - n
			row += fmt.Sprintf(" %s %d/%d", form.name, n, draws)
		}
		if missed > 0 {
			t.Logf("%-26s%s", format.name, row)
		}
	}
	for j, form := range forms {
		recall := float64(found[j]) / float64(len(formats)*draws)
		t.Logf("%-14s %d formats, %d values, recall %.4f", form.name, len(formats), len(formats)*draws, recall)
		if recall < 0.97 {
			t.Errorf("%s: recall %.4f", form.name, recall)
		}
	}
}
