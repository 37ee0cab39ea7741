package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace"
)

// forkNotes returns the directory of the notes that name incomplete forks; see [workspace.Options].
// The name of a note is derived from the id of the workspace.
func (p Place) forkNotes() string { return filepath.Join(p.Store, "forks") }

func (s *Store) forkNote(id segno.WorkspaceID) string {
	return filepath.Join(s.place.forkNotes(), segno.DerivedID("fork", string(id)))
}

// forkLockWait is how long RemoveAbandonedForks waits for the lock of a workspace.
const forkLockWait = 20 * time.Millisecond

// RemoveAbandonedForks removes the incomplete directories of killed forks. It skips a workspace
// that another process has locked, because its fork may be under way.
func (s *Store) RemoveAbandonedForks(ctx context.Context) error {
	notes, err := os.ReadDir(s.place.forkNotes())
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(notes) == 0 {
		return nil
	}
	if err != nil {
		return segno.NewError(segno.KindIO, "remove incomplete forks", s.place.forkNotes(), err)
	}
	var failed error
	for rec, err := range s.FindWorkspaces(ctx, nil, 0, 0) {
		if err != nil {
			return fmt.Errorf("remove incomplete forks: %w", err)
		}
		note := s.forkNote(rec.ID)
		if _, err := os.Lstat(note); err != nil {
			continue
		}
		short, cancel := context.WithTimeout(ctx, forkLockWait)
		if unlock, err := s.Spool().Lock(short, rec.ID); err == nil {
			failed = errors.Join(failed, workspace.RemoveAbandonedFork(ctx, s.place.fs(), note))
			unlock()
		}
		cancel()
	}
	return failed
}
