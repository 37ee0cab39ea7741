package cli

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno/internal/history/printable"
)

func TestQuotePath(t *testing.T) {
	for path, want := range map[string]string{
		"src/a.go": "src/a.go", "sp ace": "sp ace", "naïve": "naïve", "*": "*", "-dash": "-dash",
		"new\nline": `"new\nline"`, "caf\xe9": `"caf\351"`, `q"uote`: `"q\"uote"`, `back\slash`: `"back\\slash"`,
		" ": `" "`, "end ": `"end "`, "esc\x1b[2J": `"esc\033[2J"`, "evil\u202etxt.exe": `"evil\342\200\256txt.exe"`,
	} {
		if got := QuotePath(path); got != want {
			t.Errorf("QuotePath(%q) = %s, want %s", path, got, want)
		}
	}
	for _, bad := range []string{"", `"`, "plain", `"a`, `"a"b"`, `"\"`, `"\q"`, `"\12"`, `"\400"`} {
		if got, ok := UnquotePath(bad); ok {
			t.Errorf("UnquotePath(%s) = %q", bad, got)
		}
	}
}

// TestQuotedPathsAreReadBack checks that a printed path names the same file, and contains no
// control characters.
func TestQuotedPathsAreReadBack(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		path := string(rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(r, "path"))
		quoted := QuotePath(path)
		if got, ok := UnquotePath(quoted); quoted != path && (!ok || got != path) {
			r.Fatalf("%q is printed as %s and read as %q", path, quoted, got)
		}
		if strings.ContainsFunc(quoted, printable.IsUnsafe) {
			r.Fatalf("%q is printed as %q", path, quoted)
		}
	})
}
