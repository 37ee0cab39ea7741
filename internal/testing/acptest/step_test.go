package acptest

import (
	"testing"

	"github.com/dalsegno/segno/internal/proxy/acp"
)

func TestDirectivesAreFoundInAnyText(t *testing.T) {
	d := Directive(Say("a >> ]b"), Do("x"))
	for name, c := range map[string]struct {
		text  string
		found int
		rest  string
	}{
		"plain":     {"before " + d + " behind", 1, "before  behind"},
		"two":       {d + d, 2, ""},
		"quoted":    {"he said " + string(acp.Encode(Directive(Do("x")))) + ".", 1, `he said "".`},
		"no end":    {"before " + d[:len(d)-6], 0, "before "},
		"cut":       {`<<acp [{"tool":"led … ine":"x"}]>> behind`, 0, " behind"},
		"none":      {"<< acp >>", 0, "<< acp >>"},
		"a string":  {`<<acp ["a",{"text":"b"}]>>`, 1, ""},
		"of spaces": {"<<acp [ \"a\" ]>>", 1, ""},
	} {
		found, rest, err := directives(c.text)
		if err != nil || len(found) != c.found || rest != c.rest {
			t.Errorf("%s: %d found, rest %q, %v", name, len(found), rest, err)
		}
	}
	for _, wrong := range []string{`<<acp [{"txt":"a"}]>>`, `<<acp ["a",]>>`, `<<acp ["a"] >>`} {
		if _, _, err := directives(wrong); err == nil {
			t.Errorf("%s: no error", wrong)
		}
	}
}

func TestWordsAreNamedWhole(t *testing.T) {
	for text, want := range map[string]bool{"appended line-1.": true, "line-1": true, "line-10": false, "a-line-1": false, "(line-1)": true,
		"line-10, line-1": true, "": false} {
		if names(text, "line-1") != want {
			t.Errorf("%q names it: %v", text, !want)
		}
	}
}
