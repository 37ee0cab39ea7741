package sqlite

import (
	"context"
	"database/sql"
	"iter"
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
		w, err = record.JoinWorkspace(id, rec, state)
		return damaged("read workspace", string(id), err)
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
		args = append(args, []byte(p))
	}
	if inode != 0 {
		where += ` OR (inode = ? AND device = ?)`
		args = append(args, int64(inode), int64(device))
	}
	query := `SELECT id, record, state FROM workspaces WHERE record IS NOT NULL AND (` + where + `) ORDER BY length(path) DESC, id`
	return list(ctx, s, "find workspaces", "", query, args,
		func(r *sql.Rows) (segno.WorkspaceRecord, error) {
			var id segno.WorkspaceID
			var rec, state sql.RawBytes
			if err := r.Scan(&id, &rec, &state); err != nil {
				return segno.WorkspaceRecord{}, err
			}
			w, err := record.JoinWorkspace(id, rec, state)
			return w, damaged("read workspace", string(id), err)
		})
}

// PutWorkspace implements [segno.Workspaces].
func (s *Store) PutWorkspace(ctx context.Context, w segno.WorkspaceRecord) error {
	const op = "write workspace"
	if err := segno.CheckID(op, string(w.ID)); err != nil {
		return err
	}
	rec, err := record.EncodeWorkspace(&w)
	if err != nil {
		return &segno.Error{Op: op, Name: string(w.ID), Kind: segno.KindInvalid, Err: err}
	}
	return s.write(ctx, op, string(w.ID), func(ctx context.Context, tx *conn) error {
		_, err := tx.exec(ctx, `INSERT INTO workspaces (id, path, device, inode, record) VALUES (?1, ?2, ?3, ?4, ?5)
			ON CONFLICT (id) DO UPDATE SET path = ?2, device = ?3, inode = ?4, record = ?5`,
			string(w.ID), []byte(w.Path), int64(w.Device), int64(w.Inode), rec)
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
			o, err := record.DecodeOperation(op, id, rec)
			return o, damaged("read operation", string(op), err)
		})
}
