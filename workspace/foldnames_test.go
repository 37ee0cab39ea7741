package workspace_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/workspace"
)

// foldingFS simulates a file system on which old and new are one name. Both names exist on the
// disk; only the directory listing tells which one is the real spelling.
type foldingFS struct {
	vfs.FS
	old, new string
}

func (f foldingFS) OpenRoot(name string) (vfs.Root, error) {
	r, err := f.FS.OpenRoot(name)
	return foldingRoot{r, f}, err
}

type foldingRoot struct {
	vfs.Root
	fs foldingFS
}

func (r foldingRoot) OpenRoot(name string) (vfs.Root, error) {
	sub, err := r.Root.OpenRoot(name)
	return foldingRoot{sub, r.fs}, err
}

// Remove removes both spellings.
func (r foldingRoot) Remove(name string) error {
	err := r.Root.Remove(name)
	if name == r.fs.new {
		if other := r.Root.Remove(r.fs.old); !errors.Is(other, fs.ErrNotExist) {
			err = errors.Join(err, other)
		}
	}
	return err
}

// TestARenameToAnotherSpellingIsUndone undoes renames between spellings that a file system
// may treat as equal. The old name must not count as present because the new one is.
func TestARenameToAnotherSpellingIsUndone(t *testing.T) {
	for _, names := range [][2]string{{"README", "readme"}, {"caf\u00e9", "cafe\u0301"}} {
		p := newFixture(t)
		p.write(names[0], "text")
		first := p.save()
		must(t, os.Rename(p.path(names[0]), p.path(names[1])))
		steps := p.diff(p.save(), first)
		must(t, os.Link(p.path(names[1]), p.path(names[0])))
		d := p.other(workspace.Options{Index: p.index, FS: foldingFS{vfs.OS, names[0], names[1]}})
		d.SetListNames(func(string) ([]string, error) {
			if _, err := os.Lstat(p.path(names[1])); err == nil {
				return names[1:], nil
			}
			return names[:1], nil
		})
		conflicts, err := d.Apply(ctx(t), steps, first.Times)
		must(t, err)
		if len(conflicts) > 0 || p.read(names[0]) != "text" {
			t.Errorf("%q: conflicts %v", names, conflicts)
		}
		if _, err := os.Lstat(p.path(names[1])); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q is still there: %v", names[1], err)
		}
	}
}
