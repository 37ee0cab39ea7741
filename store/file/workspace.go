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
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// state is the newest word on what a workspace holds.
type state struct {
	segno.WorkspaceState
	order int64
}

// operation is an operation and its place among all.
type operation struct {
	segno.Operation
	order int64
}

const workspaceSuffix = ".json"

func (s *Store) workspacePath(id segno.WorkspaceID) string {
	return filepath.Join(s.dir, "workspaces", nameOf(id)+workspaceSuffix)
}

func (s *Store) operated(id segno.OperationID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.operations[id].order != 0
}

// Workspace implements [segno.Workspaces]. A state is only told if all logs could
// be read: a newer one may be in one that is damaged.
func (s *Store) Workspace(ctx context.Context, id segno.WorkspaceID) (segno.WorkspaceRecord, error) {
	const op = "read workspace"
	end, err := s.begin(ctx, op)
	if err != nil {
		return segno.WorkspaceRecord{}, err
	}
	defer end()
	r, err := readWorkspace(op, s.workspacePath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return r, notFound(op, string(id))
	}
	if err == nil {
		err = s.fillStates(ctx, op, []*segno.WorkspaceRecord{&r})
	}
	return r, err
}

// readWorkspace reads a workspace's record.
func readWorkspace(op, path string) (segno.WorkspaceRecord, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return segno.WorkspaceRecord{}, fail(op, path, err)
	}
	r, err := decode([]byte(strings.TrimSuffix(string(data), "\n")))
	switch {
	case errors.Is(err, errNewer):
		return segno.WorkspaceRecord{}, fail(op, path, err)
	case err == nil && (r.Workspace == nil || nameOf(r.Workspace.ID)+workspaceSuffix != filepath.Base(path)):
		err = errors.New("it is not the record of the workspace that it is named for")
	}
	if err != nil {
		return segno.WorkspaceRecord{}, corrupt(op, path, err)
	}
	return *r.Workspace, nil
}

func (s *Store) fillStates(ctx context.Context, op string, all []*segno.WorkspaceRecord) error {
	damage, err := s.readAll(ctx, op)
	if err != nil {
		return err
	}
	if len(damage) > 0 {
		return damage[0]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range all {
		r.State = clone(s.states[r.ID].WorkspaceState, same)
	}
	return nil
}

// FindWorkspaces implements [segno.Workspaces].
func (s *Store) FindWorkspaces(ctx context.Context, paths []string, device, inode uint64) iter.Seq2[segno.WorkspaceRecord, error] {
	const op = "find workspaces"
	all := len(paths) == 0 && inode == 0
	return sequence(ctx, s, op, func() (found []segno.WorkspaceRecord, _ []error, err error) {
		names, err := s.workspacePaths(op)
		if err != nil {
			return nil, nil, err
		}
		var records []*segno.WorkspaceRecord
		for _, name := range names {
			r, err := readWorkspace(op, name)
			if err != nil {
				return nil, nil, err
			}
			if all || slices.Contains(paths, r.Path) || inode != 0 && r.Inode == inode && r.Device == device {
				records = append(records, &r)
			}
		}
		if err := s.fillStates(ctx, op, records); err != nil {
			return nil, nil, err
		}
		for _, r := range records {
			found = append(found, *r)
		}
		slices.SortFunc(found, func(a, b segno.WorkspaceRecord) int {
			return cmp.Or(len(b.Path)-len(a.Path), cmp.Compare(a.ID, b.ID))
		})
		return found, nil, nil
	})
}

// workspacePaths are the files of all workspaces.
func (s *Store) workspacePaths(op string) (paths []string, err error) {
	dir := filepath.Join(s.dir, "workspaces")
	des, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fail(op, dir, err)
	}
	for _, de := range des {
		if !strings.HasPrefix(de.Name(), ".") && strings.HasSuffix(de.Name(), workspaceSuffix) {
			paths = append(paths, filepath.Join(dir, de.Name()))
		}
	}
	return paths, nil
}

// PutWorkspace implements [segno.Workspaces].
func (s *Store) PutWorkspace(ctx context.Context, w segno.WorkspaceRecord) error {
	const op = "write workspace"
	if err := segno.CheckID(op, string(w.ID)); err != nil {
		return err
	}
	end, err := s.begin(ctx, op)
	if err != nil {
		return err
	}
	defer end()
	w.State = segno.WorkspaceState{}
	line, err := encode(record{Format: version, Workspace: &w}, nil)
	if err != nil {
		return invalid(op, string(w.ID), "it does not encode: %w", err)
	}
	path := s.workspacePath(w.ID)
	err = s.make()
	if err == nil {
		err = s.mkdir(filepath.Dir(path))
	}
	if err == nil {
		err = vfs.Replace(s.fs, path, line, 0o600)
	}
	return fail(op, string(w.ID), err)
}

// Operations implements [segno.Workspaces]. If threads are damaged, the operations
// of the others come first and then an error for each.
func (s *Store) Operations(ctx context.Context, id segno.WorkspaceID) iter.Seq2[segno.Operation, error] {
	const op = "read operations"
	return sequence(ctx, s, op, func() (found []segno.Operation, damage []error, err error) {
		if damage, err = s.readAll(ctx, op); err != nil {
			return nil, nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		var all []operation
		for _, o := range s.operations {
			if o.Workspace == id {
				all = append(all, o)
			}
		}
		slices.SortFunc(all, func(a, b operation) int { return cmp.Or(cmp.Compare(b.order, a.order), cmp.Compare(a.ID, b.ID)) })
		for _, o := range all {
			found = append(found, clone(o.Operation, same))
		}
		return found, damage, nil
	})
}
