package workspace_test

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"testing"

	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/workspace"
)

// foldingFS simulates a file system on which old and new are the same name. If both names exist
// on the disk, the directory listing shows which one is the real spelling.
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

// real returns the spelling under which a name exists.
func (r foldingRoot) real(name string) string {
	other := map[string]string{r.fs.old: r.fs.new, r.fs.new: r.fs.old}[name]
	if _, err := r.Root.Lstat(name); err != nil && other != "" {
		if _, err := r.Root.Lstat(other); err == nil {
			return other
		}
	}
	return name
}

func (r foldingRoot) OpenRoot(name string) (vfs.Root, error) {
	sub, err := r.Root.OpenRoot(r.real(name))
	return foldingRoot{sub, r.fs}, err
}

func (r foldingRoot) Lstat(name string) (fs.FileInfo, error) { return r.Root.Lstat(r.real(name)) }
func (r foldingRoot) Rename(from, to string) error           { return r.Root.Rename(from, r.real(to)) }
func (r foldingRoot) Mkdir(name string, perm fs.FileMode) error {
	return r.Root.Mkdir(r.real(name), perm)
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

// TestARenameToAnotherSpellingIsUndone undoes renames between spellings that a file system may
// treat as equal. The old name must not count as present because the new one exists.
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

// TestNamesThatBecomeOneAreAConflict restores a tree of a case-sensitive file system to one that
// ignores case. The second of two names, and every path below it, must be a conflict with this
// reason.
func TestNamesThatBecomeOneAreAConflict(t *testing.T) {
	for _, c := range []struct {
		content map[string]string
		want    []string // the conflicts
	}{
		{map[string]string{"README": "1", "readme": "2"}, []string{"readme"}},
		{map[string]string{"README/x": "1", "readme/x": "2", "readme/y/z": "3"}, []string{"readme", "readme/x", "readme/y", "readme/y/z"}},
		{map[string]string{"README/x": "1", "readme": "2"}, []string{"readme"}},
	} {
		p := newFixture(t)
		for name, content := range c.content {
			p.write(name, content)
		}
		first := p.save()
		must(t, os.RemoveAll(p.path("README")))
		must(t, os.RemoveAll(p.path("readme")))
		steps := p.diff(p.save(), first)
		d := p.other(workspace.Options{Index: p.index, FS: foldingFS{vfs.OS, "README", "readme"}})
		d.SetListNames(func(dir string) (names []string, err error) {
			entries, err := os.ReadDir(p.path(dir))
			for _, e := range entries {
				names = append(names, e.Name())
			}
			return names, err
		})
		conflicts, err := d.Apply(ctx(t), steps, first.Times)
		must(t, err)
		var got []string
		for _, conflict := range conflicts {
			got = append(got, conflict.Path)
			if conflict.Why != "the file system treats its name as equal to another name in the directory" {
				t.Errorf("%s: %s", conflict.Path, conflict.Why)
			}
		}
		entries, err := os.ReadDir(p.root)
		must(t, err)
		if !slices.Equal(got, c.want) || len(entries) != 1 || entries[0].Name() != "README" {
			t.Errorf("%v: conflicts %q, restored %v", c.content, got, entries)
		}
		for name, content := range c.content {
			if !slices.Contains(c.want, name) && p.read(name) != content {
				t.Errorf("%s has %q", name, p.read(name))
			}
		}
	}
}
