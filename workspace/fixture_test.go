package workspace_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/workspace"
)

func TestMain(m *testing.M) {
	soak.DrawIfShort()
	memdir.UseIfShort()
	goleak.VerifyTestMain(m)
}

// fixture is a tree with a store beside it.
type fixture struct {
	t     testing.TB
	root  string
	index string
	store *memory
	dir   *workspace.Dir
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	base := t.TempDir()
	p := &fixture{t: t, root: filepath.Join(base, "tree"), index: filepath.Join(base, "index"), store: newMemory()}
	if err := os.Mkdir(p.root, 0o755); err != nil {
		t.Fatal(err)
	}
	p.open(workspace.Options{Index: p.index})
	return p
}

// open replaces the Dir by one with these options, plus the required ones.
func (p *fixture) open(c workspace.Options) {
	p.t.Helper()
	p.dir = p.other(c)
}

func (p *fixture) other(c workspace.Options) *workspace.Dir {
	p.t.Helper()
	c.ID = "w"
	if c.Objects == nil {
		c.Objects = p.store
	}
	d, err := workspace.Open(p.root, c)
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

func (p *fixture) faulty(f *faultfs.Faults) *workspace.Dir {
	return p.other(workspace.Options{Index: p.index, FS: f.Wrap(vfs.OS)})
}

// save takes a snapshot and keeps its objects.
func (p *fixture) save() segno.Snapshot {
	p.t.Helper()
	return p.saveBy(p.dir)
}

func (p *fixture) saveBy(d *workspace.Dir) segno.Snapshot {
	p.t.Helper()
	b := p.store.Batch()
	defer b.Close()
	s, err := d.Snapshot(ctx(p.t), b)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := b.Stage(ctx(p.t)); err != nil {
		p.t.Fatal(err)
	}
	return s
}

// saveAt is save after a change of nothing but paths.
func (p *fixture) saveAt(paths ...string) segno.Snapshot {
	p.t.Helper()
	b := p.store.Batch()
	defer b.Close()
	s, err := p.dir.SnapshotAt(ctx(p.t), b, paths)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := b.Stage(ctx(p.t)); err != nil {
		p.t.Fatal(err)
	}
	return s
}

// diff returns the changes that turn a into b.
func (p *fixture) diff(a, b segno.Snapshot) []segno.Change {
	p.t.Helper()
	changes, err := p.dir.Diff(ctx(p.t), a.Tree, b.Tree)
	if err != nil {
		p.t.Fatal(err)
	}
	return changes
}

// restore saves the present state and restores the tree to s.
func (p *fixture) restore(s segno.Snapshot) []segno.Conflict {
	p.t.Helper()
	conflicts, err := p.dir.Apply(ctx(p.t), p.diff(p.save(), s), s.Times)
	if err != nil {
		p.t.Fatal(err)
	}
	return conflicts
}

func (p *fixture) path(rel string) string { return p.root + "/" + rel }

func (p *fixture) write(rel, content string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(p.path(rel)), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(p.path(rel), []byte(content), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *fixture) read(rel string) string {
	p.t.Helper()
	data, err := os.ReadFile(p.path(rel))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}

func (p *fixture) look() seen { p.t.Helper(); return look(p.t, p.root) }

// removeAll removes dir, even if a directory in it is not writable and the user is not root.
func removeAll(t testing.TB, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() && err == nil {
			return os.Chmod(path, 0o700) // WalkDir reads the directory after this call
		}
		return err
	}))
	must(t, os.RemoveAll(dir))
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
