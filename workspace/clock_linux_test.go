package workspace

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
)

// nothing is a store without objects.
type nothing struct{ segno.Objects }

func (nothing) Has(context.Context, segno.Hash) (bool, error) { return false, nil }

// TestConcurrentWriteIsReadAgain stores into a file between its two readings. The file is
// mapped and its page is dirty, so that its stat does not show the store.
func TestConcurrentWriteIsReadAgain(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "db")
	if err := os.WriteFile(path, []byte("0000"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page, err := unix.Mmap(int(f.Fd()), 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(page)
	copy(page, "1000")
	d, err := Open(root, Options{ID: "w", Objects: nothing{}})
	if err != nil {
		t.Fatal(err)
	}
	look := func() *view {
		v, err := d.scanTree(t.Context(), objectWriter{cache: newObjectCache(nothing{})}, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		v.close()
		return v
	}

	stores := 0
	d.readFull = func(f *fileHandle, buf []byte) (int, error) {
		n, err := readFull(f, buf)
		if stores++; stores == 1 {
			copy(page, "1111")
		}
		return n, err
	}
	e := look().top.find("db")
	if e.hash != segno.HashOf([]byte("1111")) || !e.racy || stores < 3 {
		t.Errorf("after a store in mid-read: hash of 1111 %v, racy %v, %d readings", e.hash == segno.HashOf([]byte("1111")), e.racy, stores)
	}

	d.readFull = func(f *fileHandle, buf []byte) (int, error) {
		page[0]++
		return readFull(f, buf)
	}
	if v := look(); !slices.Equal(v.saved.Unread, []string{"db"}) || v.top.find("db").note != whyChanging {
		t.Errorf("a file that never stands still: unread %q, entry %v", v.saved.Unread, v.top.find("db").entity())
	}
}

// TestTrustWithoutLeases tests a file system that cannot report whether a file is open for
// writing.
func TestTrustWithoutLeases(t *testing.T) {
	const now = int64(1e18)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	open := func(flag int) int {
		f, err := os.OpenFile(path, flag, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return int(f.Fd())
	}
	fd := open(os.O_RDONLY)
	silent, local := clock{dev: 1, start: now, tick: localTick}, clock{dev: 1, fine: true, leases: true, start: now, tick: localTick}
	memory := local
	memory.noWriteBack = true
	check := func(what string, c clock, age int64, want statTrust) {
		t.Helper()
		if got := c.trust(fd, &stat{dev: 1, ctime: now - age, mtime: now - age}); got != want {
			t.Errorf("%s, %d ms old: %d, want %d", what, age/1e6, got, want)
		}
	}
	check("no answer", silent, 1e6, changing)
	check("no answer", silent, 2e9, changing)
	check("no answer", silent, 39e9, suspect)
	check("no answer", silent, 41e9, trusted)
	check("no writer", local, 1e6, trusted)
	check("no writer in memory", memory, 41e9, trusted)
	open(os.O_WRONLY)
	check("a writer", local, 1e6, changing)
	check("a writer", local, 39e9, changing)
	check("a writer", local, 41e9, suspect)
	check("a writer", local, 901e9, trusted)
	check("a writer in memory", memory, 41e9, suspect)
}
