package workspace_test

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace"
)

// register is segno.Workspaces in a map.
type register map[segno.WorkspaceID]segno.WorkspaceRecord

func (r register) Workspace(_ context.Context, id segno.WorkspaceID) (segno.WorkspaceRecord, error) {
	return r[id], nil
}
func (r register) FindWorkspaces(_ context.Context, paths []string, device, inode uint64) iter.Seq2[segno.WorkspaceRecord, error] {
	return func(yield func(segno.WorkspaceRecord, error) bool) {
		for _, w := range r {
			if slices.Contains(paths, w.Path) || inode != 0 && w.Device == device && w.Inode == inode {
				if !yield(w, nil) {
					return
				}
			}
		}
	}
}
func (r register) PutWorkspace(_ context.Context, w segno.WorkspaceRecord) error {
	r[w.ID] = w
	return nil
}
func (r register) Operations(context.Context, segno.WorkspaceID) iter.Seq2[segno.Operation, error] {
	return func(func(segno.Operation, error) bool) {}
}

func TestWorkspaceKeepsItsIDWhenMoved(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	known := make(register)
	limits := workspace.Limits{Home: filepath.Join(base, "home"), Store: filepath.Join(base, "home", "store")}
	mkdir := func(rel string) string {
		must(t, os.MkdirAll(filepath.Join(base, rel), 0o755))
		return filepath.Join(base, rel)
	}
	mkdir("home/store")
	outer := mkdir("home/outer")
	inner := mkdir("home/outer/a/inner")

	first, err := workspace.Register(ctx(t), known, outer, limits)
	must(t, err)
	second, err := workspace.Register(ctx(t), known, inner, limits)
	must(t, err)
	if first.ID == second.ID || len(known) != 2 {
		t.Fatal("a directory inside a workspace was widened to it")
	}
	again, err := workspace.Register(ctx(t), known, outer+"/../outer", limits)
	if err != nil || again.ID != first.ID {
		t.Errorf("registered again: %+v, %v", again, err)
	}
	found := func(dir string, want segno.WorkspaceID) segno.WorkspaceRecord {
		t.Helper()
		r, err := workspace.Find(ctx(t), known, dir)
		if (want == "") != (segno.KindOf(err) == segno.KindNotFound) || r.ID != want {
			t.Errorf("%s belongs to %q, %v; want %q", dir, r.ID, err, want)
		}
		return r
	}
	found(mkdir("home/outer/a"), first.ID)
	found(mkdir("home/outer/a/inner/deep"), second.ID)
	found(limits.Home, "")
	must(t, os.Symlink(inner, filepath.Join(base, "alias")))
	found(filepath.Join(base, "alias", "deep"), second.ID)

	must(t, os.Rename(outer, filepath.Join(base, "home", "moved")))
	r := found(mkdir("home/moved/a"), first.ID)
	if r.Path != filepath.Join(base, "home", "moved") || !slices.Equal(r.Moved, []string{outer}) || known[first.ID].Path != r.Path {
		t.Errorf("after a move the record is %+v", r)
	}
	found(mkdir("home/moved/a/inner"), second.ID)
	copied := mkdir("home/copy")
	found(copied, "")
	third, err := workspace.Register(ctx(t), known, copied, limits)
	if err != nil || third.ID == first.ID {
		t.Errorf("a copy is %+v, %v", third, err)
	}
}

func TestRootsThatAreTooWideAreRefused(t *testing.T) {
	base := t.TempDir()
	store := filepath.Join(base, "home", "project", "store")
	must(t, os.MkdirAll(store+"/packs", 0o755))
	limits := workspace.Limits{Home: filepath.Join(base, "home"), Store: store}
	for _, dir := range []string{"/", base, limits.Home, store, store + "/packs", filepath.Dir(store)} {
		_, err := workspace.Register(ctx(t), make(register), dir, limits)
		if segno.KindOf(err) != segno.KindRefused || segno.HintOf(err) == "" {
			t.Errorf("%s: %v, hint %q", dir, err, segno.HintOf(err))
		}
	}
	if _, err := workspace.Register(ctx(t), make(register), filepath.Join(base, "none"), limits); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("a directory that does not exist: %v", err)
	}
}
