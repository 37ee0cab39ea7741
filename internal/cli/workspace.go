package cli

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/idprefix"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// absolute returns a path that may be relative to the directory wd.
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

	compress func() error // compresses a part of the store
}

// content reads a file's content from the store.
func (d *openWorkspace) content(ctx context.Context, h segno.Hash) ([]byte, error) {
	return patch.FromStore(d.store.Objects())(ctx, h)
}

// Close closes the store. Commands call it after they printed their result.
func (d *openWorkspace) Close() {
	_ = d.compress() // gc reports an error that persists
	d.store.Close()
}

// inWorkspace returns the function of a verb that works in the workspace of the directory.
func (a *app) inWorkspace(run func(ctx context.Context, d *openWorkspace, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		d, err := a.open(c.Context())
		if err != nil {
			return err
		}
		defer d.Close()
		return run(c.Context(), d, args)
	}
}

// inStore returns the function of a verb that needs the store and no workspace.
func (a *app) inStore(run func(ctx context.Context, store *local.Store, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		store, err := a.openStore(c.Context())
		if err != nil {
			return err
		}
		defer store.Close()
		return run(c.Context(), store, args)
	}
}

// openStore opens the store. It returns KindNotFound if there is none.
func (a *app) openStore(ctx context.Context) (*local.Store, error) {
	place, err := a.place()
	if err != nil {
		return nil, err
	}
	if !place.Exists() {
		return nil, segno.NewError(segno.KindNotFound, "open store", place.Store, nil).
			WithHint("run 'segno enable claude', 'segno save', or use --store PATH")
	}
	return place.Open(ctx)
}

// openOrMakeStore opens the store, and makes it if there is none.
func (a *app) openOrMakeStore(ctx context.Context) (*local.Store, error) {
	place, err := a.place()
	if err != nil {
		return nil, err
	}
	return place.Open(ctx)
}

// open opens the store and the deepest known workspace at or above the directory.
func (a *app) open(ctx context.Context) (*openWorkspace, error) { return a.openAt(ctx, false) }

// openOrRegister makes the directory a workspace if none is known at or above it.
func (a *app) openOrRegister(ctx context.Context) (*openWorkspace, error) { return a.openAt(ctx, true) }

func (a *app) openAt(ctx context.Context, register bool) (d *openWorkspace, err error) {
	place, dir, err := a.placeAndDir()
	if err != nil {
		return nil, err
	}
	if !register && !place.Exists() && !isSessionName(a.thread) { // the verb may keep a session now
		return nil, errNoWorkspace(dir)
	}
	store, err := place.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			store.Close()
		}
	}()
	d = &openWorkspace{store: store, dir: dir, compress: func() error { return store.CompressSome(ctx) }}
	if a.thread != "" {
		err = a.findByThread(ctx, d)
	} else if err = d.find(ctx, register); segno.KindOf(err) == segno.KindNotFound {
		err = a.addOtherThreads(ctx, store, err)
	}
	if err != nil {
		return nil, err
	}
	if !store.ReadOnly() {
		if err := store.RemoveAbandonedForks(ctx); err != nil {
			a.notef("%s", clean(err.Error())) // the verb does not depend on it
		}
	}
	a.bar = a.progress()
	d.timeline, err = store.Timeline(d.rec, a.bar.update)
	return d, err
}

// find chooses the deepest known workspace at or above the directory. If there is none and register
// is set, it registers the root that a session in the directory would have.
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

// findByThread chooses the workspace that the thread of --thread works in, independently of the
// current directory. If the directory where the thread began is gone, it chooses the newest
// existing directory of the thread's checkpoints.
func (a *app) findByThread(ctx context.Context, d *openWorkspace) error {
	t, err := a.threadNamed(ctx, d.store, a.thread)
	if err != nil {
		return err
	}
	rec, exists, err := d.store.ThreadWorkspace(ctx, t)
	if rec.ID != "" {
		d.rec = rec
	}
	if exists || err != nil {
		return err
	}
	return d.findBySession(ctx, t.ID)
}

// findBySession chooses the workspace of a thread that recorded none. If the directory of its
// session exists, findBySession registers that directory. Otherwise it chooses the workspace of the
// current directory.
func (d *openWorkspace) findBySession(ctx context.Context, thread segno.ThreadID) error {
	head, err := d.store.Head(ctx, thread)
	if err != nil {
		return err
	}
	if fi, err := os.Stat(head.Link.Dir); err == nil && fi.IsDir() {
		if d.rec, err = d.store.Find(ctx, head.Link.Dir); err == nil {
			return nil
		}
		if d.rec, err = d.store.RegisterRoot(ctx, head.Link.Dir); err == nil {
			return nil
		}
	}
	return d.find(ctx, true)
}

func errNoWorkspace(dir string) error {
	return segno.Errorf(segno.KindNotFound, "find workspace", dir, "this directory is not in a workspace").
		WithHint("run 'segno enable claude' or 'segno save' here, or use -C DIR")
}

// threadID returns the thread that the command works on: the thread of --thread, else the current
// thread of the workspace.
func (a *app) threadID(ctx context.Context, d *openWorkspace) (segno.ThreadID, error) {
	if a.thread != "" {
		t, err := a.threadNamed(ctx, d.store, a.thread)
		return t.ID, err
	}
	id, err := d.timeline.CurrentThread(ctx)
	if err == nil && id == "" {
		err = segno.Errorf(segno.KindNotFound, "find thread", d.rec.Path, "no thread here yet").
			WithHint("prompt the agent once, or run 'segno save'")
	}
	return id, err
}

// threadNamed returns the thread with an id or a prefix of an id.
func (a *app) threadNamed(ctx context.Context, store *local.Store, name string) (segno.Thread, error) {
	query := idprefix.Query{What: "thread", Name: name, Hint: "run 'segno threads'"}
	t, err := idprefix.Find(query, store.Threads(ctx, segno.ThreadQuery{IDPrefix: name}), func(t segno.Thread) string { return string(t.ID) })
	if segno.KindOf(err) == segno.KindNotFound && isSessionName(name) {
		t, err = a.threadOfSession(ctx, store, name, err)
	}
	return t, err
}

// threadOfSession returns the thread of the session of an agent with an id or a prefix of an id. If
// the session has no thread yet, threadOfSession keeps it, which makes a thread. It returns the
// error none if there is no such session.
func (a *app) threadOfSession(ctx context.Context, store *local.Store, name string, none error) (segno.Thread, error) {
	s, err := a.sessionNamed(ctx, store.Place(), store, name)
	if segno.KindOf(err) == segno.KindNotFound {
		return segno.Thread{}, none
	}
	if err != nil {
		return segno.Thread{}, err
	}
	if s.Path != "" {
		d, err := a.detail(ctx, store, s)
		if err != nil {
			return segno.Thread{}, err
		}
		if !d.Kept && !store.ReadOnly() {
			if _, err := store.SessionTimeline().KeepSession(ctx, keepRequest(ctx, store, d)); err != nil {
				return segno.Thread{}, err
			}
		}
	}
	for t, err := range store.Threads(ctx, segno.ThreadQuery{Session: s.Session, Limit: 1}) {
		return t, err
	}
	return segno.Thread{}, none
}

// threadByID returns a thread with exactly this id, and false if there is none.
func threadByID(ctx context.Context, store *local.Store, id segno.ThreadID) (segno.Thread, bool, error) {
	for t, err := range store.Threads(ctx, segno.ThreadQuery{IDPrefix: string(id)}) {
		if err != nil || t.ID == id {
			return t, err == nil, err
		}
	}
	return segno.Thread{}, false, nil
}
