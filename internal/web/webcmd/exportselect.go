package webcmd

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/idprefix"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/web/export"
)

// exportStore is an open store of any kind, with the places of this installation's records and of its agents.
type exportStore struct {
	*anyStore
	place local.Place
}

// under returns the underlying store. Callers find its optional interfaces by type assertion, which
// the wrapper would hide.
func (s *exportStore) under() segno.Store {
	if s.Local != nil {
		return s.Local.Store
	}
	return s.Store
}

func (s *exportStore) transcripts() map[string]segno.Transcript {
	if s.Local != nil {
		return s.Local.Transcripts()
	}
	return s.place.Transcripts(s.Objects())
}

// openExportStore opens the store that --store names. Unlike other verbs, export makes no store.
func (a *app) openExportStore(ctx context.Context) (*exportStore, error) {
	var s *anyStore
	var err error
	if a.StorePath == "" {
		s, err = localStore(a.OpenStore(ctx))
	} else {
		s, err = a.openAnyStore(ctx)
	}
	if err != nil {
		return nil, err
	}
	out, err := a.exportStoreOf(s)
	if err != nil {
		s.Close()
	}
	return out, err
}

// exportStoreOf adds the places of this installation to an open store.
func (a *app) exportStoreOf(s *anyStore) (out *exportStore, err error) {
	out = &exportStore{anyStore: s}
	if s.Local != nil {
		out.place = s.Local.Place()
		return out, nil
	}
	if out.place, err = local.FindPlace(a.Getenv, ""); err != nil {
		return nil, err
	}
	if a.Place != nil {
		a.Place(&out.place)
	}
	return out, nil
}

// selection returns the turns that an argument names: a checkpoint of the thread of the directory or of --thread, a
// thread, or a checkpoint of any thread by its whole id. An empty name means the whole thread.
func (a *app) selection(ctx context.Context, s *exportStore, name string) (export.Selection, error) {
	thread, err := a.exportThread(ctx, s)
	if name == "" || err != nil && segno.KindOf(err) != segno.KindNotFound {
		return export.Selection{Thread: thread}, err
	}
	hasThread := err == nil
	if hasThread {
		var at *segno.Checkpoint
		if at, err = a.exportCheckpoint(ctx, s, thread, name); err == nil {
			return export.Selection{Thread: thread, At: at.ID, Single: true}, nil
		}
		if segno.KindOf(err) != segno.KindNotFound {
			return export.Selection{}, err
		}
	}
	t, threadErr := a.threadOf(ctx, s, name)
	switch {
	case threadErr == nil:
		return export.Selection{Thread: t}, nil
	case segno.KindOf(threadErr) != segno.KindNotFound:
		return export.Selection{}, threadErr
	case !hasThread:
		err = threadErr
	}
	if line, loadErr := s.Load(ctx, segno.CommitID(name), segno.Window{Last: 1}); loadErr == nil && line.Commits[0].Checkpoint != nil {
		c := line.Commits[0].Checkpoint
		return export.Selection{Thread: c.Thread, At: c.ID, Single: true}, nil
	}
	return export.Selection{}, err
}

// exportCheckpoint returns the checkpoint that a name means in a thread.
func (a *app) exportCheckpoint(ctx context.Context, s *exportStore, thread segno.ThreadID, name string) (*segno.Checkpoint, error) {
	h, err := history.Read(ctx, s, thread)
	if err != nil {
		return nil, err
	}
	return h.Find(name)
}

// threadOf returns the thread with an id or a prefix of an id.
func (a *app) threadOf(ctx context.Context, s *exportStore, name string) (segno.ThreadID, error) {
	if s.Local != nil {
		t, err := a.ThreadNamed(ctx, s.Local, name)
		return t.ID, err
	}
	query := idprefix.Query{What: "thread", Name: name, Hint: "name a thread of this store"}
	t, err := idprefix.Find(query, s.Threads(ctx, segno.ThreadQuery{IDPrefix: name}), func(t segno.Thread) string { return string(t.ID) })
	return t.ID, err
}

// exportThread returns the thread of --thread, else the current thread of the directory. A store that does not belong
// to this machine has no directories, so the user must name the thread unless the store has only one.
func (a *app) exportThread(ctx context.Context, s *exportStore) (thread segno.ThreadID, err error) {
	switch {
	case a.ThreadName != "":
		return a.threadOf(ctx, s, a.ThreadName)
	case s.Local != nil:
		return a.localThread(ctx, s.Local)
	}
	for t, err := range s.Threads(ctx, segno.ThreadQuery{TopLevel: true, Limit: 2}) {
		if err != nil {
			return "", err
		}
		if thread != "" {
			return "", segno.Errorf(segno.KindNotFound, "find thread", s.Name, "the store has several threads").WithHint("name one of them")
		}
		thread = t.ID
	}
	if thread == "" {
		return "", segno.Errorf(segno.KindNotFound, "find thread", s.Name, "the store has no threads")
	}
	return thread, nil
}

// localThread returns the current thread of the directory.
func (a *app) localThread(ctx context.Context, s *local.Store) (segno.ThreadID, error) {
	dir, err := a.WorkDir()
	if err != nil {
		return "", err
	}
	d := &cli.Workspace{Store: s, Dir: dir}
	if err := d.Find(ctx, false); err != nil {
		return "", a.AddOtherThreads(ctx, s, err)
	}
	if d.Timeline, err = s.Timeline(d.Rec, nil); err != nil {
		return "", err
	}
	return a.ThreadID(ctx, d)
}
