package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

// TestUntrustedGrowsInLinearTime adds a file for each of many commits, as a server does to which a thread with a database is
// pushed. The number of bytes that the additions write grows with their number, and not with its square. Trust removes all of it, also if the user
// moved a part aside.
func TestUntrustedGrowsInLinearTime(t *testing.T) {
	const commits = 800
	ctx, dir := t.Context(), t.TempDir()
	d := New(dir, vfs.OS)
	content := func() map[string]string {
		t.Helper()
		files := map[string]string{}
		names, err := filepath.Glob(filepath.Join(dir, "untrusted", "*"))
		for _, name := range names {
			var data []byte
			if data, err = os.ReadFile(name); err != nil {
				break
			}
			files[name] = string(data)
		}
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	add := func(thread segno.ThreadID, i int) {
		t.Helper()
		u := timeline.Untrusted{Thread: thread, Threads: []segno.ThreadID{thread}, Files: []timeline.UntrustedFile{{Path: []byte("db"),
			Entity: segno.Entity{Type: segno.EntityDatabase, Hash: segno.HashOf(fmt.Append(nil, i))}}}}
		if err := d.AddUntrusted(ctx, u); err != nil {
			t.Fatal(err)
		}
	}
	written, before := 0, content()
	for i := range commits {
		add("t", i)
		after := content()
		for name, data := range after {
			if before[name] != data {
				written += len(data)
			}
		}
		before = after
	}
	recorded := 0
	for _, data := range before {
		recorded += len(data)
	}
	if written > 100*recorded {
		t.Errorf("%d additions of %d bytes wrote %d bytes", commits, recorded, written)
	}
	add("t\x00", 0)
	found := map[segno.Hash]bool{}
	all, err := d.Untrusted(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range all {
		for _, f := range u.Files {
			found[f.Entity.Hash] = u.Thread == "t" || found[f.Entity.Hash]
		}
	}
	if len(found) != commits {
		t.Errorf("%d of %d files are recorded", len(found), commits)
	}
	if err := os.Rename(d.file(untrustedDir, "untrusted", "t", ".json"), filepath.Join(dir, "aside")); err != nil {
		t.Fatal(err)
	}
	add("t", commits)
	if err := d.Trust(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	if all, err = d.Untrusted(ctx); err != nil || len(all) != 1 || all[0].Thread != "t\x00" {
		t.Errorf("after trust: %+v, %v", all, err)
	}
}

// TestTrustOfAnEarlierVersion removes only the first record of a thread, as a version does that knows no other. The thread is then
// trusted, and what it brings later is recorded again, alone.
func TestTrustOfAnEarlierVersion(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	d := New(dir, vfs.OS)
	add := func(i int) {
		t.Helper()
		u := timeline.Untrusted{Thread: "t", Files: []timeline.UntrustedFile{{Path: fmt.Append(nil, i), Entity: segno.Entity{Type: segno.EntityFile}}}}
		if err := d.AddUntrusted(ctx, u); err != nil {
			t.Fatal(err)
		}
	}
	count := func() (n int) {
		t.Helper()
		all, err := d.Untrusted(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range all {
			n += len(u.Files)
		}
		return n
	}
	const files = 600
	for i := range files {
		add(i)
	}
	if numbers, err := d.untrustedFiles("t"); err != nil || len(numbers) < 2 || count() != files {
		t.Fatalf("%d files in the records %v, %v", count(), numbers, err)
	}
	if err := os.Remove(d.untrustedFile("t", 0)); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 0 {
		t.Errorf("%d files of a thread that is trusted need trust", n)
	}
	add(files)
	if n := count(); n != 1 {
		t.Errorf("%d files need trust after one more arrived", n)
	}
}
