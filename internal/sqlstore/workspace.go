package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// ErrID is the cause of errors about a row whose id differs from the id in the index.
var ErrID = errors.New("its id is not the one in the index")

// Workspaces implements [segno.Workspaces].
type Workspaces struct {
	db      Database
	records *Records
	queries WorkspaceQueries
}

// WorkspaceQueries are the queries that differ between the databases.
type WorkspaceQueries struct {
	// Find returns a query for the workspaces at paths or with an inode, or for all if there are
	// neither, longest path first. The columns are id, record, state and whether the row is sound.
	Find func(paths [][]byte, device, inode int64) (query string, args []any)
	// InodeBits are set in the keyed hash of an inode, so that it is not 0.
	InodeBits int64
}

// NewWorkspaces returns the workspaces of a store.
func NewWorkspaces(db Database, r *Records, q WorkspaceQueries) *Workspaces {
	return &Workspaces{db, r, q}
}

// Workspace implements [segno.Workspaces].
func (w *Workspaces) Workspace(ctx context.Context, id segno.WorkspaceID) (segno.WorkspaceRecord, error) {
	const op = "read workspace"
	found, err := List(ctx, w.db, op, string(id), `SELECT record, state FROM {}workspaces WHERE id = ?1 AND record IS NOT NULL`,
		[]any{w.db.ID(string(id))}, func(r Row) (segno.WorkspaceRecord, error) {
			var rec, state []byte
			if err := r.Scan(&rec, &state); err != nil {
				return segno.WorkspaceRecord{}, err
			}
			return w.records.Workspace(id, rec, state)
		})
	if err == nil && len(found) == 0 {
		err = segno.NewError(segno.KindNotFound, op, string(id), nil)
	}
	if err != nil {
		return segno.WorkspaceRecord{}, err
	}
	return found[0], nil
}

// FindWorkspaces implements [segno.Workspaces].
func (w *Workspaces) FindWorkspaces(ctx context.Context, paths []string, device, inode uint64) iter.Seq2[segno.WorkspaceRecord, error] {
	const op = "find workspaces"
	return Yield(func() ([]segno.WorkspaceRecord, error) {
		keys := make([][]byte, len(paths))
		for i, p := range paths {
			keys[i], _, _ = w.keys(p, 0, 0)
		}
		_, dev, ino := w.keys("", device, inode)
		query, args := w.queries.Find(keys, dev, ino)
		found, err := List(ctx, w.db, op, "", query, args, func(r Row) (segno.WorkspaceRecord, error) {
			var id Text
			var rec, state []byte
			var isSound bool
			if err := r.Scan(&id, &rec, &state, &isSound); err != nil {
				return segno.WorkspaceRecord{}, err
			}
			if !isSound {
				return segno.WorkspaceRecord{}, w.records.Corrupt(op, string(id), ErrID)
			}
			return w.records.Workspace(segno.WorkspaceID(id), rec, state)
		})
		if w.records.Sealer != nil { // the database has only hashes of paths, so it cannot sort by length
			slices.SortStableFunc(found, func(a, b segno.WorkspaceRecord) int { return len(b.Path) - len(a.Path) })
		}
		return found, err
	})
}

// keys returns the values by which the database finds a workspace. In a sealed store they are a keyed hash
// of the path, and one of device and inode together.
func (w *Workspaces) keys(path string, device, inode uint64) (at []byte, dev, ino int64) {
	at, dev, ino = []byte(w.records.Sealer.Name("path", path)), int64(device), int64(inode)
	if w.records.Sealer != nil && inode != 0 {
		dev, ino = 0, w.records.Sealer.Term("inode", fmt.Sprint(device, " ", inode))|w.queries.InodeBits
	}
	return at, dev, ino
}

// PutWorkspace implements [segno.Workspaces].
func (w *Workspaces) PutWorkspace(ctx context.Context, ws segno.WorkspaceRecord) error {
	const op = "write workspace"
	if err := segno.CheckID(op, string(ws.ID)); err != nil {
		return err
	}
	path, device, inode := w.keys(ws.Path, ws.Device, ws.Inode)
	_, err := w.db.Change(ctx, op, string(ws.ID), `INSERT INTO {}workspaces (id, path, device, inode, record) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (id) DO UPDATE SET path = excluded.path, device = excluded.device, inode = excluded.inode, record = excluded.record`,
		w.db.ID(string(ws.ID)), path, device, inode, w.records.Sealer.Seal(record.EncodeWorkspace(&ws), "workspace", string(ws.ID)))
	return err
}

// Operations implements [segno.Workspaces].
func (w *Workspaces) Operations(ctx context.Context, id segno.WorkspaceID) iter.Seq2[segno.Operation, error] {
	return Yield(func() ([]segno.Operation, error) {
		return List(ctx, w.db, "read operations", string(id), `SELECT id, record FROM {}operations WHERE workspace = ?1 ORDER BY n DESC`,
			[]any{w.db.ID(string(id))}, func(r Row) (segno.Operation, error) {
				var op Text
				var rec []byte
				if err := r.Scan(&op, &rec); err != nil {
					return segno.Operation{}, err
				}
				return w.records.Operation(segno.OperationID(op), id, rec)
			})
	})
}
