package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// Limits lists the directories that cannot be a workspace.
type Limits struct {
	Home  string // the user's home directory; neither it nor a directory that contains it
	Store string // segno's store; neither it, nor a directory that contains it or is in it
	// Trusted reports whether the directory root may be a workspace although the user uid owns it. nil
	// accepts every owner: see [CheckOwner].
	Trusted func(root string, uid uint32) bool
}

// Find returns the workspace to which dir belongs: the deepest known root at or above its real path.
// Find recognises a root by its path, even if the directory at that path is a new one, or else by
// device and inode. In the second case the root was moved, unless it is still at the old path, and Find
// stores the record with the new path. A copy is a new workspace, and so is a directory that was made
// after the workspace was last recorded and has the inode of its removed root. The error has [segno.KindNotFound] if
// dir belongs to no workspace.
func Find(ctx context.Context, w segno.Workspaces, dir string) (segno.WorkspaceRecord, error) {
	real, err := realDir(dir)
	if err != nil {
		return segno.WorkspaceRecord{}, pathError("find workspace", dir, err)
	}
	for _, at := range upwards(real) {
		r, err := findAt(ctx, w, at)
		if err == nil || segno.KindOf(err) != segno.KindNotFound {
			return r, err
		}
	}
	return segno.WorkspaceRecord{}, segno.NewError(segno.KindNotFound, "find workspace", real, nil)
}

// Register returns the workspace with the root dir, and creates it if there is
// none. The error has [segno.KindRefused] if limits forbid dir.
func Register(ctx context.Context, w segno.Workspaces, dir string, limits Limits) (segno.WorkspaceRecord, error) {
	real, err := realDir(dir)
	if err != nil {
		return segno.WorkspaceRecord{}, pathError("register workspace", dir, err)
	}
	if err := limits.check(real); err != nil {
		return segno.WorkspaceRecord{}, err
	}
	if err := CheckOwner(real, limits.Trusted); err != nil {
		return segno.WorkspaceRecord{}, err
	}
	r, err := findAt(ctx, w, real)
	if err == nil || segno.KindOf(err) != segno.KindNotFound {
		return r, err
	}
	st, err := statDir(real)
	if err != nil {
		return segno.WorkspaceRecord{}, pathError("register workspace", real, err)
	}
	r = segno.WorkspaceRecord{
		ID: segno.WorkspaceID(segno.NewID()), Path: real, Device: st.dev, Inode: st.ino, Created: time.Now().UTC(),
	}
	return r, w.PutWorkspace(ctx, r)
}

// findAt returns the workspace with the root real.
func findAt(ctx context.Context, w segno.Workspaces, real string) (segno.WorkspaceRecord, error) {
	st, err := statDir(real)
	if err != nil {
		return segno.WorkspaceRecord{}, pathError("find workspace", real, err)
	}
	var moved *segno.WorkspaceRecord
	for r, err := range w.FindWorkspaces(ctx, []string{real}, st.dev, st.ino) {
		switch {
		case err != nil:
			return segno.WorkspaceRecord{}, err
		case r.Path == real:
			if r.Device == st.dev && r.Inode == st.ino {
				return r, nil
			}
			// A directory with another inode, such as a checkout that was deleted and made again, is
			// the same workspace.
			r.Device, r.Inode = st.dev, st.ino
			return r, w.PutWorkspace(ctx, r)
		case moved == nil && r.Device == st.dev && r.Inode == st.ino && !isUnmoved(r) && !isYounger(real, r):
			moved = &r
		}
	}
	if moved == nil {
		return segno.WorkspaceRecord{}, segno.NewError(segno.KindNotFound, "find workspace", real, nil)
	}
	moved.Moved = append(slices.Clone(moved.Moved), moved.Path)
	moved.Path = real
	return *moved, w.PutWorkspace(ctx, *moved)
}

// isUnmoved reports whether a workspace's root is still at its recorded path. If so,
// another path to the same inode is a second mount of it, not a move.
func isUnmoved(r segno.WorkspaceRecord) bool {
	st, err := statDir(r.Path)
	return err == nil && st.dev == r.Device && st.ino == r.Inode
}

// isYounger reports whether a directory was made after segno last recorded a workspace. It then is not the root of that workspace:
// ext4, for example, gives a new directory the inode of a removed one.
func isYounger(dir string, r segno.WorkspaceRecord) bool {
	born, ok := bornAt(dir)
	return ok && !r.Created.IsZero() && born.After(r.Created) && born.After(r.State.Time)
}

func statDir(path string) (stat, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return stat{}, err
	}
	if !fi.IsDir() {
		return stat{}, errors.New("not a directory")
	}
	return statOf(fi), nil
}

// upwards returns dir and all directories above it, deepest first.
func upwards(dir string) (out []string) {
	for {
		out = append(out, dir)
		up := filepath.Dir(dir)
		if up == dir {
			return out
		}
		dir = up
	}
}

func (l Limits) check(dir string) error {
	refuse := func(why, hint string) error {
		return segno.Errorf(segno.KindRefused, "register workspace", dir, "%s", why).WithHint(hint)
	}
	const narrower = "run segno in a project's own directory"
	if dir == filepath.Dir(dir) {
		return refuse("it is the root directory", narrower)
	}
	if home, err := realDir(l.Home); l.Home != "" && err == nil {
		if rel, ok := inside(dir, home); ok && rel == "" {
			return refuse("it is the home directory", narrower)
		} else if ok {
			return refuse("it contains the home directory", narrower)
		}
	}
	if l.Store == "" {
		return nil
	}
	store, err := realDir(l.Store)
	if err != nil {
		store = filepath.Clean(l.Store) // the directory need not exist yet
	}
	if _, ok := inside(store, dir); ok {
		return refuse("it is inside segno's own store", narrower)
	}
	if _, ok := inside(dir, store); ok {
		return refuse("it contains segno's own store", "run segno in a directory beside "+store)
	}
	return nil
}
