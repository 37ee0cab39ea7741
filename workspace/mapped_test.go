//go:build linux

package workspace_test

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
)

// mapping is a file that this process has mapped, shared and writable, with its descriptor
// closed. Databases and linkers write in this way.
type mapping struct {
	t    *testing.T
	path string
	data []byte
}

func (p *fixture) mmap(rel string) *mapping {
	t := p.t.(*testing.T)
	t.Helper()
	f, err := os.OpenFile(p.path(rel), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	fi, err := f.Stat()
	must(t, err)
	data, err := unix.Mmap(int(f.Fd()), 0, int(fi.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	m := &mapping{t, p.path(rel), data}
	t.Cleanup(func() {
		if m.data != nil {
			m.unmap()
		}
	})
	return m
}

func (m *mapping) unmap() {
	must(m.t, unix.Munmap(m.data))
	m.data = nil
}

// storeHidden stores into a page that is already dirty. That changes no time, unless the kernel
// writes the page back just before; the result must be the same.
func (m *mapping) storeHidden(text string) {
	m.t.Helper()
	var before, after unix.Stat_t
	must(m.t, unix.Stat(m.path, &before))
	copy(m.data, text)
	must(m.t, unix.Stat(m.path, &after))
	if before.Ctim != after.Ctim {
		m.t.Log("the store moved ctime: the kernel wrote the page back meanwhile")
	}
}

// TestAStoreIntoADirtyPageIsSeen stores twice through a shared mapping, with a snapshot between
// the two.
func TestAStoreIntoADirtyPageIsSeen(t *testing.T) {
	p := newFixture(t)
	p.write("db", "first")
	p.write("quiet", "quiet")
	first := p.save()
	m := p.mmap("db")
	copy(m.data, "agent")
	second := p.save()
	m.storeHidden("users")
	third := p.save()
	if changes := p.diff(second, third); len(changes) != 1 || changes[0].To.Hash != segno.HashOf([]byte("users")) {
		t.Errorf("the second store: %v", changes)
	}
	m.storeHidden("again")
	m.unmap()
	if s := p.save(); p.entities(s)["db"].Hash != segno.HashOf([]byte("again")) {
		t.Error("a store before the mapping ended is missed")
	}
	puts := p.store.puts
	p.save()
	if p.store.puts != puts {
		t.Error("a file that is no longer mapped is still stored again")
	}
	if c := p.restore(first); len(c) > 0 || p.read("db") != "first" {
		t.Errorf("restored %q, conflicts %q", p.read("db"), c)
	}
}

// TestAnUndoDoesNotOverwriteAStoreIntoADirtyPage stores after the snapshot from which the steps
// are made. The file's stat does not show the store.
func TestAnUndoDoesNotOverwriteAStoreIntoADirtyPage(t *testing.T) {
	p := newFixture(t)
	p.write("db", "first")
	first := p.save()
	p.write("made", "agent")
	must(t, os.Chtimes(p.path("made"), time.Time{}, time.Unix(1, 0)))
	m, made := p.mmap("db"), p.mmap("made")
	copy(m.data, "agent")
	copy(made.data, "agent")
	steps := p.diff(p.save(), first)
	if len(steps) != 2 {
		t.Fatalf("steps %v", steps)
	}
	m.storeHidden("users")
	made.storeHidden("users")
	conflicts, err := p.dir.Apply(ctx(t), steps, first.Times)
	must(t, err)
	if len(conflicts) != 2 || p.read("db") != "users" || p.read("made") != "users" {
		t.Errorf("conflicts %q; db %q, made %q", conflicts, p.read("db"), p.read("made"))
	}
}
