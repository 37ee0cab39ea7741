package file

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

func (s *Store) workspaceFile(id segno.WorkspaceID) string {
	return filepath.Join(s.dir, "workspaces", nameOf(id)+".json")
}

// Workspace implements [segno.Workspaces]. It fails if a thread is damaged, because the workspace's
// newest state may be in there.
func (s *Store) Workspace(ctx context.Context, id segno.WorkspaceID) (segno.WorkspaceRecord, error) {
	const op = "read workspace"
	return view(ctx, s, op, func() (segno.WorkspaceRecord, error) {
		w, err := s.readWorkspace(s.workspaceFile(id))
		if errors.Is(err, fs.ErrNotExist) {
			err = notFound(op, string(id))
		}
		return w, err
	})
}

// readWorkspace reads a workspace's file, and its state from the logs.
func (s *Store) readWorkspace(file string) (w segno.WorkspaceRecord, err error) {
	line, err := os.ReadFile(file)
	if err != nil {
		return w, err
	}
	r, err := decode(line)
	if err == nil && (r.Workspace == nil || s.workspaceFile(r.Workspace.ID) != file) {
		err = errors.New("it is not the record of the workspace that the file is named for")
	}
	if errors.Is(err, segno.KindNewer) {
		return w, err
	}
	if err != nil {
		return w, corrupt(file, err)
	}
	if damage := s.index.damage(); len(damage) > 0 {
		return w, damage[0]
	}
	w = *r.Workspace
	w.State = clone(s.index.states[w.ID].value)
	return w, nil
}

// FindWorkspaces implements [segno.Workspaces].
func (s *Store) FindWorkspaces(ctx context.Context, paths []string, device, inode uint64) iter.Seq2[segno.WorkspaceRecord, error] {
	all := len(paths) == 0 && inode == 0
	return list(ctx, s, "find workspaces", false, func() (found []segno.WorkspaceRecord, err error) {
		files, err := filepath.Glob(filepath.Join(s.dir, "workspaces", "*.json"))
		for _, file := range files {
			w, err := s.readWorkspace(file)
			if err != nil {
				return nil, err
			}
			if all || slices.Contains(paths, w.Path) || inode != 0 && w.Inode == inode && w.Device == device {
				found = append(found, w)
			}
		}
		slices.SortFunc(found, func(a, b segno.WorkspaceRecord) int {
			return cmp.Or(len(b.Path)-len(a.Path), cmp.Compare(a.ID, b.ID))
		})
		return found, err
	})
}

// PutWorkspace implements [segno.Workspaces].
func (s *Store) PutWorkspace(ctx context.Context, w segno.WorkspaceRecord) error {
	const op = "write workspace"
	if err := segno.CheckID(op, string(w.ID)); err != nil {
		return err
	}
	leave, err := s.enter(ctx, op, true)
	if err != nil {
		return err
	}
	defer leave()
	w.State = segno.WorkspaceState{}
	line, err := encode(&record{Format: version, Workspace: &w}, nil)
	if err != nil {
		return segno.Errorf(segno.KindInvalid, op, string(w.ID), "cannot encode it: %w", err)
	}
	file := s.workspaceFile(w.ID)
	if err = vfs.MkdirAllSynced(s.fs, filepath.Dir(file)); err == nil {
		err = vfs.Replace(s.fs, file, line, 0o600)
	}
	return fail(op, string(w.ID), err)
}

// Operations implements [segno.Workspaces]. If threads are damaged, it yields the operations of the
// others first, and then an error for each.
func (s *Store) Operations(ctx context.Context, id segno.WorkspaceID) iter.Seq2[segno.Operation, error] {
	return list(ctx, s, "read operations", true, func() (found []segno.Operation, err error) {
		var all []ordered[segno.Operation]
		for _, o := range s.index.operations {
			if o.value.Workspace == id {
				all = append(all, o)
			}
		}
		slices.SortFunc(all, func(a, b ordered[segno.Operation]) int {
			return cmp.Or(cmp.Compare(b.order, a.order), cmp.Compare(a.value.ID, b.value.ID))
		})
		for _, o := range all {
			found = append(found, clone(o.value))
		}
		return found, nil
	})
}
