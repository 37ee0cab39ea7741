package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/tool"
)

func TestAFileIsWrittenReadAndOverwritten(t *testing.T) {
	both(t, func(r *rig) {
		r.wants("wrote a/b/c.txt (8 bytes)", "write_file", "path", "/a/b/c.txt", "content", "one\ntwo\n")
		r.wants("     1\tone\n     2\ttwo", "read_file", "path", "a/b/c.txt")
		r.do("write_file", "path", "a//b/./c.txt", "content", "three")
		r.wants("     1\tthree", "read_file", "path", "a/b/x/../c.txt")
		r.wants("(the file is empty)", "read_file", "path", func() string {
			r.do("write_file", "path", "empty", "content", "")
			return "empty"
		}())
		want := []agent.EventKind{"file-write-start", tool.EventFileWritten, "file-read"}
		if got := r.told()[:3]; !reflect.DeepEqual(got, want) {
			r.t.Errorf("the events are %v, want %v", got, want)
		}
		if ev := r.events[1]; ev.Path != "a/b/c.txt" || ev.Count != 8 {
			r.t.Errorf("file-written says %+v", ev)
		}
		if ev := r.events[2]; ev.Path != "a/b/c.txt" || ev.Count != 2 {
			r.t.Errorf("file-read says %+v", ev)
		}
	})
}

func TestNamesWithSpecialCharactersStayApart(t *testing.T) {
	names := []string{"thread/with:special*chars?", "a_b", "a:b", "a%2Fb", "日本", "中国", `back\slash`, "new\nline", " space ", "-rf", ".hidden", "A_B"}
	both(t, func(r *rig) {
		for _, name := range names {
			r.do("write_file", "path", name, "content", "I am "+name)
		}
		for _, name := range names {
			if got := r.do("read_file", "path", name); !strings.Contains(strings.ReplaceAll(got, "\n     2\t", "\n"), "I am "+name) {
				r.t.Errorf("%q reads as %q", name, got)
			}
		}
		if got := strings.Split(r.do("glob", "pattern", "**"), "\n"); len(got) != len(names) {
			r.t.Errorf("glob finds %q, want %d names", got, len(names))
		}
	})
}

func TestReadingPieceByPiece(t *testing.T) {
	var text strings.Builder
	for i := 1; i <= 5000; i++ {
		fmt.Fprintf(&text, "line %d\r\n", i)
	}
	both(t, func(r *rig) {
		r.do("write_file", "path", "long", "content", text.String())
		r.wants("    11\tline 11\n    12\tline 12\n(there is more: continue with offset 12)", "read_file", "path", "long", "offset", 10, "limit", 2)
		r.wants("  4999\tline 4999\n  5000\tline 5000", "read_file", "path", "long", "offset", 4998)
		if got := r.do("read_file", "path", "long"); !strings.HasSuffix(got, "  2000\tline 2000\n(there is more: continue with offset 2000)") || strings.Count(got, "\n") != 2000 {
			r.t.Errorf("a long file ends with %q", got[len(got)-80:])
		}
		r.fails([]string{"offset 5000", "5000 lines"}, "read_file", "path", "long", "offset", 5000)
		r.fails([]string{"must not be negative"}, "read_file", "path", "long", "offset", -1)
		r.fails([]string{"must not be negative"}, "read_file", "path", "long", "limit", -5)
	})
}

func TestLongLinesAreCutAndReadingIsBounded(t *testing.T) {
	both(t, func(r *rig) {
		r.do("write_file", "path", "wide", "content", "a\n"+strings.Repeat("ü", 100_000)+"\nz")
		got := strings.Split(r.do("read_file", "path", "wide"), "\n")
		if len(got) != 3 || len(got[1]) > 2100 || !strings.HasSuffix(got[1], "ü … (200000 bytes in this line) (continue in it with offset 1 and column 2000)") || got[2] != "     3\tz" {
			r.t.Errorf("a wide line reads as %d lines, %.40q… %q", len(got), got[1], got[len(got)-1])
		}
		r.do("write_file", "path", "big", "content", strings.Repeat(strings.Repeat("x", 1999)+"\n", 500))
		text := r.do("read_file", "path", "big")
		if len(text) > 70_000 {
			r.t.Errorf("a result of %d bytes", len(text))
		}
		var next int
		if _, err := fmt.Sscanf(text[strings.LastIndexByte(text, '\n')+1:], "(there is more: continue with offset %d)", &next); err != nil || next < 30 {
			r.t.Errorf("where to continue: %d, %v in %q", next, err, text[len(text)-60:])
		}
		if got := r.do("read_file", "path", "big", "offset", next, "limit", 1); !strings.HasPrefix(got, fmt.Sprintf("%6d\tx", next+1)) {
			r.t.Errorf("it goes on with %.20q", got)
		}
	})
}

