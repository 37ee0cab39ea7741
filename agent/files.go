package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/workspace"
)

// OpenTimeline makes a directory the workspace of an agent's threads, for Config.Timeline: its
// files become part of the checkpoints, and undo restores them. The store must keep workspaces,
// as all stores but store/kv do, and must be outside the directory. stateDir is for files beside
// the store that must survive the process, for example the journal of a move. Every process that
// works on the directory must use the same stateDir.
func OpenTimeline(ctx context.Context, store segno.Store, dir, stateDir string) (*timeline.Timeline, error) {
	known, ok := store.(segno.Workspaces)
	if !ok {
		return nil, segno.Errorf(segno.KindInvalid, "open timeline", dir, "the store does not keep workspaces").
			WithHint("use store/sqlite, store/file or store/postgres")
	}
	stateDir, err := filepath.Abs(stateDir)
	if err != nil {
		return nil, segno.NewError(segno.KindInvalid, "open timeline", stateDir, err)
	}
	if err := vfs.MkdirAll(vfs.OS, filepath.Join(stateDir, "index")); err != nil {
		return nil, segno.NewError(segno.KindIO, "open timeline", stateDir, err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // then no directory is refused for being the home
	}
	sp := spool.New(stateDir, vfs.OS)
	unlock, err := sp.Lock(ctx, "register")
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := checkOutside(store, dir); err != nil {
		return nil, err
	}
	rec, err := workspace.Register(ctx, known, dir, workspace.Limits{Home: home, Store: stateDir})
	if err != nil {
		return nil, err
	}
	w, err := workspace.Open(rec.Path, workspace.Options{ID: rec.ID, Objects: store.Objects(), Exclude: []string{stateDir},
		Index: filepath.Join(stateDir, "index", segno.DerivedID("index", string(rec.ID)))})
	if err != nil {
		return nil, err
	}
	return timeline.Open(timeline.Config{Store: store, Workspace: w, Spool: sp, Now: time.Now, Alive: sp.Alive(time.Now), Actor: segno.ActorGo}), nil
}

// checkOutside returns an error for a store inside the directory: each checkpoint would
// contain the store, and an undo would replace it with an older one.
func checkOutside(store segno.Store, dir string) error {
	stored, ok := store.(interface{ Path() string })
	if !ok {
		return nil
	}
	root, err := filepath.EvalSymlinks(dir)
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		return segno.NewError(segno.KindNotFound, "open timeline", dir, err)
	}
	at, err := filepath.Abs(stored.Path())
	if err != nil {
		return segno.NewError(segno.KindInvalid, "open timeline", stored.Path(), err)
	}
	rel, err := filepath.Rel(root, vfs.RealPath(at))
	if err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		return segno.Errorf(segno.KindRefused, "open timeline", dir, "the store is inside the directory, at %s", rel).
			WithHint("keep the store outside the directory")
	}
	return nil
}

// leased returns a timeline with the run's lease.
func (r *run) leased(t *timeline.Timeline) *timeline.Timeline {
	if r.lease == nil {
		return t
	}
	return t.WithLease(r.lease.current())
}

// completeMove completes a move of the files that was interrupted, before anything is recorded: a
// commit on the thread would come between the two halves of the move.
func (r *run) completeMove(ctx context.Context) (err error) {
	if r.Timeline != nil {
		r.completed, err = r.leased(r.Timeline).CompletePending(ctx)
	}
	return err
}

// beginFileTurn begins the turn of the files. Until the turn ends, no other process moves them.
// Earlier changes do not belong to the turn.
func (r *run) beginFileTurn(ctx context.Context) error {
	if r.Timeline == nil {
		return nil
	}
	turn := r.turn
	if !r.open {
		turn = r.head.Turn + 1
	}
	r.fileTurn = segno.TurnKey(segno.DerivedID("agent turn", string(r.thread), fmt.Sprint(turn)))
	if err := r.leased(r.Timeline).BeginSteps(ctx, timeline.OpenTurn{Key: r.fileTurn, Thread: r.thread, Agent: r.Name, Prompt: r.in.Prompt,
		Process: spool.TurnProcess(os.Getpid())}); err != nil {
		return err
	}
	return r.reload(ctx)
}

// endFileTurn ends the turn of the files.
func (r *run) endFileTurn(ctx context.Context) error {
	if r.fileTurn == "" {
		return nil
	}
	return r.leased(r.Timeline).EndSteps(ctx, r.fileTurn)
}

// suspendTurn saves the files if a run ends before its turn. It discards drafts that were
// not committed.
func (r *run) suspendTurn(ctx context.Context) error {
	if r.fileTurn == "" || !r.open || !r.committed {
		return nil
	}
	if err := r.replayDeferred(ctx); err != nil {
		return err // the results must precede the checkpoint
	}
	r.suspends, r.drafts, r.values, r.unsavedSteps = true, drafts{committed: true}, newValues(nil), nil
	return r.commit(ctx, r.stepEnd())
}
