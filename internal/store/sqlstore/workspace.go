package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
)

// ErrID is the cause of an error about a row with another id than its index has.
var ErrID = errors.New("its id is not the one in the index")

// Workspace implements [segno.Workspaces].
func (c *Common) Workspace(ctx context.Context, id segno.WorkspaceID) (segno.WorkspaceRecord, error) {
	const op = "read workspace"
	var rec, state []byte
	err := ReadRow(ctx, c.db, op, string(id), `SELECT record, state FROM {}workspaces WHERE id = ?1 AND record IS NOT NULL`,
		[]any{c.db.ID(string(id))}, &rec, &state)
	if segno.KindOf(err) == segno.KindNotFound {
		err = c.db.Missed(ctx, op, "workspaces", string(id))
	}
	if err != nil {
		return segno.WorkspaceRecord{}, err
	}
	return c.records.Workspace(id, rec, state)
}

// FindWorkspaces implements [segno.Workspaces].
func (c *Common) FindWorkspaces(ctx context.Context, paths []string, device, inode uint64) iter.Seq2[segno.WorkspaceRecord, error] {
	const op = "find workspaces"
	return yieldAll(func() ([]segno.WorkspaceRecord, error) {
		keys := make([][]byte, len(paths))
		for i, p := range paths {
			keys[i], _, _ = c.keys(p, 0, 0)
		}
		_, dev, ino := c.keys("", device, inode)
		query, args := c.dialect.Workspaces(keys, dev, ino)
		var id Text
		var rec, state []byte
		var isSound *bool
		found, err := List(ctx, c.db, op, "", query, args, []any{&id, &rec, &state, &isSound}, func() (w segno.WorkspaceRecord, err error) {
			if err = c.sound(op, id, isSound); err == nil {
				w, err = c.records.Workspace(segno.WorkspaceID(id), rec, state)
			}
			return w, err
		})
		if c.records.Sealer != nil { // a sealed database has only hashes of paths, so it cannot sort by length
			slices.SortStableFunc(found, func(a, b segno.WorkspaceRecord) int { return len(b.Path) - len(a.Path) })
		}
		return found, err
	})
}

func (c *Common) keys(path string, device, inode uint64) (at []byte, dev, ino int64) {
	at, dev, ino = WorkspaceKeys(c.records.Sealer, path, device, inode)
	if c.records.Sealer != nil && inode != 0 {
		ino |= c.dialect.InodeBits
	}
	return at, dev, ino
}

// WorkspaceKeys returns the values that find a workspace in the database. In a sealed store, these are a keyed hash of
// the path, and a keyed hash of device and inode together.
func WorkspaceKeys(z *record.Sealer, path string, device, inode uint64) (at []byte, dev, ino int64) {
	at, dev, ino = []byte(z.Name("path", path)), int64(device), int64(inode)
	if z != nil && inode != 0 {
		dev, ino = 0, z.Term("inode", fmt.Sprint(device, " ", inode))
	}
	return at, dev, ino
}

// PutWorkspace implements [segno.Workspaces].
func (c *Common) PutWorkspace(ctx context.Context, ws segno.WorkspaceRecord) error {
	const op = "write workspace"
	if err := segno.CheckID(op, string(ws.ID)); err != nil {
		return err
	}
	path, device, inode := c.keys(ws.Path, ws.Device, ws.Inode)
	_, err := c.db.Change(ctx, op, string(ws.ID), `INSERT INTO {}workspaces (id, path, device, inode, record) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (id) DO UPDATE SET path = excluded.path, device = excluded.device, inode = excluded.inode, record = excluded.record`,
		c.db.ID(string(ws.ID)), path, device, inode, c.records.Sealer.Seal(record.EncodeWorkspace(&ws), "workspace", string(ws.ID)))
	return err
}

// Operations implements [segno.Workspaces].
func (c *Common) Operations(ctx context.Context, id segno.WorkspaceID) iter.Seq2[segno.Operation, error] {
	const op = "read operations"
	return yieldAll(func() ([]segno.Operation, error) {
		var name Text
		var rec []byte
		var isSound *bool
		return List(ctx, c.db, op, string(id), c.dialect.Log, []any{c.db.ID(string(id))}, []any{&name, &rec, &isSound},
			func() (o segno.Operation, err error) {
				if err = c.sound(op, name, isSound); err == nil {
					o, err = c.records.Operation(segno.OperationID(name), id, rec)
				}
				return o, err
			})
	})
}