// TestALongLineIsReadPieceByPiece follows the hints through a line of many pages. The pages
// end between characters.
func TestALongLineIsReadPieceByPiece(t *testing.T) {
	line := strings.Repeat("x", 1999) + strings.Repeat("üx€", 50_000)
	both(t, func(r *rig) {
		r.do("write_file", "path", "one", "content", "first\n"+line)
		text := strings.Split(r.do("read_file", "path", "one"), "\n")[1]
		var got strings.Builder
		got.WriteString(strings.TrimPrefix(text[:strings.Index(text, " … ")], "     2\t"))
		from := text[strings.LastIndex(text, "(continue"):]
		for range 20 {
			var offset, column int
			if _, err := fmt.Sscanf(from[strings.Index(from, "offset"):], "offset %d and column %d", &offset, &column); err != nil {
				r.t.Fatalf("%q: %v", from, err)
			}
			piece, more, cut := strings.Cut(r.do("read_file", "path", "one", "offset", offset, "column", column), "\n(")
			got.WriteString(piece)
			if from = more; !cut {
				break
			}
		}
		if got.String() != line {
			r.t.Errorf("%d bytes of %d were read", got.Len(), len(line))
		}
		r.fails([]string{"column 9000000", "bytes"}, "read_file", "path", "one", "offset", 1, "column", 9_000_000)
		r.fails([]string{"no line"}, "read_file", "path", "one", "offset", 2, "column", 1)
		r.fails([]string{"2 lines"}, "read_file", "path", "one", "offset", 3, "column", 1)
	})
}

func TestMissingFiles(t *testing.T) {
	both(t, func(r *rig) {
		r.do("write_file", "path", "dir/file", "content", "x")
		missing := []string{"nope/x", "does not exist", "ls or glob"}
		r.fails(missing, "read_file", "path", "nope/x")
		r.fails(missing, "edit_file", "path", "nope/x", "old", "a", "new", "b")
		r.fails(missing, "ls", "path", "nope/x")
		r.fails(missing, "grep", "path", "nope/x", "pattern", "a")
		r.fails(missing, "glob", "path", "nope/x", "pattern", "*")
		for _, name := range []string{"read_file", "write_file", "edit_file"} {
			r.fails([]string{"dir: the path is a directory"}, name, "path", "dir", "old", "a", "new", "b", "content", "x")
			r.fails([]string{"names a directory"}, name, "path", "/", "old", "a", "new", "b")
			r.fails([]string{"names a directory"}, name, "path", "dir/", "old", "a", "new", "b")
			r.fails([]string{"missing path"}, name, "old", "a", "new", "b")
		}
		r.fails([]string{"dir/file"}, "write_file", "path", "dir/file/below", "content", "x")
		r.wants("     1\tx", "read_file", "path", "dir/file")
	})
}

func TestEditing(t *testing.T) {
	both(t, func(r *rig) {
		r.do("write_file", "path", "f", "content", "a.b\naxb\nfoo foo\nfoo\n")
		r.wants("edited f in 1 place", "edit_file", "path", "f", "old", "a.b", "new", "$1") // the text is literal, not a pattern
		r.wants("     1\t$1\n     2\taxb\n     3\tfoo foo\n     4\tfoo", "read_file", "path", "f")
		r.fails([]string{"f: old occurs 0 times", "read the file and copy"}, "edit_file", "path", "f", "old", "Foo", "new", "x")
		r.fails([]string{"f: old occurs 3 times (line 3, 3, 4)", "give more context", "all"}, "edit_file", "path", "f", "old", "foo", "new", "x")
		r.fails([]string{"same"}, "edit_file", "path", "f", "old", "foo", "new", "foo")
		r.fails([]string{"old is empty", "write_file"}, "edit_file", "path", "f", "old", "", "new", "foo")
		r.fails([]string{"occurs 0 times"}, "edit_file", "path", "f", "old", "none", "new", "x", "all", true)
		r.wants("     1\t$1\n     2\taxb\n     3\tfoo foo\n     4\tfoo", "read_file", "path", "f")
		r.wants("edited f in 3 places", "edit_file", "path", "f", "old", "foo", "new", "x", "all", true)
		if ev := r.last(); ev.Kind != tool.EventFileEdited || ev.Path != "f" || ev.Count != 3 {
			r.t.Errorf("the event is %+v", ev)
		}
		r.do("edit_file", "path", "f", "old", "x x\n", "new", "")
		r.wants("     1\t$1\n     2\taxb\n     3\tx", "read_file", "path", "f")
		r.do("write_file", "path", "over", "content", "aaa")
		r.fails([]string{"occurs 2 times"}, "edit_file", "path", "over", "old", "aa", "new", "b")
	})
}

