package tool_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestGlob(t *testing.T) {
	both(t, func(r *rig) {
		for _, name := range []string{"main.go", "README.md", "src/a.go", "src/b.ts", "src/deep/er/c.go", "src/deep/d.tsx", "src-x/e.go", ".hidden/f.go"} {
			r.do("write_file", "path", name, "content", "x")
		}
		for _, c := range []struct{ want, pattern, path string }{
			{"main.go", "*.go", ""},
			{".hidden/f.go main.go src/a.go src/deep/er/c.go src-x/e.go", "**/*.go", ""},
			{"src/a.go src/deep/er/c.go", "**/*.go", "src"},
			{"src/a.go src/deep/er/c.go", "/src/**/*.go", "src-x"},
			{"src/b.ts src/deep/d.tsx", "src/**/*.{ts,tsx}", ""},
			{"src/deep/er/c.go", "src/**/er/**", ""},
			{"src/a.go", "src/[ab].go", "/"},
			{"src/a.go", "?.go", "/src/"},
			{"README.md", "README.md", ""},
			{"src/deep/er/c.go src/deep/d.tsx", "src/deep", ""},
			{"src/a.go", "a.go", "src"},
			{"main.go", "*.go", "main.go"},
			{"src/a.go src/deep/d.tsx", "src/{a.{go,rs},deep/*.tsx}", ""},
			{"main.go", "./*.go", "."},
			{"main.go", "{main}.go", ""},
			{"main.go", `ma\in.g{o,\,}`, ""},
		} {
			got := strings.Join(strings.Fields(r.do("glob", "pattern", c.pattern, "path", c.path)), " ")
			if strings.HasPrefix(got, "no files match") {
				got = ""
			}
			if sortWords(got) != sortWords(c.want) {
				r.t.Errorf("%s in %q finds %q, want %q", c.pattern, c.path, got, c.want)
			}
		}
		r.wants("src/a.go\nsrc/b.ts\nsrc/deep/d.tsx\nsrc/deep/er/c.go", "glob", "pattern", "src/**")
		if ev := r.last(); ev.Kind != "glob" || ev.Pattern != "src/**" || ev.Count != 4 {
			r.t.Errorf("the event is %+v", ev)
		}
		r.wants("no files match *.rs; **/*.rs looks at any depth", "glob", "pattern", "*.rs")
		r.wants("no files match **/*.rs", "glob", "pattern", "**/*.rs")
		r.fails([]string{"[a", "not closed"}, "glob", "pattern", "src/[a")
		r.fails([]string{"{main.go", "not closed"}, "glob", "pattern", "{main.go")
		r.fails([]string{"alternatives"}, "glob", "pattern", strings.Repeat("{a,b}", 30))
		r.fails([]string{"missing pattern"}, "glob")
		r.fails([]string{"leaves the root"}, "glob", "pattern", "../*")
	})
}

func sortWords(s string) string {
	words := strings.Fields(s)
	slices.Sort(words)
	return strings.Join(words, " ")
}

func TestGlobIsLimited(t *testing.T) {
	r := inState(t)
	for i := range 1001 {
		r.state.Set(fmt.Sprintf("files/d/%04d", i), map[string]string{"text": ""})
	}
	got := strings.Split(r.do("glob", "pattern", "**"), "\n")
	if len(got) != 1001 || got[0] != "d/0000" || got[999] != "d/0999" || !strings.Contains(got[1000], "only the first 1000") {
		t.Errorf("%d lines, the last %q", len(got), got[len(got)-1])
	}
	if got := r.do("glob", "pattern", "d/0*"); strings.Count(got, "\n") != 999 || strings.Contains(got, "first") {
		t.Errorf("exactly 1000 are %d lines", strings.Count(got, "\n")+1)
	}
}

