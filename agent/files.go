package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/internal/spool"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/workspace"
)

// OpenTimeline makes a directory the workspace of an agent's threads: its files become
// part of the checkpoints, and undo moves them. The store must be able to keep
// workspaces, as all but store/kv are, and lie outside the directory. keep is a directory for what lies
// beside the store, plans of moves under way above all: it must outlive the process,
// and every process that works on the directory must name the same.
func OpenTimeline(ctx context.Context, store segno.Store, dir, keep string) (*timeline.Timeline, error) {
	known, ok := store.(segno.Workspaces)
	if !ok {
		return nil, segno.Errorf(segno.KindInvalid, "open site", dir, "the store keeps no workspaces").WithHint("use store/sqlite, store/file or store/postgres")
	}
	keep, err := filepath.Abs(keep)
	if err != nil {
		return nil, segno.NewError(segno.KindInvalid, "open site", keep, err)
	}
	if err := vfs.MkdirAll(vfs.OS, filepath.Join(keep, "index")); err != nil {
		return nil, segno.NewError(segno.KindIO, "open site", keep, err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // then nothing is refused for being it
	}
	at := spool.New(keep, vfs.OS)
	unlock, err := at.Lock(ctx, "register")
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := apart(store, dir); err != nil {
		return nil, err
	}
	rec, err := workspace.Register(ctx, known, dir, workspace.Limits{Home: home, Store: keep})
	if err != nil {
		return nil, err
	}
	w, err := workspace.Open(rec.Path, workspace.Options{ID: rec.ID, Objects: store.Objects(), Exclude: []string{keep},
		Index: filepath.Join(keep, "index", segno.DerivedID("index", string(rec.ID)))})
	if err != nil {
		return nil, err
	}
	return timeline.Open(timeline.Config{Store: store, Workspace: w, Spool: at, Journal: at, Now: time.Now, Alive: proc.Alive}), nil
}

// apart refuses a store that lies among the files: it would be saved in itself, and
// an undo would put an older one in its place.
func apart(store segno.Store, dir string) error {
	on, ok := store.(interface{ Path() string })
	if !ok {
		return nil
	}
	root, err := filepath.EvalSymlinks(dir)
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		return segno.NewError(segno.KindNotFound, "open site", dir, err)
	}
	at, err := filepath.Abs(on.Path())
	if err != nil {
		return segno.NewError(segno.KindInvalid, "open site", on.Path(), err)
	}
	rel, err := filepath.Rel(root, realPath(at))
	if err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		return segno.Errorf(segno.KindRefused, "open site", dir, "the store lies in it, at %s", rel).WithHint("keep the store outside the directory")
	}
	return nil
}

// realPath is an absolute path with its symlinks resolved, as far as it exists: a store
// may be made by its first commit.
func realPath(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if parent := filepath.Dir(path); err != nil && parent != path {
		return filepath.Join(realPath(parent), filepath.Base(path))
	}
	return real
}

func (r *run) recorder() *timeline.Timeline {
	if r.lease == nil {
		return r.Timeline
	}
	return r.Timeline.WithLease(r.lease.now())
}

// enter opens the turn at the site: nobody moves the files meanwhile, and what
// somebody changed before is somebody's.
func (r *run) enter(ctx context.Context) error {
	if r.Timeline == nil {
		return nil
	}
	turn := r.turn
	if !r.open {
		turn = r.head.Turn + 1
	}
	r.entered = segno.TurnKey(segno.DerivedID("agent turn", string(r.thread), fmt.Sprint(turn)))
	pid := os.Getpid()
	if err := r.recorder().BeginSteps(ctx, timeline.OpenTurn{Key: r.entered, Thread: r.thread, Agent: r.Name, Prompt: r.in.Prompt,
		PID: pid, PIDStart: proc.Start(pid)}); err != nil {
		return err
	}
	return r.reload(ctx)
}

// leave closes the turn at the site.
func (r *run) leave(ctx context.Context) error {
	if r.entered == "" {
		return nil
	}
	return r.recorder().EndSteps(ctx, r.entered)
}

// rest saves the files where a run ends in mid-turn. What was drafted and not
// committed is not part of it: it never happened.
func (r *run) rest(ctx context.Context) error {
	if r.entered == "" || !r.open || !r.wrote {
		return nil
	}
	if err := r.replayPending(ctx); err != nil {
		return err // the results come first
	}
	r.resting, r.entries, r.values = true, nil, newValues(nil)
	return r.commit(ctx, r.stepEnd())
}

// moveFiles moves the thread with its files.
func (r *run) moveFiles(ctx context.Context, ask timeline.MoveRequest) (timeline.Plan, error) {
	ask.Thread, ask.Scope = r.thread, timeline.ScopeBoth
	m := r.recorder()
	moved, err := m.Move(ctx, ask, nil)
	if err != nil {
		return timeline.Plan{}, err
	}
	return *moved.Plan, nil
}
