package gitignore_test

import (
	"path"
	"strings"
	"testing"

	"github.com/dalsegno/segno/workspace/internal/gitignore"
)

// TestPatterns has a case for each rule that is easy to get wrong. TestTheVerdictsAreGits compares
// with git.
func TestPatterns(t *testing.T) {
	const none, ignored, kept = gitignore.None, gitignore.Ignored, gitignore.Kept
	for _, c := range []struct {
		file, path string
		dir        bool
		want       gitignore.Verdict
	}{
		{`\*`, "a", false, none},
		{`\*`, "*", false, ignored},
		{"[!a]", "a", false, none},
		{"[!a]", "b", false, ignored},
		{"[^a]", "b", false, ignored},
		{"[[:digit:]]", "7", false, ignored},
		{"*.log", "d/x.log", false, ignored},
		{"/*.log", "d/x.log", false, none},
		{"d/*.log", "d/x.log", false, ignored},
		{"d/*.log", "d/e/x.log", false, none},
		{"d/**/x.log", "d/x.log", false, ignored},
		{"d/**", "d", true, none},
		{"d/", "d", true, ignored},
		{"d/", "d", false, none},
		{"*.log\n!k.log", "k.log", false, kept},
		{`\#a`, "#a", false, ignored},
		{"#a", "#a", false, none},
		{`\!a`, "!a", false, ignored},
		{"a  ", "a", false, ignored},
		{`a\ `, "a ", false, ignored},
		{"a\t", "a", false, none},
		{"a\r\n", "a", false, ignored},
		{"a\\", "a", false, none},
		{"\xef\xbb\xbfa", "a", false, ignored},
		{"[a", "[a", false, none},
		{"*.log", "a/b/x.log", false, ignored},
		{"!x.log\n*.log", "a/x.log", false, ignored},
		{"/x", "x", false, ignored},
		{"/x", "a/x", false, none},
		{"a/x", "b/a/x", false, none},
		{"x/", "a/x", true, ignored},
		{"a/**/x", "a/b/c/x", false, ignored},
		{"a/**", "a/b/c", false, ignored},
		{"**/x", "x", false, ignored},
		{"x*y", "x/y", false, none},
		{"", "a", false, none},
		{"/", "a", true, none},
	} {
		if got := gitignore.Parse([]byte(c.file)).Match(c.path, c.dir); got != c.want {
			t.Errorf("%q on %q: %d, want %d", c.file, c.path, got, c.want)
		}
	}
}

// TestManyAsterisksTakeBoundedTime matches patterns for which a backtracking matcher
// would take years.
func TestManyAsterisksTakeBoundedTime(t *testing.T) {
	for _, unit := range []string{"*a", "**/a", "**/*a", "?*"} {
		l := gitignore.Parse([]byte("/" + strings.Repeat(unit, 2000) + "b"))
		if got := l.Match(strings.Repeat("a/a", 1300)+"c", false); got != gitignore.None {
			t.Errorf("%q many times: %d", unit, got)
		}
	}
}

// FuzzDecide tries arbitrary ignore files and paths. Decide must not panic, and every path below an
// ignored directory must be ignored.
func FuzzDecide(f *testing.F) {
	for _, seed := range []struct{ file, path string }{
		{"*.log\n!/a/b.log\n", "a/b.log"}, {"a/**/b\n**/c/\n[!a-c]\n", "a/x/b"}, {"[[:alpha:]]\n\\", "q"}, {"**/**/***/a/**", "x/a/y"}, {"[]-a]\n[!]]\n[a-", "]"},
	} {
		f.Add([]byte(seed.file), []byte("!b*"), seed.path)
	}
	f.Fuzz(func(t *testing.T, file, deeper []byte, at string) {
		lists := map[string]*gitignore.List{"": gitignore.Parse(file), "a": gitignore.Parse(deeper)}
		r := gitignore.Rules{In: func(dir string) *gitignore.List { return lists[dir] }, Shared: []*gitignore.List{lists["a"]}}
		got := r.Decide(at, false)
		if path.IsAbs(at) || path.Clean(at) != at || strings.HasPrefix(at, "..") || at == "." {
			return // not a path of a tree
		}
		for dir := path.Dir(at); dir != "."; dir = path.Dir(dir) {
			if above := r.Decide(dir, true); above == gitignore.Ignored && above != got {
				t.Fatalf("%q is ignored, and the verdict about %q below it is %d", dir, at, got)
			}
		}
	})
}