func TestGrep(t *testing.T) {
	both(t, func(r *rig) {
		r.do("write_file", "path", "a.go", "content", "package a\n\nfunc A() {}\n")
		r.do("write_file", "path", "sub/b.go", "content", "package b\nfunc B() {}")
		r.do("write_file", "path", "sub/c.txt", "content", "FUNC in text\r\n")
		r.wants("a.go:3:func A() {}\nsub/b.go:2:func B() {}", "grep", "pattern", `^func [A-Z]\(`)
		if ev := r.last(); ev.Kind != "grep" || ev.Pattern != `^func [A-Z]\(` || ev.Count != 2 {
			r.t.Errorf("the event is %+v", ev)
		}
		r.wants("sub/b.go:2:func B() {}\nsub/c.txt:1:FUNC in text", "grep", "pattern", "(?i)func", "path", "sub")
		r.wants("sub/b.go:2:func B() {}", "grep", "pattern", "(?i)func", "path", "sub", "include", "*.go")
		r.wants("sub/b.go:2:func B() {}", "grep", "pattern", "func", "include", "sub/**")
		r.wants("a.go:3:func A() {}\nsub/b.go:2:func B() {}", "grep", "pattern", "func", "include", "*.{go,md}")
		r.wants("sub/c.txt:1:FUNC in text", "grep", "pattern", "text$", "path", "sub/c.txt")
		r.wants("no matches", "grep", "pattern", "nowhere")
		r.fails([]string{"pattern func( is not a regular expression", "missing closing )", "backslash"}, "grep", "pattern", "func(")
		r.fails([]string{`invalid or unsupported Perl syntax`}, "grep", "pattern", `(?=x)`)
		r.fails([]string{"[x", "not closed"}, "grep", "pattern", "x", "include", "[x")
		r.fails([]string{"missing pattern"}, "grep")
	})
}

func TestGrepIsLimited(t *testing.T) {
	both(t, func(r *rig) {
		r.do("write_file", "path", "many", "content", strings.Repeat("hit\n", 501))
		got := r.do("grep", "pattern", "hit")
		if strings.Count(got, "many:") != 500 || !strings.Contains(got, "only the first 500") {
			r.t.Errorf("%d lines, the last %q", strings.Count(got, "\n"), got[strings.LastIndexByte(got, '\n')+1:])
		}
		r.do("write_file", "path", "wide", "content", strings.Repeat("ü", 50_000)+"needle"+strings.Repeat("y", 50_000))
		got = r.do("grep", "pattern", "needle")
		if !strings.HasPrefix(got, "wide:1:… ") || !strings.Contains(got, "needle") || len(got) > 700 || strings.Contains(got, "\uFFFD") {
			r.t.Errorf("a match in a wide line is shown as %q", got)
		}
	})
}

// FuzzGlob compares the tool with patterns translated into regular expressions.
func FuzzGlob(f *testing.F) {
	for _, s := range [][2]string{{"**/a", "a"}, {"a/**/b/**/c", "a/b/b/x/c"}, {"**/*.go", "x/y.go"}, {"a/**", "a"}, {"**", "q"}, {"*/**/?", "a/b/c"}, {"**/**/b", "b"}, {"a**b", "axb"}, {"a/*", "a"}, {"a/b/**", "a/b"}, {"a/**/**", "a"}} {
		f.Add(s[0], s[1])
	}
	unfit := regexp.MustCompile(`[^ab*?/]|\*\*\*|^/|//|/$|^$`)
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if unfit.MatchString(pattern) || unfit.MatchString(name) || strings.ContainsAny(name, "*?") || !strings.ContainsAny(pattern, "*?") || len(pattern)+len(name) > 60 {
			return
		}
		r := inState(t)
		r.do("write_file", "path", name, "content", "x")
		var got bool
		if res, err := r.call(t.Context(), "glob", arguments(t, []any{"pattern", pattern})); err != nil {
			got = false // the names before the first wildcard do not exist
		} else {
			got = res.Text == name
		}
		if want := asRegexp(pattern).MatchString(name); got != want {
			t.Errorf("%s matches %s: %v, want %v", pattern, name, got, want)
		}
	})
}

func asRegexp(pattern string) *regexp.Regexp {
	var b strings.Builder
	segments := slices.CompactFunc(strings.Split(pattern, "/"), func(a, b string) bool { return a == "**" && b == "**" })
	for i, s := range segments {
		switch last := i == len(segments)-1; {
		case s == "**" && last && i == 0:
			b.WriteString(".+")
		case s == "**" && last:
			// The slash before the element is removed with it.
			text := strings.TrimSuffix(b.String(), "/")
			b.Reset()
			b.WriteString(text + "(/.+)?")
		case s == "**":
			b.WriteString("([^/]+/)*")
		default:
			b.WriteString(strings.NewReplacer("*", "[^/]*", "?", "[^/]").Replace(s))
			if !last {
				b.WriteString("/")
			}
		}
	}
	return regexp.MustCompile("^(" + b.String() + ")$")
}
