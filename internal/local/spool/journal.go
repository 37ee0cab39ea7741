package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

func (d *Dir) planFile(id segno.WorkspaceID) string {
	return d.file("journal", "journal", string(id), ".json")
}

// Lock makes the caller the only one that snapshots or moves a workspace. Other parts of segno use
// the function with names that are not ids of workspaces.
func (d *Dir) Lock(ctx context.Context, id segno.WorkspaceID) (func(), error) {
	return lock(ctx, d.fsys, d.file("locks", "workspace", string(id), ""))
}

// WritePlan saves a plan durably.
func (d *Dir) WritePlan(_ context.Context, id segno.WorkspaceID, plan json.RawMessage) (err error) {
	defer annotate(&err, "write journal")
	return d.writeFile(d.planFile(id), plan)
}

// ReadPlan returns the plan of the move under way, or nil.
func (d *Dir) ReadPlan(_ context.Context, id segno.WorkspaceID) (plan json.RawMessage, err error) {
	defer annotate(&err, "read journal")
	plan, err = d.readFile(d.planFile(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return plan, err
}

// ClearPlan durably removes the plan.
func (d *Dir) ClearPlan(_ context.Context, id segno.WorkspaceID) (err error) {
	defer annotate(&err, "clear journal")
	return d.remove(d.planFile(id))
}

// lockWait is the longest wait for a lock. It is longer than any snapshot or move takes.
const lockWait = 30 * time.Second

// lock creates and locks a file. The file is never removed, so that all processes lock the same
// file. The kernel releases the lock when a process ends. The error has [segno.KindBusy] if another
// process holds the lock until ctx or lockWait ends, and [segno.KindRefused] if the store cannot be
// written.
func lock(ctx context.Context, fsys vfs.FS, name string) (unlock func(), err error) {
	const op = "lock workspace"
	err = vfs.MkdirAllSynced(fsys, filepath.Dir(name))
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	}
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return nil, segno.Errorf(segno.KindRefused, op, "", "the store is read-only: %w", err).
			WithHint("make the store writable, or use another with --store")
	case err != nil:
		return nil, fmt.Errorf("lock: %w", err)
	}
	err = vfs.Lock(ctx, f, lockWait)
	if err == nil {
		return func() { f.Close() }, nil
	}
	f.Close()
	if errors.Is(err, vfs.ErrLocked) || ctx.Err() != nil {
		return nil, segno.NewError(segno.KindBusy, op, "", err).WithHint("wait for the other segno command to end, then try again")
	}
	return nil, fmt.Errorf("lock: %w", err)
}
