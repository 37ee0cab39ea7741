package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/idprefix"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// Absolute returns a path that may be relative to the directory wd.
func Absolute(wd, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(wd, path)
}

// Workspace is the open store and the workspace that a verb runs in.
type Workspace struct {
	Store    *local.Store
	Rec      segno.WorkspaceRecord
	Timeline *timeline.Timeline
	Dir      string

	Compress func() error // compresses a part of the store
}

// Content reads a file's content from the store.
func (d *Workspace) Content(ctx context.Context, h segno.Hash) ([]byte, error) {
	return patch.FromStore(d.Store.Objects())(ctx, h)
}

// Close closes the store. Commands call it after they printed their result.
func (d *Workspace) Close() {
	_ = d.Compress() // gc reports an error that persists
	d.Store.Close()
}

// InWorkspace returns the function of a verb that works in the workspace of the directory.
func (a *App) InWorkspace(run func(ctx context.Context, d *Workspace, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		d, err := a.Open(c.Context())
		if err != nil {
			return err
		}
		defer d.Close()
		return run(c.Context(), d, args)
	}
}

// InStore returns the function of a verb that needs the store and no workspace.
func (a *App) InStore(run func(ctx context.Context, store *local.Store, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		store, err := a.OpenStore(c.Context())
		if err != nil {
			return err
		}
		defer store.Close()
		return run(c.Context(), store, args)
	}
}

// OpenStore opens the store. It returns KindNotFound if there is none.
func (a *App) OpenStore(ctx context.Context) (*local.Store, error) {
	place, err := a.OpenPlace()
	if err != nil {
		return nil, err
	}
	if !place.Exists() {
		return nil, errNoStore(ctx, place)
	}
	return place.Open(ctx)
}

func errNoStore(ctx context.Context, place local.Place) error {
	return segno.NewError(segno.KindNotFound, "open store", place.Store, nil).
		WithHint("run 'segno enable " + place.AgentInUse(ctx) + "', 'segno save', or use --store PATH")
}

// OpenOrMakeStore opens the store, and makes it if there is none.
func (a *App) OpenOrMakeStore(ctx context.Context) (*local.Store, error) {
	place, err := a.OpenPlace()
	if err != nil {
		return nil, err
	}
	return place.Open(ctx)
}

// Open opens the store and the deepest known workspace at or above the directory.
func (a *App) Open(ctx context.Context) (*Workspace, error) { return a.openAt(ctx, false) }

// OpenOrRegister makes the directory a workspace if none is known at or above it.
func (a *App) OpenOrRegister(ctx context.Context) (*Workspace, error) { return a.openAt(ctx, true) }

