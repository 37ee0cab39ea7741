package moves

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/demo"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// outdated returns the error of a move that differs from the previewed one.
func outdated(verb, name, changed string) error {
	return segno.NewError(segno.KindConflict, verb, name, &timeline.OutdatedError{Changed: changed}).WithHint("preview it again")
}

// rename changes the title of a thread.
type rename struct {
	*target
	title string
}

func (m *rename) describe(_ context.Context, p *Preview) error {
	if _, ok := m.Store.(segno.Renamer); !ok {
		return segno.Errorf(segno.KindRefused, verbRename, string(m.head.Thread), "this store cannot rename threads")
	}
	p.Landing, p.Tip = m.head.Head, m.head.Tip
	p.Summary = []string{fmt.Sprintf("rename thread %s from %q to %q", printable.Short(m.head.Thread),
		printable.Inline(timeline.Title(m.thread.Title)), printable.Inline(m.title))}
	return nil
}

func (m *rename) apply(ctx context.Context, _ segno.OperationID, _ bool, o *Outcome) error {
	if err := m.Store.(segno.Renamer).Rename(ctx, m.head.Thread, m.thread.Title, m.title); err != nil {
		if segno.KindOf(err) == segno.KindConflict {
			return outdated(verbRename, string(m.head.Thread), "the title")
		}
		return err
	}
	// An empty commit wakes the processes that wait for a change of the thread. If another writer
	// commits first, its commit wakes them, so a conflict is not an error.
	touch := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: m.head.Thread, Expect: m.head.Head, Epoch: m.head.Epoch}
	if _, err := m.Store.Commit(ctx, touch); err != nil && segno.KindOf(err) != segno.KindConflict && segno.KindOf(err) != segno.KindFenced {
		return err
	}
	if m.thread.Title != "" {
		o.Undo = &Request{Verb: verbRename, Thread: m.head.Thread, Title: m.thread.Title}
	}
	return nil
}

// deletion deletes a thread.
type deletion struct{ *target }

func (m *deletion) describe(ctx context.Context, p *Preview) error {
	if err := m.refuseInUse(ctx); err != nil {
		return err
	}
	p.Landing, p.Tip, p.Final = m.head.Head, m.head.Tip, true
	files := "the files in the directory stay"
	scratch, err := m.demoScratch(ctx)
	if scratch != "" {
		files = "the directory of the demo, " + segno.QuotePath(scratch) + ", is removed"
	}
	p.Summary = []string{fmt.Sprintf("delete thread %s, which has %s", printable.Short(m.head.Thread), printable.Plural(m.head.Turn, "turn")),
		"  " + files + "; this cannot be undone"}
	return err
}

// demoScratch returns the scratch directory of a demo. It returns "" for the thread of another agent, and as long as another
// thread, such as a fork, works in that directory.
func (m *deletion) demoScratch(ctx context.Context) (string, error) {
	if m.root == "" || m.thread.Agent != local.AgentDemo {
		return "", nil
	}
	scratch := demo.Scratch(m.root, m.Local.Place().Store)
	if scratch == "" {
		return "", nil
	}
	for t, err := range m.Store.Threads(ctx, segno.ThreadQuery{}) {
		if err != nil {
			return "", err
		}
		if t.ID == m.head.Thread || t.Workspace == "" {
			continue
		}
		rec, exists, err := m.Local.ThreadWorkspace(ctx, t)
		if err != nil {
			return "", err
		}
		if rel, err := filepath.Rel(scratch, rec.Path); exists && err == nil && filepath.IsLocal(rel) {
			return "", nil
		}
	}
	return scratch, nil
}

// refuseInUse returns the error with which apply would refuse to delete a thread that is in use, or nil.
func (m *deletion) refuseInUse(ctx context.Context) error {
	if m.Local != nil {
		return m.Local.RefuseDelete(ctx, m.head.Thread)
	}
	return timeline.RefuseDelete(ctx, m.Store, m.head.Thread)
}

func (m *deletion) apply(ctx context.Context, _ segno.OperationID, _ bool, _ *Outcome) error {
	if m.root != "" { // the lock keeps a turn from ending between the check and the deletion
		unlock, err := m.timeline.Spool.Lock(ctx, m.timeline.Workspace.ID())
		if err != nil {
			return err
		}
		defer unlock()
	}
	head, err := m.Store.Head(ctx, m.head.Thread)
	if err != nil {
		return err
	}
	if head.Head != m.head.Head || head.Tip != m.head.Tip {
		return outdated(verbDelete, string(m.head.Thread), "the thread")
	}
	if m.Local != nil {
		scratch, err := m.demoScratch(ctx)
		if err == nil {
			err = m.Local.DeleteThread(ctx, m.head.Thread)
		}
		if err != nil || scratch == "" {
			return err
		}
		return demo.Remove(scratch, m.Local.Place().DemoHome())
	}
	return timeline.DeleteWhole(ctx, m.Store, m.head.Thread)
}
