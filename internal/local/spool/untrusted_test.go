package spool

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

// TestUntrusted checks that the record of a thread grows, survives its writer, ends with trust, and is never ignored.
func TestUntrusted(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	file := func(path string, content byte) timeline.UntrustedFile {
		return timeline.UntrustedFile{Path: []byte(path), Entity: segno.Entity{Type: segno.EntityFile, Mode: 0o644, Hash: segno.Hash{content}}}
	}
	link := timeline.UntrustedFile{Path: []byte("out\xff"), Entity: segno.Entity{Type: segno.EntitySymlink, Target: "/\xfe"}}
	add := func(thread segno.ThreadID, sidecars []segno.Hash, files ...timeline.UntrustedFile) {
		t.Helper()
		if err := New(dir, vfs.OS).AddUntrusted(ctx, timeline.Untrusted{Thread: thread, Files: files, Sidecars: sidecars}); err != nil {
			t.Fatal(err)
		}
	}
	add("one", []segno.Hash{{7}}, file(".envrc", 1), link)
	add("one", []segno.Hash{{7}, {8}}, file(".envrc", 2), file(".envrc", 1), file(".envrc", 2))
	add("two", nil, file(".env", 1))
	d := New(dir, vfs.OS)
	byThread := func() map[segno.ThreadID]timeline.Untrusted {
		t.Helper()
		all, err := d.Untrusted(ctx)
		if err != nil {
			t.Fatal(err)
		}
		m := map[segno.ThreadID]timeline.Untrusted{}
		for _, u := range all {
			m[u.Thread] = u
		}
		return m
	}
	got := byThread()
	if one := got["one"]; len(got) != 2 || len(one.Files) != 3 || len(one.Sidecars) != 2 || string(one.Files[1].Path) != "out\xff" || one.Files[1].Entity != link.Entity {
		t.Fatalf("recorded %+v", got)
	}
	if err := d.Trust(ctx, "one"); err != nil {
		t.Fatal(err)
	}
	if got := byThread(); len(got) != 1 || len(got["two"].Files) != 1 {
		t.Fatalf("after trust: %+v", got)
	}
	names, err := filepath.Glob(filepath.Join(dir, "untrusted", "*.json"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	if err := os.WriteFile(names[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Untrusted(ctx); segno.KindOf(err) != segno.KindCorrupt {
		t.Errorf("a damaged record is %v", err)
	}
}