func (a *App) openAt(ctx context.Context, register bool) (d *Workspace, err error) {
	place, dir, err := a.PlaceAndDir()
	if err != nil {
		return nil, err
	}
	if !register && !place.Exists() && (a.DryRun || !IsSessionName(a.ThreadName)) { // the verb may keep a session now
		if a.StorePath != "" {
			return nil, errNoStore(ctx, place)
		}
		return nil, errNoWorkspace(ctx, place, dir)
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
	d = &Workspace{Store: store, Dir: dir, Compress: func() error { return store.CompressSome(ctx) }}
	if a.ThreadName != "" {
		err = a.findByThread(ctx, d)
	} else if err = d.Find(ctx, register); segno.KindOf(err) == segno.KindNotFound {
		err = a.AddOtherThreads(ctx, store, err)
	}
	if err != nil {
		return nil, err
	}
	if !store.ReadOnly() {
		if err := store.RemoveAbandonedForks(ctx); err != nil {
			a.Notef("%s", Clean(err.Error())) // the verb does not depend on it
		}
	}
	a.Bar = a.progress()
	d.Timeline, err = store.Timeline(d.Rec, &local.Progress{Scanned: a.Bar.update, Applied: a.Bar.updateApplied})
	return d, err
}

// Find chooses the deepest known workspace at or above the directory. If there is none and register
// is set, it registers the root that a session in the directory would have.
func (d *Workspace) Find(ctx context.Context, register bool) (err error) {
	d.Rec, err = d.Store.Find(ctx, d.Dir)
	if segno.KindOf(err) != segno.KindNotFound {
		return err
	}
	if !register {
		return errNoWorkspace(ctx, d.Store.Place(), d.Dir)
	}
	d.Rec, err = d.Store.RegisterRoot(ctx, d.Dir)
	return err
}

// findByThread chooses the workspace that the thread of --thread works in, independently of the
// current directory. If the directory where the thread began is gone, it chooses the newest
// existing directory of the thread's checkpoints.
func (a *App) findByThread(ctx context.Context, d *Workspace) error {
	t, err := a.ThreadNamed(ctx, d.Store, a.ThreadName)
	if err != nil {
		return err
	}
	rec, exists, err := d.Store.ThreadWorkspace(ctx, t)
	if rec.ID != "" {
		d.Rec = rec
	}
	if exists || err != nil {
		return err
	}
	return d.findBySession(ctx, t.ID)
}

// findBySession chooses the workspace of a thread that recorded none. If the directory of its
// session exists, findBySession registers that directory. Otherwise it chooses the workspace of the
// current directory.
func (d *Workspace) findBySession(ctx context.Context, thread segno.ThreadID) error {
	head, err := d.Store.Head(ctx, thread)
	if err != nil {
		return err
	}
	if fi, err := os.Stat(head.Link.Dir); err == nil && fi.IsDir() {
		if d.Rec, err = d.Store.Find(ctx, head.Link.Dir); err == nil {
			return nil
		}
		if d.Rec, err = d.Store.RegisterRoot(ctx, head.Link.Dir); err == nil {
			return nil
		}
	}
	return d.Find(ctx, true)
}

func errNoWorkspace(ctx context.Context, place local.Place, dir string) error {
	return segno.Errorf(segno.KindNotFound, "find workspace", dir, "this directory is not in a workspace").
		WithHint("run 'segno enable " + place.AgentInUse(ctx) + "' or 'segno save' here, or use -C DIR")
}

// ThreadID returns the thread that the command works on: the thread of --thread, else the current
// thread of the workspace.
func (a *App) ThreadID(ctx context.Context, d *Workspace) (segno.ThreadID, error) {
	if a.ThreadName != "" {
		t, err := a.ThreadNamed(ctx, d.Store, a.ThreadName)
		return t.ID, err
	}
	id, err := d.Timeline.CurrentThread(ctx)
	if err == nil && id == "" {
		err = segno.Errorf(segno.KindNotFound, "find thread", d.Rec.Path, "no thread here yet").
			WithHint("prompt the agent once, or run 'segno save'")
	}
	return id, err
}

// ThreadNamed returns the thread with an id or a prefix of an id.
func (a *App) ThreadNamed(ctx context.Context, store *local.Store, name string) (segno.Thread, error) {
	query := idprefix.Query{What: "thread", Name: name, Hint: "run 'segno threads'"}
	t, err := idprefix.Find(query, store.Threads(ctx, segno.ThreadQuery{IDPrefix: name}), func(t segno.Thread) string { return string(t.ID) })
	if segno.KindOf(err) == segno.KindNotFound && IsSessionName(name) {
		t, err = a.threadOfSession(ctx, store, name, err)
	}
	return t, err
}

// threadOfSession returns the thread of the session of an agent with an id or a prefix of an id. If
// the session has no thread yet, threadOfSession keeps it, which makes a thread; a dry run does not. It returns the
// error none if there is no such session, or if it has no thread.
func (a *App) threadOfSession(ctx context.Context, store *local.Store, name string, none error) (segno.Thread, error) {
	s, err := a.SessionNamed(ctx, store.Place(), store, name)
	if segno.KindOf(err) == segno.KindNotFound {
		return segno.Thread{}, none
	}
	if err != nil {
		return segno.Thread{}, err
	}
	if s.Path != "" {
		d, err := a.Detail(ctx, store, s)
		if err != nil {
			return segno.Thread{}, err
		}
		if !d.Kept && !store.ReadOnly() && !a.DryRun {
			if _, err := store.SessionTimeline().KeepSession(ctx, KeepRequest(ctx, store, d)); err != nil {
				return segno.Thread{}, err
			}
		}
	}
	for t, err := range store.Threads(ctx, segno.ThreadQuery{Session: s.Session, Limit: 1}) {
		return t, err
	}
	return segno.Thread{}, none
}

// AddOtherThreads adds the threads of other directories to the error of a directory that
// segno does not know.
func (a *App) AddOtherThreads(ctx context.Context, store *local.Store, err error) error {
	all := func(segno.Thread, int) bool { return true }
	list, first, listErr := a.ListForHint(ctx, store, segno.ThreadQuery{TopLevel: true}, all)
	if listErr != nil || list == "" {
		return err
	}
	return segno.NewError(segno.KindNotFound, "", "", err).WithHint(fmt.Sprintf(
		"threads of other directories: %s; use --thread %s or -C DIR, or run 'segno enable %s' here", list, first, store.Place().AgentInUse(ctx)))
}
