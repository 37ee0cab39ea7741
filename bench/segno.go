package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// ours has a tree and a new store for it, combined as in the segno command.
type ours struct {
	store *local.Store
	*timeline.Timeline
}

// watching makes a store watch its directories.
func watching(ctx context.Context, s *local.Store) {
	s.Watch(ctx, func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) })
}

func openOurs(ctx context.Context, dir, tree string, prepare ...func(context.Context, *local.Store)) (*ours, error) {
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, err
	}
	place := local.Place{Store: filepath.Join(dir, "store"), UserHome: home, Homes: local.Homes{"claude": filepath.Join(home, ".claude")},
		Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	store, err := place.Open(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range prepare {
		p(ctx, store)
	}
	rec, err := store.Register(ctx, tree)
	if err != nil {
		store.Close()
		return nil, err
	}
	site, err := store.Timeline(rec, nil)
	if err != nil {
		store.Close()
		return nil, err
	}
	return &ours{store, site}, nil
}

func (o *ours) close() error { return o.store.Close() }

// scan compares the tree with the last snapshot and saves nothing.
func (o *ours) scan(ctx context.Context) (segno.Snapshot, error) {
	batch := o.Store.Objects().Batch()
	defer batch.Close()
	return o.Workspace.Snapshot(ctx, batch)
}

// scanWatched is scan with the watcher, as at the beginning and the end of a turn.
func (o *ours) scanWatched(ctx context.Context) (segno.Snapshot, error) {
	batch := o.Store.Objects().Batch()
	defer batch.Close()
	return o.Workspace.SnapshotWatched(ctx, batch)
}

// save commits a checkpoint of the tree.
func (o *ours) save(ctx context.Context) (*segno.Checkpoint, error) {
	return o.Save(ctx, segno.CheckpointSave, "bench")
}

// turn commits the changes by do as a turn of an agent without transcripts.
func (o *ours) turn(ctx context.Context, do func() error) (*segno.Checkpoint, error) {
	const agent = "bench"
	source := segno.Source{Session: "bench-session", Dir: o.Workspace.Root()}
	begun, err := o.BeginTurn(ctx, timeline.Prompt{Agent: agent, Source: source, Text: "change one file"})
	if err != nil {
		return nil, err
	}
	if err := do(); err != nil {
		return nil, err
	}
	return o.EndTurn(ctx, timeline.TurnEnd{Key: begun.Key, Agent: agent, Source: source})
}

// move makes a move that must write exactly one file.
func (o *ours) move(ctx context.Context, ask timeline.MoveRequest) error {
	m := o
	moved, err := m.Move(ctx, ask, nil)
	if err != nil {
		return err
	}
	if moved.Files != 1 || len(moved.Plan.Conflicts) > 0 {
		return fmt.Errorf("%s wrote %d files and left %d", ask.Verb, moved.Files, len(moved.Plan.Conflicts))
	}
	return nil
}
