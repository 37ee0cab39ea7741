package acp_test

import (
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/proxy/acp"
)

func TestIsID(t *testing.T) {
	for id, want := range map[string]bool{"1": true, "-1": true, "1.5": true, `"a"`: true, "null": true, `{"a":1}`: false, "[1]": false, "true": false, "": false} {
		if acp.IsID(id) != want {
			t.Errorf("%q: %v", id, !want)
		}
	}
}

func TestExtractMessages(t *testing.T) {
	const a, b = `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","method":"x","params":{"a":[{"b":"}"}]}}`
	for line, want := range map[string]struct {
		found string
		pure  int
	}{
		"Loading..." + a:         {a, 0},
		a + "garbage":            {a, 1},
		a + b:                    {a + b, 2},
		a + " {x} " + b:          {a + b, 1},
		`{"half":` + a:           {a, 0},
		`{"no":"message"}` + a:   {a, 0},
		"nothing at all":         {"", 0},
		strings.Repeat("{", 99):  {"", 0},
		`{"jsonrpc":"2.0","id":`: {"", 0},
	} {
		got, pure := acp.ExtractMessages([]byte(line + "\n"))
		text := ""
		for _, m := range got {
			text += strings.TrimSpace(string(m.Line))
		}
		if text != want.found || pure != want.pure {
			t.Errorf("%q: found %q, %d pure", line, text, pure)
		}
	}
}
