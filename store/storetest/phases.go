package storetest

import (
	"fmt"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/phase"
	"pgregory.net/rapid"
)

// asks returns an entry with a question.
func (f *fixture) asks(id string) segno.Entry {
	e, err := segno.Interrupt{ID: id, Thread: "t", Call: "call " + id, Tool: "tool", Args: []byte(`{}`), Asked: epoch,
		Allowed: []segno.DecisionKind{segno.Approve}}.Entry()
	f.ok(err)
	return e
}

// decides returns an entry with the decision on a question.
func (f *fixture) decides(id string) segno.Entry {
	return returned(segno.Decision{Interrupt: id, Kind: segno.Approve, Time: epoch}.Entry()).ok(f)
}

// phases fails the test unless exactly these threads are in each phase.
func (f *fixture) phases(what, done, open, waiting string) {
	f.Helper()
	for p, want := range map[segno.Phase]string{segno.PhaseDone: done, segno.PhaseOpen: open, segno.PhaseWaiting: waiting} {
		f.same(fmt.Sprintf("the threads in phase %d %s", p, what), joined(f.threads(segno.ThreadQuery{Phase: p})), want)
	}
}

// phaseTests test the index of threads by phase.
var phaseTests = []test{
	{"by phase", "queries by phase have filters, too; a deleted thread is in no phase", func(f *fixture) {
		f.commit(f.base("t", ""))
		f.commit(f.step(f.commit(f.base("fork", "base-1"))))
		f.same("in a workspace", joined(f.threads(segno.ThreadQuery{Phase: segno.PhaseDone, Workspace: "w"})), "")
		f.same("of top level", joined(f.threads(segno.ThreadQuery{Phase: segno.PhaseDone, TopLevel: true, Limit: 1})), "t")
		f.ok(f.store.Delete(f.Context(), "t"))
		f.phases("after a deletion", "", "fork", "")
		for _, q := range []segno.ThreadQuery{{After: "t"}, {Phase: segno.PhaseWaiting + 1}, {Phase: segno.PhaseDone, Session: "s"}} {
			f.kind(lastErr(f.store.Threads(f.Context(), q)), segno.KindInvalid)
		}
	}},
	{"any phase", "after random commits every thread is found in the phase of its line", func(f *fixture) {
		f.random(func(t *rapid.T) {
			head := f.newThread()
			for range rapid.IntRange(1, 12).Draw(t, "commits") {
				head = f.randomCommit(t, head)
			}
			f.checkPhases()
			for _, id := range f.threads(segno.ThreadQuery{}) {
				f.ok(f.store.Delete(f.Context(), id))
			}
		})
	}},
	{"a phase among many threads", "the cost of finding waiting threads does not depend on the number of others", func(f *fixture) {
		for i := range 3 {
			f.commit(f.step(f.commit(f.base(segno.ThreadID(fmt.Sprint("waiting ", i)), "")), f.asks("1")))
		}
		find := func() { f.same("waiting", len(f.threads(segno.ThreadQuery{Phase: segno.PhaseWaiting})), 3) }
		find()
		alone := allocated(find)
		for range 150 {
			f.newThread()
		}
		find()
		if among := allocated(find); among > alone+alone/2+16<<10 {
			f.Errorf("%d bytes were allocated without other threads and %d with 150 others", alone, among)
		}
	}},
}

// reopenedPhaseTests read the index after the store was closed and opened again.
var reopenedPhaseTests = []test{
	{"by phase, opened again", "phases survive closing and opening", func(f *fixture) {
		open := f.commit(f.step(f.commit(f.base("open", ""))))
		f.commit(f.step(f.commit(f.base("waiting", "")), f.asks("1")))
		f.commit(f.base("done", ""))
		f.commit(f.base("fork", open.Head))
		f.reopen()
		f.phases("after reopening", "done", "fork open", "waiting")
	}},
}

// randomCommit commits a random change of a thread, or forks it. It returns the head of the thread or
// of the fork.
func (f *fixture) randomCommit(t *rapid.T, head segno.Head) segno.Head {
	c := f.step(head)
	switch rapid.SampledFrom([]string{"step", "ask", "decide", "end", "interrupt", "save", "move", "note", "line", "fork"}).Draw(t, "kind") {
	case "ask":
		c.Entries = append(c.Entries, f.asks(f.id("question")))
	case "decide":
		for _, x := range f.foldAt(head.Head).Interrupts {
			c.Checkpoint, c.Entries = nil, []segno.Entry{f.decides(x.ID)}
		}
	case "end": // a turn ends without open questions
		for _, x := range f.foldAt(head.Head).Interrupts {
			c.Entries = append(c.Entries, f.decides(x.ID))
		}
		c.Checkpoint.Kind = segno.CheckpointTurn
	case "interrupt":
		c.Checkpoint.Kind, c.Checkpoint.Interrupted = segno.CheckpointTurn, true
	case "save":
		c.Checkpoint.Kind = segno.CheckpointSave
	case "note":
		c.Checkpoint = nil
	case "move":
		c = f.move(head, rapid.SampledFrom(f.line(head.Tip, 0)).Draw(t, "to"), head.Tip)
	case "line":
		c = after(head, rapid.SampledFrom(f.line(head.Head, 0)).Draw(t, "at"), c)
	case "fork":
		c = f.base(segno.ThreadID(f.id("fork")), head.Head)
	}
	return f.commit(c)
}

// Phases fails the test unless each thread of s is listed in the phase of its line and in no other
// phase. It is for stores that an older version wrote.
func Phases(t *testing.T, s segno.Store) {
	t.Helper()
	(&fixture{tester: t, store: s}).checkPhases()
}

func (f *fixture) checkPhases() {
	f.Helper()
	found := map[segno.ThreadID][]segno.Phase{}
	for p := segno.PhaseDone; p <= segno.PhaseWaiting; p++ {
		for after, more := segno.ThreadID(""), true; more; {
			page := f.threads(segno.ThreadQuery{Phase: p, After: after, Limit: 20})
			for _, id := range page {
				after, found[id] = id, append(found[id], p)
			}
			more = len(page) == 20
		}
	}
	for _, id := range f.threads(segno.ThreadQuery{}) {
		want := returned(phase.Read(f.Context(), f.store, f.head(id).Head)).ok(f)
		f.same("the phases of thread "+string(id), found[id], []segno.Phase{want})
	}
}
