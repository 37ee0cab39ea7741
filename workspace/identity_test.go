package workspace_test

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

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

// TestANewDirectoryWithTheInodeOfARemovedOne makes a directory after the root of a workspace was removed. Some file systems, such as
// ext4, give it the inode of the removed one. It is not the workspace, which would bring the files and turns of another
// project into it.
func TestANewDirectoryWithTheInodeOfARemovedOne(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	fresh := filepath.Join(base, "fresh")
	must(t, os.Mkdir(fresh, 0o755))
	if _, ok := workspace.BornAt(fresh); !ok {
		return // the file system does not record when a directory was made
	}
	fi, err := os.Stat(fresh)
	must(t, err)
	st := fi.Sys().(*syscall.Stat_t)
	gone := segno.WorkspaceRecord{ID: "gone", Path: filepath.Join(base, "gone"), Device: uint64(st.Dev), Inode: st.Ino,
		Created: time.Now().Add(-2 * time.Hour), State: segno.WorkspaceState{Time: time.Now().Add(-time.Hour)}}
	known := register{"gone": gone}
	if r, err := workspace.Find(ctx(t), known, fresh); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("the new directory belongs to %q, %v", r.ID, err)
	}
	r, err := workspace.Register(ctx(t), known, fresh, workspace.Limits{})
	if err != nil || r.ID == "gone" || known["gone"].Path != gone.Path {
		t.Errorf("the new directory is %+v, %v; the workspace that is gone %+v", r, err, known["gone"])
	}
	gone.State.Time = time.Now() // the directory was recorded since it was made, then moved
	r, err = workspace.Find(ctx(t), register{"gone": gone}, fresh)
	if err != nil || r.ID != "gone" || r.Path != fresh {
		t.Errorf("a directory that was moved is %+v, %v", r, err)
	}
}
