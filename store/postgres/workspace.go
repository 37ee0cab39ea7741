package postgres

import (
	"context"
	"iter"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
	"github.com/jackc/pgx/v5"
)

// Workspace implements [segno.Workspaces].
func (s *Store) Workspace(ctx context.Context, id segno.WorkspaceID) (w segno.WorkspaceRecord, err error) {
	const op = "read workspace"
	var rec, state []byte
	err = s.row(ctx, op, string(id), `SELECT record, state FROM {}workspaces WHERE id = $1 AND record IS NOT NULL`, []any{[]byte(id)}, &rec, &state)
	if err != nil {
		return w, err
	}
	w, err = record.JoinWorkspace(id, rec, state)
	return w, damaged(op, string(id), err)
}

// FindWorkspaces implements [segno.Workspaces].
func (s *Store) FindWorkspaces(ctx context.Context, paths []string, device, inode uint64) iter.Seq2[segno.WorkspaceRecord, error] {
	hashes := make([][]byte, len(paths))
	for i, p := range paths {
		h := segno.HashOf([]byte(p))
		hashes[i] = h[:]
	}
	query := `SELECT id, record, state FROM {}workspaces WHERE record IS NOT NULL AND
		(sha256(path) = ANY($1::bytea[]) OR $3::bigint <> 0 AND inode = $3 AND device = $2::bigint OR $3 = 0 AND cardinality($1::bytea[]) = 0)
		ORDER BY length(path) DESC, id`
	return list(ctx, s, "find workspaces", "", query, []any{hashes, int64(device), int64(inode)},
		func(r pgx.Rows) (segno.WorkspaceRecord, error) {
			var id, rec, state []byte
			if err := r.Scan(&id, &rec, &state); err != nil {
				return segno.WorkspaceRecord{}, err
			}
			w, err := record.JoinWorkspace(segno.WorkspaceID(id), rec, state)
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
		return invalid(op, string(w.ID), err)
	}
	_, err = s.change(ctx, op, string(w.ID), `INSERT INTO {}workspaces (id, path, device, inode, record) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (id) DO UPDATE SET path = excluded.path, device = excluded.device, inode = excluded.inode, record = excluded.record`,
		[]byte(w.ID), []byte(w.Path), int64(w.Device), int64(w.Inode), rec)
	return err
}

// Operations implements [segno.Workspaces].
func (s *Store) Operations(ctx context.Context, id segno.WorkspaceID) iter.Seq2[segno.Operation, error] {
	return list(ctx, s, "read operations", string(id), `SELECT id, record FROM {}operations WHERE workspace = $1 ORDER BY n DESC`,
		[]any{[]byte(id)}, func(r pgx.Rows) (segno.Operation, error) {
			var op, rec []byte
			if err := r.Scan(&op, &rec); err != nil {
				return segno.Operation{}, err
			}
			o, err := record.DecodeOperation(segno.OperationID(op), id, rec)
			return o, damaged("read operation", string(op), err)
		})
}
