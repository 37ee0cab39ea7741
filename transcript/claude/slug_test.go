package claude_test

import (
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/dalsegno/segno/transcript/claude"
)

func TestSlug(t *testing.T) {
	long := "/srv/" + strings.Repeat("deep/", 50)
	for _, c := range []struct{ dir, want string }{
		{"/srv/dev/code/proj", "-srv-dev-code-proj"},
		{"/a.b_c d", "-a-b-c-d"},
		{"/Case/KEPT", "-Case-KEPT"},
		{"/é", "--"},
		{"/e\u0301", "-e-"},
		{"/日本", "---"},
		{"/😀", "---"},
		{"/a\nb", "-a-b"},
		{"/" + strings.Repeat("x", 199), "-" + strings.Repeat("x", 199)},
		{"/" + strings.Repeat("x", 200), "-" + strings.Repeat("x", 199) + "-d0i18x"},
		{long, "-srv-" + strings.Repeat("deep-", 39) + "-f48fs7"},
	} {
		if got := claude.Slug(c.dir); got != c.want {
			t.Errorf("Slug(%q) = %q, want %q", c.dir, got, c.want)
		}
	}
}

// FuzzSlug compares Slug with the rule in the agent's source: one replacement per UTF-16
// unit, and a checksum for names longer than 200.
func FuzzSlug(f *testing.F) {
	f.Add("/srv/a.b")
	f.Add("/😀" + strings.Repeat("é", 300))
	f.Fuzz(func(t *testing.T, dir string) {
		units := utf16.Encode([]rune(dir))
		got := claude.Slug(dir)
		if len(units) <= 200 && len(got) != len(units) {
			t.Fatalf("%d units became %d", len(units), len(got))
		}
		if len(units) > 200 && (len(got) < 202 || len(got) > 207 || got[200] != '-') {
			t.Fatalf("%q is no shortened name", got)
		}
		for i, u := range units[:min(200, len(units))] {
			kept := u < 128 && strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", rune(u))
			if kept && got[i] != byte(u) || !kept && got[i] != '-' {
				t.Fatalf("unit %d of %q became %q", i, dir, got[i])
			}
		}
	})
}
