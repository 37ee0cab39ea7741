package spool

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

// TestSavedCalls appends files after calls between the entries of a turn, and converts the turn for a sealed store. The
// entries stay readable, a torn line loses only its own call, and the turn's end removes everything.
func TestSavedCalls(t *testing.T) {
	plain, z := New(t.TempDir(), vfs.OS), newSealer(t, 1)
	sealed := NewSealed(t.TempDir(), vfs.OS, func() (Sealer, error) { return z, nil })
	if err := plain.AppendSaved(t.Context(), "one", timeline.SavedCall{Call: "early"}); err != nil || plain.Has("one") {
		t.Fatal("a turn that is not open was saved:", err)
	}
	if err := plain.AppendEntry(t.Context(), "one", segno.Entry{ID: "before"}); err != nil {
		t.Fatal(err)
	}
	if got, err := plain.Begun("one"); got != nil || err != nil {
		t.Errorf("a turn without a beginning is %+v, %v", got, err)
	}
	if err := plain.SaveTurn(t.Context(), timeline.OpenTurn{Key: "one", Prompt: "p"}); err != nil {
		t.Fatal(err)
	}
	content := []byte("a secret" + strings.Repeat("\n\x00", 10_000))
	for _, id := range []string{"a", "b", "c"} {
		file := timeline.SavedFile{Path: []byte("dir/\xff"), Entity: segno.Entity{Type: segno.EntityFile, Size: int64(len(content))}, Content: content}
		if err := plain.AppendEntry(t.Context(), "one", segno.Entry{ID: id}); err != nil {
			t.Fatal(err)
		}
		if err := plain.AppendSaved(t.Context(), "one", timeline.SavedCall{Call: id, Files: []timeline.SavedFile{file}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(sealed.path, "turns"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := plain.CopyTurns(t.Context(), sealed); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(sealed.turnFile("one")); err != nil || bytes.Contains(data, []byte("YSBzZWNyZX")) {
		t.Error("the content can be read in the sealed store:", err)
	}
	for _, d := range []*Dir{plain, sealed} {
		fi, err := os.Stat(d.turnFile("one"))
		if err == nil {
			err = os.Truncate(d.turnFile("one"), fi.Size()-100)
		}
		if err != nil {
			t.Fatal(err)
		}
		var calls []string
		for c, err := range d.SavedCalls(t.Context(), "one") {
			if err != nil || len(c.Files) != 1 || string(c.Files[0].Path) != "dir/\xff" || !bytes.Equal(c.Files[0].Content, content) {
				t.Fatalf("call %s has %d files, %v", c.Call, len(c.Files), err)
			}
			calls = append(calls, c.Call)
		}
		if want := []string{"a", "b"}; !slices.Equal(calls, want) {
			t.Errorf("calls %q, want %q", calls, want)
		}
		if es, bad, err := d.Entries(t.Context(), "one"); err != nil || bad > 0 || len(es) != 4 {
			t.Errorf("%d entries, %d bad, %v", len(es), bad, err)
		}
		if turn, err := d.Begun("one"); err != nil || turn == nil || turn.Prompt != "p" {
			t.Errorf("the turn is %+v, %v", turn, err)
		}
		if all, err := d.Turns(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("open turns %+v, %v", all, err)
		}
		if err := d.DeleteTurn(t.Context(), "one"); err != nil || d.Has("one") {
			t.Errorf("the turn is still there: %v", err)
		}
	}
}
