package sqlite

import (
	"context"
	"database/sql"
	"iter"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// Workspace implements [segno.Workspaces].
func (s *Store) Workspace(ctx context.Context, id segno.WorkspaceID) (w segno.WorkspaceRecord, err error) {
	const op = "read workspace"
	err = s.read(ctx, op, string(id), func(ctx context.Context, c *conn) error {
		var rec, state []byte
		found, err := c.row(ctx, `SELECT record, state FROM workspaces WHERE id = ? AND record IS NOT NULL`, []any{string(id)}, &rec, &state)
		if err != nil {
			return err
		}
		if !found {
			return notFound(op, string(id))
		}
		w, err = s.readWorkspace(id, rec, state)
		return err
	})
	return w, err
}

// FindWorkspaces implements [segno.Workspaces].
func (s *Store) FindWorkspaces(ctx context.Context, paths []string, device, inode uint64) iter.Seq2[segno.WorkspaceRecord, error] {
	args := make([]any, 0, len(paths)+2)
	where := "0" // an empty IN is no condition
	switch {
	case len(paths) == 0 && inode == 0:
		where = "1"
	case len(paths) > 0:
		where = `path IN (` + strings.TrimSuffix(strings.Repeat("?,", len(paths)), ",") + `)`
	}
	for _, p := range paths {
		at, _, _ := s.stand(p, 0, 0)
		args = append(args, at)
	}
	if inode != 0 {
		where += ` OR (inode = ? AND device = ?)`
		_, dev, ino := s.stand("", device, inode)
		args = append(args, ino, dev)
	}
	query := `SELECT id, record, state, (SELECT x.rowid FROM workspaces x WHERE x.id = w.id) IS w.rowid FROM workspaces w WHERE record IS NOT NULL AND (` + where + `) ORDER BY length(path) DESC, id`
	found := list(ctx, s, "find workspaces", "", query, args,
		func(r *sql.Rows) (segno.WorkspaceRecord, error) {
			var id segno.WorkspaceID
			var rec, state sql.RawBytes
			var isID bool
			if err := r.Scan(&id, &rec, &state, &isID); err != nil {
				return segno.WorkspaceRecord{}, err
			}
			if !isID {
				return segno.WorkspaceRecord{}, corrupt("find workspaces", string(id), errID)
			}
			return s.readWorkspace(id, rec, state)
		})
	if s.seal == nil {
		return found
	}
	return longestFirst(found)
}

// longestFirst orders what the database could not, for it does not know the paths.
func longestFirst(found iter.Seq2[segno.WorkspaceRecord, error]) iter.Seq2[segno.WorkspaceRecord, error] {
	return func(yield func(segno.WorkspaceRecord, error) bool) {
		var all []segno.WorkspaceRecord
		for w, err := range found {
			if err != nil {
				yield(w, err)
				return
			}
			all = append(all, w)
		}
		slices.SortStableFunc(all, func(a, b segno.WorkspaceRecord) int { return len(b.Path) - len(a.Path) })
		for _, w := range all {
			if !yield(w, nil) {
				return
			}
		}
	}
}

// PutWorkspace implements [segno.Workspaces].
func (s *Store) PutWorkspace(ctx context.Context, w segno.WorkspaceRecord) error {
	const op = "write workspace"
	if err := segno.CheckID(op, string(w.ID)); err != nil {
		return err
	}
	rec, err := record.EncodeWorkspace(&w)
	if err != nil {
		return segno.NewError(segno.KindInvalid, op, string(w.ID), err)
	}
	rec = s.seal.Seal(rec, "workspace", string(w.ID))
	path, device, inode := s.stand(w.Path, w.Device, w.Inode)
	return s.write(ctx, op, string(w.ID), func(ctx context.Context, tx *conn) error {
		_, err := tx.exec(ctx, `INSERT INTO workspaces (id, path, device, inode, record) VALUES (?1, ?2, ?3, ?4, ?5)
			ON CONFLICT (id) DO UPDATE SET path = ?2, device = ?3, inode = ?4, record = ?5`,
			string(w.ID), path, device, inode, rec)
		return err
	})
}

// Operations implements [segno.Workspaces].
func (s *Store) Operations(ctx context.Context, id segno.WorkspaceID) iter.Seq2[segno.Operation, error] {
	return list(ctx, s, "read operations", string(id), `SELECT id, record FROM operations WHERE workspace = ? ORDER BY n DESC`,
		[]any{string(id)}, func(r *sql.Rows) (segno.Operation, error) {
			var op segno.OperationID
			var rec sql.RawBytes
			if err := r.Scan(&op, &rec); err != nil {
				return segno.Operation{}, err
			}
			return s.readOperation(op, id, rec)
		})
}
