package threadlog

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/dalsegno/segno"
)

// Workspace implements [segno.Workspaces]. It fails if a thread is damaged, because the workspace's
// newest state may be in the damaged log.
func (s *Store) Workspace(ctx context.Context, id segno.WorkspaceID) (segno.WorkspaceRecord, error) {
	const op = "read workspace"
	return view(ctx, s, op, string(id), func(x *Index) (segno.WorkspaceRecord, error) {
		found, err := s.workspaces(x, id)
		if err == nil && len(found) == 0 {
			err = notFound(op, string(id))
		}
		if err != nil {
			return segno.WorkspaceRecord{}, err
		}
		return found[0], nil
	})
}

// workspaces returns the workspace with an id, or all workspaces if id is "", with their states.
func (s *Store) workspaces(x *Index, id segno.WorkspaceID) ([]segno.WorkspaceRecord, error) {
	found, err := s.logs.Workspaces(id)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if damage := x.damage(); len(damage) > 0 {
		return nil, damage[0]
	}
	for i := range found {
		found[i].State = Clone(x.states[found[i].ID].value)
	}
	return found, nil
}

// FindWorkspaces implements [segno.Workspaces].
func (s *Store) FindWorkspaces(ctx context.Context, paths []string, device, inode uint64) iter.Seq2[segno.WorkspaceRecord, error] {
	all := len(paths) == 0 && inode == 0
	return list(ctx, s, "find workspaces", false, func(x *Index) ([]segno.WorkspaceRecord, error) {
		found, err := s.workspaces(x, "")
		found = slices.DeleteFunc(found, func(w segno.WorkspaceRecord) bool {
			return !all && !slices.Contains(paths, w.Path) && (inode == 0 || w.Inode != inode || w.Device != device)
		})
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
	_, leave, err := s.enter(ctx, op, true)
	if err != nil {
		return err
	}
	defer leave()
	w.State = segno.WorkspaceState{}
	return Fail(op, string(w.ID), s.logs.PutWorkspace(w))
}

// Operations implements [segno.Workspaces]. If threads are damaged, it yields the operations of the
// others first, and then an error for each.
func (s *Store) Operations(ctx context.Context, id segno.WorkspaceID) iter.Seq2[segno.Operation, error] {
	return list(ctx, s, "read operations", true, func(x *Index) (found []segno.Operation, err error) {
		for _, o := range x.operations {
			if o.value.Workspace == id {
				found = append(found, Clone(o.value))
			}
		}
		slices.SortFunc(found, func(a, b segno.Operation) int {
			return cmp.Or(cmp.Compare(x.operations[b.ID].order, x.operations[a.ID].order), cmp.Compare(a.ID, b.ID))
		})
		return found, nil
	})
}
