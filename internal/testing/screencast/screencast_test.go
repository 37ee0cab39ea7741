package screencast

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParse compares what a terminal shows with what it received.
func TestParse(t *testing.T) {
	for output, want := range map[string][][]span{
		"":                           {},
		"a\r\n\x1b[?25h":             {{{"", "a"}}},
		"a\r\nb\r\n":                 {{{"", "a"}}, {{"", "b"}}},
		"a\n\nb":                     {{{"", "a"}}, nil, {{"", "b"}}},
		"\x1b[1;32m+1\x1b[0m b":      {{{"b green", "+1"}, {"", " b"}}},
		"\x1b[2mx\x1b[my":            {{{"d", "x"}, {"", "y"}}},
		"scanning 5%\r\x1b[Kdone\n":  {{{"", "done"}}},
		"\x1b[?25l\x1b]0;title\x07x": {{{"", "x"}}},
	} {
		got, err := parse(output)
		if err != nil {
			t.Errorf("%q: %v", output, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(span{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", output, diff)
		}
	}
	for _, output := range []string{"\x1b[2Ax", "a\x1b[5;5H", "\x1b("} {
		if got, err := parse(output); err == nil {
			t.Errorf("%q is read as %v", output, got)
		}
	}
}

func TestWrap(t *testing.T) {
	got := wrap([]span{{"b", "äbcd"}, {"", "efgh"}}, 3)
	if diff := cmp.Diff([][]span{{{"b", "äbc"}}, {{"b", "d"}, {"", "ef"}}, {{"", "gh"}}}, got, cmp.AllowUnexported(span{})); diff != "" {
		t.Error(diff)
	}
}

// TestDraw checks that the image is well-formed, and that it has each text, escaped.
func TestDraw(t *testing.T) {
	image, err := Draw("a <title>", 80, []Step{{"echo '<&>'", "<&>\r\n"}, {"echo later", "later"}})
	if err != nil {
		t.Fatal(err)
	}
	// The cover of a command has the place of its line: the first is at the margin.
	for _, want := range []string{`<rect class="cover t0" x="32.8" y="16" width="84.0" height="20"/>`, `<text x="16" y="31"`,
		`<rect class="cover t2" x="32.8" y="64" width="84.0" height="20"/>`, `<text x="16" y="79"`} {
		if !strings.Contains(string(image), want) {
			t.Errorf("no element %s in:\n%s", want, image)
		}
	}
	var text strings.Builder
	for d := xml.NewDecoder(strings.NewReader(string(image))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, image)
		}
		if data, ok := token.(xml.CharData); ok {
			text.Write(data)
		}
	}
	for _, want := range []string{"a <title>", "$ echo '<&>'\n", "\n<&>\n", "\nlater\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no text %q in:\n%s", want, image)
		}
	}
}
