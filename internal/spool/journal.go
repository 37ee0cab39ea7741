package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

func (d *Dir) journalFile(id segno.WorkspaceID) string {
	return filepath.Join(d.path, "journal", segno.DerivedID("journal", string(id))+".json")
}

// Lock makes the caller the only one that snapshots or moves a workspace.
func (d *Dir) Lock(ctx context.Context, id segno.WorkspaceID) (func(), error) {
	return lock(ctx, d.fsys, filepath.Join(d.path, "locks", segno.DerivedID("workspace", string(id))))
}

// Write makes a plan durable.
func (d *Dir) Write(_ context.Context, id segno.WorkspaceID, plan json.RawMessage) error {
	name := d.journalFile(id)
	if err := vfs.MkdirAll(d.fsys, filepath.Dir(name)); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if err := vfs.Replace(d.fsys, name, plan, 0o600); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// Read returns the plan, or nil if no move is under way.
func (d *Dir) Read(_ context.Context, id segno.WorkspaceID) (json.RawMessage, error) {
	data, err := os.ReadFile(d.journalFile(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	return data, nil
}

// Clear forgets the plan.
func (d *Dir) Clear(_ context.Context, id segno.WorkspaceID) error {
	name := d.journalFile(id)
	if err := d.fsys.Remove(name); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("clear journal: %w", err)
	}
	if err := d.fsys.SyncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("clear journal: %w", err)
	}
	return nil
}

// lockPoll is how often a held lock is tried again: flock(2) cannot wait and be
// cancelled at once.
const lockPoll = 5 * time.Millisecond

// lockWait is how long a lock is waited for at most: nothing that holds one takes
// as long.
const lockWait = 30 * time.Second

// notLocked is the error of a lock whose file cannot be made or opened.
func notLocked(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return segno.Errorf(segno.KindRefused, "lock workspace", "", "the store is read-only: %w", err).WithHint("make the store writable, or use another with --store")
	}
	return fmt.Errorf("lock: %w", err)
}

func lock(ctx context.Context, fsys vfs.FS, name string) (func(), error) {
	if err := vfs.MkdirAll(fsys, filepath.Dir(name)); err != nil {
		return nil, notLocked(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, notLocked(err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock: %w", err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, segno.NewError(segno.KindBusy, "lock workspace", "", context.Cause(ctx)).WithHint("wait for the other segno command to end, then try again")
		case <-tick.C:
		}
	}
}
