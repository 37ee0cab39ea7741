package local

import (
	"context"
	"os"

	"github.com/dalsegno/segno"
)

// maxSearched is the number of a thread's checkpoints that are searched for its directory.
const maxSearched = 64

// ThreadWorkspace returns the workspace that a thread works in, and whether its directory exists. If the directory
// where the thread began is gone, it returns the newest existing directory of the thread's checkpoints, else one that is at
// the thread. If none exists, it returns the last record that it read.
func (s *Store) ThreadWorkspace(ctx context.Context, t segno.Thread) (rec segno.WorkspaceRecord, exists bool, err error) {
	choose := func(id segno.WorkspaceID) (bool, error) {
		if id == "" {
			return false, nil // the thread of a kept session has no files
		}
		found, err := s.Workspace(ctx, id)
		if segno.KindOf(err) == segno.KindNotFound {
			return false, nil // the thread was copied from another machine
		}
		if err != nil {
			return false, err
		}
		rec = found
		_, statErr := os.Lstat(rec.Path)
		return statErr == nil, nil
	}
	if exists, err := choose(t.Workspace); exists || err != nil {
		return rec, exists, err
	}
	for c, err := range s.Checkpoints(ctx, segno.CheckpointQuery{Thread: t.ID, Limit: maxSearched}) {
		if err != nil {
			return rec, false, err
		}
		if c.Workspace == nil {
			continue
		}
		if exists, err := choose(c.Workspace.Workspace); exists || err != nil {
			return rec, exists, err
		}
	}
	for at, err := range s.FindWorkspaces(ctx, nil, 0, 0) {
		if err != nil {
			return rec, false, err
		}
		if _, statErr := os.Lstat(at.Path); at.State.Thread == t.ID && statErr == nil {
			return at, true, nil
		}
	}
	return rec, false, nil
}
