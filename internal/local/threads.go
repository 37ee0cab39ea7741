package local

import (
	"context"
	"os"

	"github.com/dalsegno/segno"
)

// maxSearched is the number of a thread's checkpoints that are searched for its directory.
const maxSearched = 64

// ThreadWorkspace returns the workspace that a thread works in, and whether its directory exists. If the directory
// where the thread began is gone, it returns the newest existing directory of the thread's checkpoints. If none exists,
// it returns the last record that it read.
func (s *Store) ThreadWorkspace(ctx context.Context, t segno.Thread) (rec segno.WorkspaceRecord, exists bool, err error) {
	choose := func(id segno.WorkspaceID) (bool, error) {
		if id == "" {
			return false, nil // the thread of a kept session has no files
		}
		if rec, err = s.Workspace(ctx, id); err != nil {
			return false, err
		}
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
	return rec, false, nil
}
