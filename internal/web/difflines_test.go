package web

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"
)

func diffOf(old, now string) *lineDiff {
	d := &lineDiff{}
	d.parse(string(diff.Diff("a", []byte(old), "b", []byte(now))))
	return d
}

// drawn writes the lines of a difference with their changed words in brackets.
func drawn(lines []diffLine) string {
	var b strings.Builder
	for _, l := range lines {
		units := utf16.Encode([]rune(l.text))
		fmt.Fprintf(&b, "%c%d,%d ", l.op, l.old, l.now)
		at := 0
		for _, r := range l.ranges {
			b.WriteString(string(utf16.Decode(units[at:r[0]])) + "[" + string(utf16.Decode(units[r[0]:r[1]])) + "]")
			at = r[1]
		}
		b.WriteString(string(utf16.Decode(units[at:])) + "\n")
	}
	return b.String()
}

func TestChangedWords(t *testing.T) {
	d := diffOf("same\nx := count(\"🙂 a\", 1)\nremoved\nend\n", "same\nx := total(\"🙂 a\", 2)\nnew word\nend")
	want := "@0,0 @@ -1,4 +1,4 @@\n" + ` 1,1 same
-2,0 x := [count]("🙂 a", [1])
-3,0 removed
-4,0 end
+0,2 x := [total]("🙂 a", [2])
+0,3 new word
+0,4 end
\0,0 \ No newline at end of file
`
	if got := drawn(d.window(0, 100)); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
	if d.added != 3 || d.removed != 3 {
		t.Errorf("%d added, %d removed", d.added, d.removed)
	}
}

// TestWindowsOfADifference checks that windows of any size have the lines of the whole.
func TestWindowsOfADifference(t *testing.T) {
	var old, now strings.Builder
	for i := range 300 {
		fmt.Fprintf(&old, "line %d of the file\n", i)
		fmt.Fprintf(&now, "line %d of a file\n", i+i%3)
	}
	d := diffOf(old.String(), now.String())
	whole := drawn(d.window(0, len(d.all)))
	for _, n := range []int{1, 7, 2000} {
		var parts strings.Builder
		for at := 0; at < len(d.all); at += n {
			parts.WriteString(drawn(d.window(at, n)))
		}
		if parts.String() != whole {
			t.Errorf("windows of %d lines differ from the whole", n)
		}
	}
	if strings.Count(whole, "[") == 0 {
		t.Error("no words are marked")
	}
}

// TestHostileLines checks the bounds: a line of 10 MB, bytes that are not UTF-8, and many replaced lines.
func TestHostileLines(t *testing.T) {
	d := diffOf(strings.Repeat("a ", 5<<20)+"\n", strings.Repeat("b ", 5<<20)+"\n\xff\xfe\u202e\n")
	for _, l := range d.window(0, 100) {
		if len(l.text) > maxLine || !utf8.ValidString(l.text) {
			t.Errorf("a line of %d bytes", len(l.text))
		}
		data, err := json.Marshal(l)
		if err != nil || !json.Valid(data) {
			t.Errorf("%v", err)
		}
	}
	if first := d.window(1, 1)[0]; first.bytes != 10<<20 {
		t.Errorf("the long line has %d bytes", first.bytes)
	}
	many := diffOf(strings.Repeat("a b c d\n", 50_000), strings.Repeat("a b x d\n", 50_000))
	if n := len(many.window(40_000, 2000)); n != 2000 || many.removed != 50_000 {
		t.Errorf("%d lines, %d removed", n, many.removed)
	}
}

func FuzzChangedWords(f *testing.F) {
	f.Add("a b", "a c")
	f.Add("🙂x", "🙂y")
	f.Fuzz(func(t *testing.T, line, other string) {
		line, other = shownLine(line), shownLine(other)
		units := len(utf16.Encode([]rune(line)))
		last := 0
		for _, r := range changedWords(line, other) {
			if r[0] < last || r[1] <= r[0] || r[1] > units {
				t.Fatalf("%v in %d units", r, units)
			}
			last = r[1]
		}
		if line == other && changedWords(line, other) != nil {
			t.Fatal("equal lines differ")
		}
	})
}

func TestLRU(t *testing.T) {
	c := newLRU[string, int](10)
	c.put("a", 1, 4)
	c.put("b", 2, 4)
	c.get("a")
	c.put("c", 3, 4)
	c.put("d", 4, 11)
	var have []string
	for _, k := range []string{"a", "b", "c", "d"} {
		if _, ok := c.get(k); ok {
			have = append(have, k)
		}
	}
	c.put("a", 5, 1)
	if v, _ := c.get("a"); !slices.Equal(have, []string{"a", "c"}) || v != 5 || c.used != 5 {
		t.Errorf("%v, %d, %d", have, v, c.used)
	}
}
