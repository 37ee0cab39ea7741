package file

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

func TestNames(t *testing.T) {
	for id, want := range map[segno.ThreadID]string{
		"session-123": "session-123", "a/b": "a%2fb", "a_b": "a_b", "a:b": "a%3ab", "a%2fb": "a%252fb", "A": "%41", "a": "a", "..": "%2e%2e",
		".git": "%2egit", "a.b": "a.b", "a.": "a%2e", "con": "%63on", "con.txt": "%63on.txt", "console": "console", "com1": "%63om1", "com10": "com10",
		"NUL": "%4e%55%4c", " ": "%20", "é": "%c3%a9", "\x00": "%00",
		segno.ThreadID(strings.Repeat("x", 200)): strings.Repeat("x", 200),
		segno.ThreadID(strings.Repeat("x", 201)): strings.Repeat("x", 100) + "%~84a0678c90937f5dcf9994d5866668da",
	} {
		got := nameOf(id)
		if got != want {
			t.Errorf("%q is %q instead of %q", id, got, want)
		}
		if len(got) > 255 {
			t.Errorf("the name of %q has %d bytes", id, len(got))
		}
	}
}

// TestSimilarIDs creates threads with ids that are easily confused in file names, and lists them.
func TestSimilarIDs(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("long ", 60)
	var want []segno.ThreadID
	s := open(t, dir, Options{FS: noSync{vfs.OS}})
	for _, id := range []string{"a/b", "a_b", "a:b", "a%2fb", "user:42", "thread/with:special*chars?", "Project", "project", "日本", "中国", "con", "CON", long + "1", long + "2"} {
		mustCommit(t, s, baseCommit(id))
		want = append(want, segno.ThreadID(id))
	}
	slices.Sort(want)
	closeStore(t, s)
	for _, cached := range []bool{true, false} {
		if !cached {
			must(t, os.Remove(filepath.Join(dir, "changes")))
		}
		s = open(t, dir, Options{FS: noSync{vfs.OS}})
		got, err := threadsOf(t, s)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("listed are %q, %v", got, err)
		}
		for _, id := range want {
			if head := headOf(t, s, id); head.Thread != id || head.Head != segno.CommitID("base of "+id) {
				t.Fatalf("the head of %q is %v", id, head)
			}
		}
		closeStore(t, s)
	}
	des, err := os.ReadDir(filepath.Join(dir, "threads"))
	must(t, err)
	seen := map[string]bool{}
	for _, de := range des {
		lower := strings.ToLower(de.Name())
		if seen[lower] || len(lower) > 255 {
			t.Errorf("%q is another's where case is ignored, or too long", de.Name())
		}
		seen[lower] = true
	}
}

func FuzzName(f *testing.F) {
	for _, seed := range []string{"a/b", "a_b", "CON", "com1.txt", "..", "%", "a%2fb", "é", strings.Repeat("x", 300)} {
		f.Add(seed, seed+".")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if segno.CheckID("", a) != nil || segno.CheckID("", b) != nil {
			return
		}
		x, y := nameOf(segno.ThreadID(a)), nameOf(segno.ThreadID(b))
		if a != b && strings.EqualFold(x, y) {
			t.Fatalf("%q and %q are both %q", a, b, x)
		}
		if x != filepath.Base(x) || x == "." || x == ".." || len(x) > 255 {
			t.Fatalf("%q is no name", x)
		}
	})
}
