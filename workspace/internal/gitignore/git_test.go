package gitignore_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/workspace/internal/gitignore"
)

// TestTheVerdictsAreGits generates ignore files and paths and compares each verdict
// with that of git check-ignore.
func TestTheVerdictsAreGits(t *testing.T) {
	const paths = 200
	seeds := soak.Seeds(t, 50, 2000)
	verdicts := len(seeds) * paths
	repo := newRepo(t)
	counts := map[gitignore.Verdict]int{}
	for _, seed := range seeds {
		g := &generator{rand.New(rand.NewPCG(seed, 9))}
		repo.write(g)
		if bad := repo.compare(g.paths(paths), counts); bad > 0 {
			t.Fatalf("seed %d: %d of %d verdicts differ", seed, bad, paths)
		}
	}
	for _, v := range []gitignore.Verdict{gitignore.None, gitignore.Ignored, gitignore.Kept} {
		if counts[v] < verdicts/500 && verdicts >= 10_000 { // the rarest are 6 % on average; the verdicts of one seed are similar
			t.Errorf("only %d of %d verdicts are %d; the generator tests too little", counts[v], verdicts, v)
		}
	}
}

// repo is a git repository with ignore files everywhere git looks for them.
type repo struct {
	t     *testing.T
	dir   string
	rules map[string][]byte // text by the path of the ignore file, relative to dir
	dirs  map[string]bool   // the paths that are directories on disk
}

const (
	info = ".git/info/exclude"
	user = ".git/user" // used as core.excludesFile
)

func newRepo(t *testing.T) *repo {
	r := &repo{t: t, dir: t.TempDir(), dirs: map[string]bool{}}
	r.git(nil, "init", "-q")
	r.git(nil, "config", "core.excludesFile", filepath.Join(r.dir, user))
	g := &generator{rand.New(rand.NewPCG(1, 1))}
	for range 150 { // some of the paths are directories, the others do not exist
		dir := g.path()
		for at := dir; at != "."; at = filepath.Dir(at) {
			r.dirs[at] = true
		}
		if err := os.MkdirAll(filepath.Join(r.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *repo) git(in []byte, args ...string) []byte {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = r.dir, bytes.NewReader(in)
	cmd.Env = append(without(os.Environ(), "GIT_"), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && (args[0] != "check-ignore" || stderr.Len() > 0) {
		r.t.Fatalf("git %q: %v %s", args, err, stderr.String())
	}
	return out
}

func without(env []string, prefix string) (out []string) {
	for _, kv := range env {
		if !strings.HasPrefix(kv, prefix) {
			out = append(out, kv)
		}
	}
	return out
}

// write replaces the ignore files.
func (r *repo) write(g *generator) {
	for file := range r.rules {
		if err := os.Remove(filepath.Join(r.dir, file)); err != nil {
			r.t.Fatal(err)
		}
	}
	r.rules = map[string][]byte{}
	files := []string{".gitignore"}
	if g.IntN(2) == 0 {
		files = append(files, info)
	}
	if g.IntN(3) == 0 {
		files = append(files, user)
	}
	for dir := range r.dirs {
		if len(files) < 8 && g.IntN(40) == 0 {
			files = append(files, dir+"/.gitignore")
		}
	}
	for _, file := range files {
		r.rules[file] = g.file()
		if err := os.WriteFile(filepath.Join(r.dir, file), r.rules[file], 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
}

// compare compares the verdicts of git and of the package, and returns the number of differences.
func (r *repo) compare(paths []string, counts map[gitignore.Verdict]int) (bad int) {
	parsed := map[string]*gitignore.List{}
	for file, text := range r.rules {
		parsed[file] = gitignore.Parse(text)
	}
	rules := gitignore.Rules{Shared: []*gitignore.List{parsed[info], parsed[user]},
		In: func(dir string) *gitignore.List { return parsed[filepath.Join(dir, ".gitignore")] }}
	out := r.git([]byte(strings.Join(paths, "\x00")+"\x00"), "check-ignore", "-v", "-n", "-z", "--stdin")
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(fields) != 4*len(paths) {
		r.t.Fatalf("%d fields for %d paths", len(fields), len(paths))
	}
	for i, path := range paths {
		pattern := fields[4*i+2]
		want := gitignore.Ignored
		switch {
		case pattern == "":
			want = gitignore.None
		case strings.HasPrefix(pattern, "!"):
			want = gitignore.Kept
		}
		got := rules.Decide(path, r.dirs[path])
		counts[got]++
		if got != want {
			if bad++; bad < 5 {
				r.t.Errorf("%q: the verdict is %d, git's is %d by %q\nfiles %q", path, got, want, pattern, r.rules)
			}
		}
	}
	return bad
}

// generator makes ignore files and paths from only a few names, so that they often match.
type generator struct{ *rand.Rand }

func (g *generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g *generator) name() string {
	return g.pick("a", "b", "ab", "abc", "foo", "bar", "foo", "a.b", "x.log", "y.log", "#a", "!a", `a\`, "[a]", "a b", "a ", "é", "\xff",
		"A", "-", "]", "^", "*", "**", "a*", "?", "f", "9", "\t", "\x7f", ".a", "a-b", "[", `\`, `\a`, "\r", "a\r", "-]", "ü")
}

// path returns a normalized path with few components. git requires normalized paths on its standard
// input.
func (g *generator) path() string {
	n := 1 + g.IntN(4)
	names := make([]string, n)
	for i := range names {
		names[i] = g.name()
	}
	return strings.Join(names, "/")
}

func (g *generator) paths(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = g.path()
	}
	return out
}

func (g *generator) file() []byte {
	var b strings.Builder
	if g.IntN(10) == 0 {
		b.WriteString("\xef\xbb\xbf")
	}
	for range 1 + g.IntN(10) {
		b.WriteString(g.line())
		b.WriteString(g.pick("\n", "\n", "\n", "\n", "\n", "\r\n", "\r\r\n", "\n\n"))
	}
	if g.IntN(3) == 0 {
		b.WriteString(g.line())
	}
	return []byte(b.String())
}

func (g *generator) line() string {
	s := g.pick("", "", "", "", "", "", "!", "!", "!", "/", "/", "#", " ", `\`, "!/", "**/", "!**/")
	for range 1 + g.IntN(3) {
		s += g.component()
		s += g.pick("", "", "/", "/", "/**/", "/**", "**/", "//", "*", "**", `\/`)
	}
	return s + g.pick("", "", "", "", "/", " ", "  ", `\ `, `\`, `\\ `, "\t", "\x00", "\x00a", "/ ", "**", "*")
}

func (g *generator) component() (s string) {
	for range 1 + g.IntN(3) {
		s += g.pick(g.name(), g.name(), g.name(), "*", "*", "?", "**", "***", g.class(), g.class(), `\*`, `\a`, `\\`, `\[`, "a", "b", "f")
	}
	return s
}

func (g *generator) class() string {
	s := "[" + g.pick("", "", "", "!", "^", "]", "!]", "-")
	for range g.IntN(4) {
		s += g.pick("a", "b", "f", "a-f", "o", "!", "^", "-", "/", "[", `\]`, `\\`, `\-`, "b-a", "[:alpha:]", "[:alnum:]", "[:digit:]", "[:space:]",
			"[:punct:]", "[:upper:]", "[:lower:]", "[:print:]", "[:graph:]", "[:cntrl:]", "[:blank:]", "[:xdigit:]", "[:foo:]", "[:]", "[::]", "[:a",
			`a-\f`, "\xc3", "\xff", "9", ".", " ")
	}
	return s + g.pick("]", "]", "]", "]", "]", "]", "")
}