func TestEditingKeepsWindowsLines(t *testing.T) {
	both(t, func(r *rig) {
		r.do("write_file", "path", "f", "content", "one\r\ntwo\r\nthree\r\n")
		r.do("edit_file", "path", "f", "old", "one\ntwo", "new", "1\n2")
		r.wants("f:1:1\nf:2:2\nf:3:three", "grep", "pattern", ".")
		r.do("edit_file", "path", "f", "old", "1\r\n2\r\nthree\r\n", "new", "done")
		r.wants("     1\tdone", "read_file", "path", "f")
	})
}

func TestEditsAtOnceLoseNothing(t *testing.T) {
	both(t, func(r *rig) {
		const n = 24
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "<%d>\n", i)
		}
		r.do("write_file", "path", "f", "content", text.String())
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				r.do("edit_file", "path", "f", "old", fmt.Sprintf("<%d>", i), "new", fmt.Sprintf("(%d)", i))
			})
		}
		wg.Wait()
		if got := r.do("grep", "pattern", `^\(\d+\)$`); strings.Count(got, "\n") != n-1 {
			r.t.Errorf("of %d edits these are left:\n%s", n, got)
		}
	})
}

func TestListing(t *testing.T) {
	both(t, func(r *rig) {
		r.wants("(empty)", "ls")
		for _, name := range []string{"b", "a/x", "a/y/z", "a-1"} {
			r.do("write_file", "path", name, "content", "12345")
		}
		r.wants("a/\na-1\t5\nb\t5", "ls", "path", "/")
		r.wants("x\t5\ny/", "ls", "path", "a")
		r.wants("z\t5", "ls", "path", "/a/y/")
		r.wants("b\t5", "ls", "path", "b")
		if ev := r.last(); ev.Kind != "ls" || ev.Path != "b" || ev.Count != 1 {
			r.t.Errorf("the event is %+v", ev)
		}
		for i := range 1200 {
			r.state.Set(fmt.Sprintf("files/large_tool_results/%04d", i), map[string]string{"text": ""})
		}
		if got := r.do("ls", "path", "large_tool_results"); strings.Count(got, "\n") != 1000 || !strings.HasSuffix(got, "(200 more: use glob with a pattern)") {
			r.t.Errorf("a long list has %d lines and ends with %q", strings.Count(got, "\n"), got[len(got)-50:])
		}
	})
}

const pixel = "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR"

func TestImagesAreShownAndOtherBinariesRefused(t *testing.T) {
	r, dir := inDir(t)
	s := inState(t)
	for name, data := range map[string]string{"pic": pixel, "prog": "\x7fELF\x00\x01", "latin": "caf\xe9 au lait"} {
		writeFile(t, path.Join(dir, name), data)
		if err := s.state.Set("files/"+name, map[string][]byte{"data": []byte(data)}); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, path.Join(dir, "large.png"), pixel+strings.Repeat("\x00", 5<<20))
	r.fails([]string{"more than 5 MB"}, "read_file", "path", "large.png")
	for _, r := range []*rig{r, s} {
		res, err := r.call(t.Context(), "read_file", `{"path":"pic"}`)
		if err != nil {
			t.Fatal(err)
		}
		want := []agent.Part{{Image: &agent.Blob{Type: "image/png", Name: "pic", Data: []byte(pixel)}}}
		if !reflect.DeepEqual(res.Parts, want) || res.Text != "pic: image/png, 16 bytes" {
			t.Errorf("an image reads as %+v", res)
		}
		r.fails([]string{"prog: not text but application/octet-stream"}, "read_file", "path", "prog")
		r.wants("     1\tcaf\uFFFD au lait", "read_file", "path", "latin")
		r.do("edit_file", "path", "latin", "old", "lait", "new", "miel")
		r.wants("latin:1:caf\uFFFD au miel", "grep", "pattern", "miel")
		r.wants("no matches", "grep", "pattern", "ELF")
	}
	if got := readFile(t, path.Join(dir, "latin")); got != "caf\xe9 au miel" {
		t.Errorf("the file has %q", got)
	}
	var value map[string][]byte
	if _, err := s.state.Get("files/latin", &value); err != nil || string(value["data"]) != "caf\xe9 au miel" {
		t.Errorf("the state has %q, %v", value, err)
	}
}

