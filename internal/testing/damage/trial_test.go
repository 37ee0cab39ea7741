package damage

import (
	"slices"
	"testing"
)

// TestToldOfAGluedLine counts the facts of a line with two records, of which an agent reads the first.
func TestToldOfAGluedLine(t *testing.T) {
	for line, want := range map[string][]string{
		`{"message":{"content":"fact-r5"},"toolUseResult":"fact-r5"}` + "\n":                      {"fact-r5"},
		`{"message":{"content":"fact-r5"},"toolUseResult":"fact-r5"}{"message":"fact-a5"}` + "\n": {"fact-r5"},
		`tent":"fact-a1"}}` + "\n": {"fact-a1"},
	} {
		if got := Facts(told([]byte(line))); !slices.Equal(got, want) {
			t.Errorf("of %s the model receives %q, want %q", line, got, want)
		}
	}
}
