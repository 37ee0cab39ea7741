package tui

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/dalsegno/segno/internal/history/printable"
)

func isUnsafe(r rune) bool { return r != '\n' && printable.IsUnsafe(r) }

func FuzzClean(f *testing.F) {
	f.Add("\x1b]0;x\x07\u202e\u009b31m\r\nplain\ttext\xff")
	f.Add("a\rb\u200b\u00ad")
	f.Add("👨\u200d👩\u200d👧 می\u200cخواهم")
	f.Fuzz(func(t *testing.T, s string) {
		c := printable.Lines(s)
		for _, r := range c {
			if isUnsafe(r) && r != '\u200c' && r != '\u200d' {
				t.Fatalf("%q keeps %q", s, r)
			}
		}
		if printable.Lines(c) != c {
			t.Fatalf("%q is cleaned to %q and that to %q", s, c, printable.Lines(c))
		}
		if strings.Contains(escapeLine(s), "\n") {
			t.Fatalf("%q is not one line", escapeLine(s))
		}
		for _, l := range append(wrap(c, "> ", 40), argumentLines([]byte(s), 40)...) {
			if ansi.StringWidth(l) > 40 {
				t.Fatalf("%q has %d columns", l, ansi.StringWidth(l))
			}
		}
	})
}

// FuzzEditable checks that the text for editing is the same document.
func FuzzEditable(f *testing.F) {
	f.Add([]byte(`{"command":"echo \u001b[2J` + "\u202e\u009b\U000E0001" + `","n":1.0}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) || !bytes.Equal(raw, bytes.ToValidUTF8(raw, nil)) {
			return
		}
		text := editableJSON(raw)
		for _, r := range text {
			if isUnsafe(r) {
				t.Fatalf("%q keeps %q", text, r)
			}
		}
		var was, is any
		if err := json.Unmarshal(raw, &was); err != nil {
			return // a number that fits in no type
		}
		if err := json.Unmarshal([]byte(text), &is); err != nil || !reflect.DeepEqual(was, is) {
			t.Fatalf("%q became %q: %v", raw, text, err)
		}
	})
}