func TestEvictedResultsAreReadFromState(t *testing.T) {
	both(t, func(r *rig) {
		r.wants("(empty)", "ls")
		r.state.Set("files/large_tool_results/execute_c1.txt", map[string]string{"text": "one\nneedle\n"})
		r.do("write_file", "path", "own", "content", "needle")
		r.wants("     1\tone\n     2\tneedle", "read_file", "path", "/large_tool_results/execute_c1.txt")
		r.wants("large_tool_results/\nown\t6", "ls")
		r.wants("execute_c1.txt\t11", "ls", "path", "large_tool_results")
		r.wants("own:1:needle", "grep", "pattern", "needle") // a search does not find what a search found
		r.wants("large_tool_results/execute_c1.txt:2:needle", "grep", "pattern", "needle", "path", "/large_tool_results")
		r.wants("own", "glob", "pattern", "**")
		r.wants("large_tool_results/execute_c1.txt", "glob", "pattern", "/large_tool_results/*.txt")
		r.fails([]string{"read-only"}, "write_file", "path", "/large_tool_results/x", "content", "x")
		r.fails([]string{"read-only"}, "edit_file", "path", "large_tool_results/execute_c1.txt", "old", "one", "new", "x")
	})
}

func TestDamageInTheStateIsNoMissingFile(t *testing.T) {
	r := inState(t)
	for _, key := range []string{"files/d/f", "todos"} {
		if err := r.state.Set(key, 7); err != nil {
			t.Fatal(err)
		}
	}
	for name, args := range map[string]string{"read_file": `{"path":"d/f"}`, "edit_file": `{"path":"d/f","old":"a","new":"b"}`, "ls": `{"path":"d"}`,
		"write_todos": `{"merge":true,"todos":[{"text":"a"}]}`} {
		if _, err := r.call(t.Context(), name, args); segno.KindOf(err) != segno.KindCorrupt {
			t.Errorf("%s says %v", name, err)
		}
	}
}

func TestKindsOfErrors(t *testing.T) {
	both(t, func(r *rig) {
		r.do("write_file", "path", "f", "content", "aa")
		for _, c := range []struct {
			name, args string
			want       segno.Kind
		}{
			{"read_file", `{"path":"none"}`, segno.KindNotFound},
			{"read_file", `{"path":"../none"}`, segno.KindRefused},
			{"edit_file", `{"path":"f","old":"b","new":"c"}`, segno.KindNotFound},
			{"edit_file", `{"path":"f","old":"a","new":"c"}`, segno.KindConflict},
		} {
			if _, err := r.call(r.t.Context(), c.name, c.args); segno.KindOf(err) != c.want {
				r.t.Errorf("%s %s says %v, of kind %v", c.name, c.args, err, segno.KindOf(err))
			}
		}
	})
}

func TestASearchEndsWithItsContext(t *testing.T) {
	both(t, func(r *rig) {
		r.do("write_file", "path", "f", "content", "x")
		ctx, cancel := context.WithCancel(r.t.Context())
		cancel()
		for _, name := range []string{"grep", "read_file"} {
			if _, err := r.call(ctx, name, `{"path":"f","pattern":"x"}`); !errors.Is(err, context.Canceled) {
				r.t.Errorf("%s ends with %v", name, err)
			}
		}
	})
}

func TestAnUnchangedFileStoresNothing(t *testing.T) {
	r := inState(t)
	value := func() (raw json.RawMessage) {
		if _, err := r.state.Get("files/a/f", &raw); err != nil {
			t.Fatal(err)
		}
		return raw
	}
	r.do("write_file", "path", "a/f", "content", "text")
	first := value()
	r.do("write_file", "path", "/a/f", "content", "text")
	if string(first) != `{"text":"text"}` || string(value()) != string(first) {
		t.Errorf("the value is %s and then %s", first, value())
	}
}

func TestCustomFileSystem(t *testing.T) {
	r := newRig(t, tool.Files(broken{tool.InState()}))
	r.do("write_file", "path", "a", "content", "x")
	r.fails([]string{"a: boom"}, "read_file", "path", "a")
	r.wants("no matches\n(files or directories that could not be read, or not to their end: 1)", "grep", "pattern", "x")
	r.fails([]string{"a: permission denied"}, "ls", "path", "a")
}

// broken is a file system whose reads fail.
type broken struct{ tool.FileSystem }

func (b broken) FS(state *agent.Values) fs.FS { return brokenFS{b.FileSystem.FS(state)} }

type brokenFS struct{ fs.FS }

func (b brokenFS) Stat(name string) (fs.FileInfo, error) {
	if name == "a" {
		return nil, &fs.PathError{Op: "open", Path: "/secret/place", Err: fs.ErrPermission}
	}
	return fs.Stat(b.FS, name)
}

func (b brokenFS) Open(name string) (fs.File, error) {
	f, err := b.FS.Open(name)
	if name == "a" {
		return brokenFile{f}, err
	}
	return f, err
}

type brokenFile struct{ fs.File }

func (brokenFile) Read([]byte) (int, error) { return 0, errors.New("boom") }

func writeFile(t *testing.T, name, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
