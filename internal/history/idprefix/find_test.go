package idprefix_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/idprefix"
)

func TestFind(t *testing.T) {
	for _, c := range []struct {
		ids, name string
		want      string // the found id, or the text of the error
	}{
		{"abc abd xyz", "x", "xyz"},
		{"abc abd xyz", "abd", "abd"},
		{"abc abd xyz", "ab", `ambiguous checkpoint prefix "ab": matches abc, abd`},
		{"abc abc", "a", "abc"},
		{"abc", "abcd", "find checkpoint: abcd: does not exist"},
		{"abc", "", "find checkpoint: does not exist"},
		{"", "a", "find checkpoint: a: does not exist"},
		{"abcd abce ab", "ab", "ab"}, // an exact id, although it is listed after longer ones
		{"a1 a2 a3 a4 a5 a", "a", "a"},
		{"t7abcd", "t7", "find checkpoint: t7: does not exist"}, // the turn does not exist
		{"t7abcd", "t7abcd", "t7abcd"},
		{"t77777777 abc", "t77777", "t77777777"}, // as long as a printed id
		{"a1 a2 a3 a4 a5", "a", `ambiguous checkpoint prefix "a": matches a1, a2, a3 and more`},
	} {
		got, err := idprefix.Find(idprefix.Query{What: "checkpoint", Name: c.name, Turns: true}, idprefix.Values(strings.Fields(c.ids)),
			func(id string) string { return id })
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q in %q: %s, want %s", c.name, c.ids, got, c.want)
		}
	}
}

// TestFindFails checks that Find returns an error of the items, and checks the kinds of its own
// errors.
func TestFindFails(t *testing.T) {
	same := func(id string) string { return id }
	failing := func(yield func(string, error) bool) { yield("", io.ErrUnexpectedEOF) }
	if _, err := idprefix.Find(idprefix.Query{Name: "a"}, failing, same); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	_, err := idprefix.Find(idprefix.Query{Name: "a", Hint: "look"}, idprefix.Values([]string{"b"}), same)
	var e *segno.Error
	if !errors.Is(err, segno.KindNotFound) || !errors.As(err, &e) || e.Hint != "look" {
		t.Errorf("got %v", err)
	}
	if _, err = idprefix.Find(idprefix.Query{Name: "a"}, idprefix.Values([]string{"ab", "ac"}), same); !errors.Is(err, segno.KindInvalid) {
		t.Errorf("got %v", err)
	}
}
