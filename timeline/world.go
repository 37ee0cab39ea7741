package timeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/dalsegno/segno"
)

// WorldSave is one moment of a run of agents in a world.
type WorldSave struct {
	Thread segno.ThreadID // the thread of the run; "" makes one with Title
	Title  string
	World  segno.World
	// Members maps the names of the agents to their checkpoints at the same moment.
	Members map[string]segno.CommitID
	Label   string
	Meta    map[string]string
}

// SaveWorld makes a checkpoint of a run. The checkpoint contains the document of the world, as an
// object of the store, and names the checkpoints of the run's agents. It is durable on return. If
// another writer moved the head of the thread, the error has [segno.KindConflict] and nothing is
// recorded, because a run has one writer. SaveWorld does not use a workspace.
func (tl *Timeline) SaveWorld(ctx context.Context, s WorldSave) (cp *segno.Checkpoint, err error) {
	snap, err := s.World.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("save world: %w", err)
	}
	c, err := tl.worldCommit(ctx, s)
	if err != nil {
		return nil, err
	}
	batch := tl.Store.Objects().Batch()
	defer func() { err = errors.Join(err, batch.Close()) }()
	document, err := batch.Put(ctx, snap.Document)
	if err != nil {
		return nil, fmt.Errorf("store world: %w", err)
	}
	if c.Staged, err = batch.Stage(ctx); err != nil {
		return nil, fmt.Errorf("store world: %w", err)
	}
	c.Checkpoint.World = &segno.Document{Type: s.World.Info().Format, Data: document}
	if _, err := tl.Store.Commit(ctx, c); err != nil {
		return nil, fmt.Errorf("commit checkpoint: %w", err)
	}
	return tl.unlocked().checkpoint(ctx, c.ID)
}

// worldCommit returns the commit of a run's checkpoint without its document.
func (tl *Timeline) worldCommit(ctx context.Context, s WorldSave) (segno.Commit, error) {
	cp := &segno.Checkpoint{Kind: segno.CheckpointCut, Time: tl.Now(), Label: s.Label, Members: s.Members, Meta: s.Meta}
	if s.Thread == "" {
		thread := segno.Thread{ID: segno.ThreadID(segno.NewID()), Created: cp.Time, Title: s.Title}
		return segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: thread.ID, Create: &thread, Checkpoint: cp}, nil
	}
	head, err := tl.Store.Head(ctx, s.Thread)
	if err != nil {
		return segno.Commit{}, err
	}
	c := newCommit(head)
	if tl.Lease.Thread == s.Thread && tl.Lease.Epoch != 0 {
		c.Epoch = tl.Lease.Epoch
	}
	c.Parent, c.Checkpoint = head.Head, cp
	return c, nil
}

// LoadWorld loads the document of a checkpoint into a world that was just constructed. If the
// checkpoint has no world, the error has [segno.KindInvalid].
func (tl *Timeline) LoadWorld(ctx context.Context, at segno.CommitID, w segno.World) error {
	cp, err := tl.unlocked().checkpoint(ctx, at)
	if err != nil {
		return err
	}
	if cp.World == nil {
		return segno.Errorf(segno.KindInvalid, "load world", string(at), "the checkpoint has no world")
	}
	document, err := tl.Store.Objects().Get(ctx, cp.World.Data)
	if segno.KindOf(err) == segno.KindNotFound { // the checkpoint proves that the document existed
		err = segno.NewError(segno.KindCorrupt, "load world", string(at), err)
	}
	if err != nil {
		return err
	}
	return w.Load(ctx, document)
}
