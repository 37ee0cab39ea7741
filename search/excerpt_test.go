package search

import (
	"strings"
	"testing"
)

func FuzzIndexFold(f *testing.F) {
	f.Add("Ein İstanbul text", "i̇stan")
	f.Add("ABC", "b")
	f.Fuzz(func(t *testing.T, text, needle string) {
		if needle == "" {
			return
		}
		at, n := indexFold(text, strings.ToLower(needle))
		if at >= 0 && (n < 0 || at+n > len(text)) {
			t.Fatalf("%d %d in %d bytes", at, n, len(text))
		}
		x, ok := FindText(text, strings.ToLower(OneLine(needle)))
		if most := 4 * (beforeMatch + afterMatch + len(text)); len(x.Before)+len(x.Match)+len(x.After) > most || at >= 0 && !ok {
			t.Fatalf("%+v %t", x, ok)
		}
	})
}
