package moves

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/printable"
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
	p.Summary = []string{fmt.Sprintf("delete thread %s, which has %s", printable.Short(m.head.Thread), printable.Plural(m.head.Turn, "turn")),
		"  the files in the directory stay; this cannot be undone"}
	return nil
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
		return m.Local.DeleteThread(ctx, m.head.Thread)
	}
	return timeline.DeleteWhole(ctx, m.Store, m.head.Thread)
}
