package runner

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/fleet/workspaces"
)

// openThread reads a thread. If it does not exist, openThread makes it with the files of a new directory. made has the title
// and the agent of a new thread.
func openThread(ctx context.Context, store segno.Store, cache *workspaces.Cache, id segno.ThreadID, made segno.Thread, actor string) (segno.Thread, error) {
	t, ok, err := segno.FindThread(ctx, store, id)
	if ok || err != nil {
		return t, err
	}
	made.ID, made.Created = id, time.Now().UTC()
	made.Workspace = workspaces.IDOf(made)
	dir, err := cache.Checkout(ctx, segno.Snapshot{Workspace: made.Workspace})
	if err != nil {
		return t, err
	}
	tl, err := dir.Timeline(ctx, workspaces.TimelineOptions{Store: store, Actor: actor})
	if err == nil {
		_, err = tl.CommitStep(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: id, Create: &made,
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: made.Created, Agent: made.Agent}}, "")
	}
	if releaseErr := dir.Release(ctx, segno.Hash{}); err == nil {
		err = releaseErr
	}
	if segno.KindOf(err) == segno.KindConflict && err != nil { // another run made it meanwhile
		made, _, err = segno.FindThread(ctx, store, id)
	}
	return made, err
}

// snapshotAt returns the files at a commit, for the workspace of a thread. The zero Tree means a new workspace.
func snapshotAt(ctx context.Context, store segno.Store, at segno.CommitID, t segno.Thread) (s segno.Snapshot, err error) {
	for n, err := range segno.Ancestors(ctx, store, at, segno.Window{Last: 8}) {
		if err != nil {
			return s, err
		}
		if c := n.Checkpoint; c != nil && c.Workspace != nil {
			s = *c.Workspace
			break
		}
	}
	s.Workspace = workspaces.IDOf(t)
	return s, nil
}
