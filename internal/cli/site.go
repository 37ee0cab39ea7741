package cli

import (
	"context"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/idprefix"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

func absolute(wd, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(wd, path)
}

// openWorkspace is the open store and the workspace that a verb runs in.
type openWorkspace struct {
	store    *local.Store
	rec      segno.WorkspaceRecord
	timeline *timeline.Timeline
	dir      string

	compress func() error // a part of the store
}

// Close closes the store. Commands call it when their result is printed.
func (d *openWorkspace) Close() {
	_ = d.compress() // gc reports what keeps failing
	d.store.Close()
}

// open opens the store and the deepest known workspace at or above the directory.
func (a *app) open(ctx context.Context) (*openWorkspace, error) { return a.openAt(ctx, false) }

// openOrRegister makes the directory a workspace if none is known at or above it.
func (a *app) openOrRegister(ctx context.Context) (*openWorkspace, error) { return a.openAt(ctx, true) }

func (a *app) openAt(ctx context.Context, register bool) (*openWorkspace, error) {
	place, err := a.place()
	if err != nil {
		return nil, err
	}
	dir, err := a.workDir()
	if err != nil {
		return nil, err
	}
	if !register && !place.Exists() {
		return nil, errNoWorkspace(dir)
	}
	store, err := place.Open(ctx)
	if err != nil {
		return nil, err
	}
	d := &openWorkspace{store: store, dir: dir, compress: func() error { return store.CompressSome(ctx) }}
	if a.thread != "" {
		err = a.findByThread(ctx, d, a.thread)
	} else {
		if err = d.find(ctx, register); segno.KindOf(err) == segno.KindNotFound {
			err = a.addOtherThreads(ctx, store, err)
		}
	}
	if err != nil {
		store.Close()
		return nil, err
	}
	if !store.ReadOnly() {
		if err := store.RemoveAbandonedForks(ctx); err != nil {
			a.notef("%s", clean(err.Error())) // the command does without
		}
	}
	a.bar = a.progress("scanning")
	if d.timeline, err = store.Timeline(d.rec, a.bar.update); err != nil {
		store.Close()
		return nil, err
	}
	return d, nil
}

func (d *openWorkspace) find(ctx context.Context, register bool) (err error) {
	d.rec, err = d.store.Find(ctx, d.dir)
	if segno.KindOf(err) != segno.KindNotFound {
		return err
	}
	if !register {
		return errNoWorkspace(d.dir)
	}
	d.rec, err = d.store.RegisterRoot(ctx, d.dir)
	return err
}

// findByThread makes the desk that of the workspace a thread works in, wherever
// the command runs.
func (a *app) findByThread(ctx context.Context, d *openWorkspace, name string) error {
	id, err := a.threadNamed(ctx, d.store, name)
	if err != nil {
		return err
	}
	for t, err := range d.store.Threads(ctx, segno.ThreadQuery{IDPrefix: string(id), Limit: 1}) {
		if err != nil {
			return err
		}
		if d.rec, err = d.store.Workspace(ctx, t.Workspace); err != nil {
			return err
		}
		if _, err := os.Lstat(d.rec.Path); err == nil {
			return nil
		}
		return a.findMoved(ctx, d, id)
	}
	return d.find(ctx, false)
}

// findMoved makes the desk that of the workspace a thread worked in last: where it
// began is gone.
func (a *app) findMoved(ctx context.Context, d *openWorkspace, id segno.ThreadID) error {
	for c, err := range d.store.Checkpoints(ctx, segno.CheckpointQuery{Thread: id, Limit: 64}) {
		if err != nil {
			return err
		}
		if c.Workspace == nil {
			continue
		}
		rec, err := d.store.Workspace(ctx, c.Workspace.Workspace)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(rec.Path); err == nil {
			d.rec = rec
			return nil
		}
	}
	return d.find(ctx, false)
}

func errNoWorkspace(dir string) error {
	return segno.Errorf(segno.KindNotFound, "find workspace", dir, "segno knows no workspace here").WithHint("run 'segno enable claude' or 'segno save' here, or use -C DIR")
}

// threadID is the thread the command works on: --thread, or the current
// thread of the workspace.
func (a *app) threadID(ctx context.Context, d *openWorkspace) (segno.ThreadID, error) {
	if a.thread == "" {
		id, err := d.timeline.CurrentThread(ctx)
		if err == nil && id == "" {
			err = segno.Errorf(segno.KindNotFound, "find thread", d.rec.Path, "no thread here yet").WithHint("prompt the agent once, or run 'segno save'")
		}
		return id, err
	}
	return a.threadNamed(ctx, d.store, a.thread)
}

func (a *app) threadNamed(ctx context.Context, store *local.Store, name string) (segno.ThreadID, error) {
	query := idprefix.Query{What: "thread", Name: name, Hint: "run 'segno threads'"}
	t, err := idprefix.Find(query, store.Threads(ctx, segno.ThreadQuery{IDPrefix: name}), func(t segno.Thread) string { return string(t.ID) })
	return t.ID, err
}
