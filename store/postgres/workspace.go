package postgres

import (
	"context"
	"fmt"
	"iter"
	"slices"

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
	return s.readWorkspace(id, rec, state)
}

// FindWorkspaces implements [segno.Workspaces].
func (s *Store) FindWorkspaces(ctx context.Context, paths []string, device, inode uint64) iter.Seq2[segno.WorkspaceRecord, error] {
	hashes := make([][]byte, len(paths))
	for i, p := range paths {
		at, _, _ := s.stand(p, 0, 0)
		h := segno.HashOf(at)
		hashes[i] = h[:]
	}
	_, dev, ino := s.stand("", device, inode)
	query := `SELECT id, record, state FROM {}workspaces WHERE record IS NOT NULL AND
		(sha256(path) = ANY($1::bytea[]) OR $3::bigint <> 0 AND inode = $3 AND device = $2::bigint OR $3 = 0 AND cardinality($1::bytea[]) = 0)
		ORDER BY length(path) DESC, id`
	found := list(ctx, s, "find workspaces", "", query, []any{hashes, dev, ino},
		func(r pgx.Rows) (segno.WorkspaceRecord, error) {
			var id, rec, state []byte
			if err := r.Scan(&id, &rec, &state); err != nil {
				return segno.WorkspaceRecord{}, err
			}
			return s.readWorkspace(segno.WorkspaceID(id), rec, state)
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

// readWorkspace reads a workspace's two records; state may be nil.
func (s *Store) readWorkspace(id segno.WorkspaceID, rec, state []byte) (w segno.WorkspaceRecord, err error) {
	rec, err = s.seal.Open(rec, "workspace", string(id))
	if err == nil && state != nil {
		state, err = s.seal.Open(state, "state", string(id))
	}
	if err == nil {
		w, err = record.JoinWorkspace(id, rec, state)
	}
	return w, damaged("read workspace", string(id), err)
}

func (s *Store) readOperation(id, workspace, rec []byte) (o segno.Operation, err error) {
	rec, err = s.seal.Open(rec, "operation", string(workspace), string(id))
	if err == nil {
		o, err = record.DecodeOperation(segno.OperationID(id), segno.WorkspaceID(workspace), rec)
	}
	return o, damaged("read operation", string(id), err)
}

// stand returns what a workspace is found by in the database: in a sealed store
// something that stands for its path, and for device and inode together.
func (s *Store) stand(path string, device, inode uint64) (at []byte, dev, ino int64) {
	at, dev, ino = []byte(s.seal.Name("path", path)), int64(device), int64(inode)
	if s.seal != nil && inode != 0 {
		dev, ino = 0, s.seal.Term("inode", fmt.Sprint(device, " ", inode))|1 // 0 is none
	}
	return at, dev, ino
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
	path, device, inode := s.stand(w.Path, w.Device, w.Inode)
	_, err = s.change(ctx, op, string(w.ID), `INSERT INTO {}workspaces (id, path, device, inode, record) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (id) DO UPDATE SET path = excluded.path, device = excluded.device, inode = excluded.inode, record = excluded.record`,
		[]byte(w.ID), path, device, inode, s.seal.Seal(rec, "workspace", string(w.ID)))
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
			return s.readOperation(op, []byte(id), rec)
		})
}
