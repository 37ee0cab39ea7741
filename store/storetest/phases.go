package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"pgregory.net/rapid"
)

func phases() []clause {
	return []clause{
		{"by phase", "threads are found by their phase: done, open, waiting", byPhase},
		{"by phase, with a cursor", "pages of a phase have each thread that stays in it once, whatever changes meanwhile", byPhaseInPages},
		{"by phase, anyhow", "after any history the index finds what the lines of the threads say", byPhaseAnyhow},
		{"by phase, among many", "what finding waiting threads costs does not depend on how many others are done", byPhaseAmongMany},
		{"by phase, deleted and invalid", "a deleted thread is in no phase; a cursor without a phase is invalid", byPhaseDeleted},
	}
}

func phasesAgain() []clause {
	return []clause{{"by phase, opened again", "phases survive closing and opening", byPhaseAgain}}
}

// agentStep is a step of a Go agent on a head.
func (f *fixture) agentStep(head segno.Head, entries ...segno.Entry) segno.Commit {
	c := f.next(head)
	c.Checkpoint.Kind, c.Checkpoint.Agent, c.Checkpoint.Step = segno.CheckpointStep, "agent", 1
	c.Entries = append(c.Entries, entries...)
	return c
}

func (f *fixture) asks(id string) segno.Entry {
	e, err := segno.Interrupt{ID: id, Thread: "t", Call: "call " + id, Tool: "tool", Args: []byte(`{}`), Asked: epoch, Allowed: []segno.DecisionKind{segno.Approve}}.Entry()
	f.ok(err)
	return e
}

func (f *fixture) decides(id string) segno.Entry {
	e, err := segno.Decision{Interrupt: id, Kind: segno.Approve, Time: epoch}.Entry()
	f.ok(err)
	return e
}

func (f *fixture) inPhase(p segno.Phase) []segno.ThreadID {
	f.Helper()
	return f.threads(segno.ThreadQuery{Phase: p})
}

func (f *fixture) phasesAre(what string, done, open, waiting []segno.ThreadID) {
	f.Helper()
	f.same(what+", done", f.inPhase(segno.PhaseDone), done)
	f.same(what+", open", f.inPhase(segno.PhaseOpen), open)
	f.same(what+", waiting", f.inPhase(segno.PhaseWaiting), waiting)
}

type threadIDs = []segno.ThreadID

func byPhase(f *fixture) {
	base := f.commit(f.base("t", ""))
	f.phasesAre("a new thread", threadIDs{"t"}, nil, nil)
	step := f.commit(f.agentStep(base))
	f.phasesAre("after a step", nil, threadIDs{"t"}, nil)
	asked := f.commit(f.agentStep(step, f.asks("1"), f.asks("2")))
	f.phasesAre("with questions", nil, nil, threadIDs{"t"})
	one := f.next(asked)
	one.Checkpoint, one.Entries = nil, []segno.Entry{f.decides("1")}
	head := f.commit(one)
	f.phasesAre("with one question left", nil, nil, threadIDs{"t"})
	two := f.next(head)
	two.Checkpoint, two.Entries = nil, []segno.Entry{f.decides("2")}
	head = f.commit(two)
	f.phasesAre("with none left", nil, threadIDs{"t"}, nil)
	head = f.commit(f.next(head))
	f.phasesAre("at the end of the turn", threadIDs{"t"}, nil, nil)
	head = f.commit(f.move(head, asked.Head, head.Tip))
	f.phasesAre("moved back", nil, nil, threadIDs{"t"})
	f.commit(f.base("fork", step.Head))
	f.phasesAre("with a fork", nil, threadIDs{"fork"}, threadIDs{"t"})
	f.commit(f.move(head, head.Tip, head.Tip))
	f.phasesAre("moved forward", threadIDs{"t"}, threadIDs{"fork"}, nil)
	f.same("of a workspace", f.threads(segno.ThreadQuery{Phase: segno.PhaseDone, Workspace: "w"}), threadIDs(nil))
	f.same("whole", f.threads(segno.ThreadQuery{Phase: segno.PhaseDone, TopLevel: true, Limit: 1}), threadIDs{"t"})
}

func byPhaseInPages(f *fixture) {
	var heads []segno.Head
	var want threadIDs
	for i := range 7 {
		id := segno.ThreadID(fmt.Sprintf("t%d", i))
		heads, want = append(heads, f.commit(f.agentStep(f.commit(f.base(id, ""))))), append(want, id)
	}
	var got threadIDs
	for after := segno.ThreadID(""); ; {
		page := f.threads(segno.ThreadQuery{Phase: segno.PhaseOpen, After: after, Limit: 2})
		got = append(got, page...)
		if len(page) < 2 {
			break
		}
		after = page[1]
		for i := range heads { // all change, and stay in their phase
			heads[i] = f.commit(f.agentStep(heads[i]))
		}
	}
	f.same("all pages", got, want)
}

func byPhaseAnyhow(f *fixture) {
	f.check(func(t *rapid.T) {
		var heads []segno.Head
		var all []segno.CommitID
		for range rapid.IntRange(1, 12).Draw(t, "commits") {
			heads, all = f.anyCommit(t, heads, all)
		}
		for p := segno.PhaseDone; p <= segno.PhaseWaiting; p++ {
			var want threadIDs
			for _, h := range heads {
				got, err := segno.ReadPhase(f.Context(), f.store, h.Head)
				f.ok(err)
				if got == p {
					want = append(want, h.Thread)
				}
			}
			slices.Sort(want)
			found := f.inPhase(p)
			mine := slices.DeleteFunc(found, func(id segno.ThreadID) bool {
				return !slices.ContainsFunc(heads, func(h segno.Head) bool { return h.Thread == id })
			})
			f.same(fmt.Sprintf("phase %d", p), append(threadIDs(nil), mine...), want)
		}
	})
}

// anyCommit makes a thread, or a commit on one.
func (f *fixture) anyCommit(t *rapid.T, heads []segno.Head, all []segno.CommitID) ([]segno.Head, []segno.CommitID) {
	if len(heads) == 0 || rapid.IntRange(0, 5).Draw(t, "new thread") == 0 {
		parent := segno.CommitID("")
		if len(all) > 0 && rapid.Bool().Draw(t, "fork") {
			parent = rapid.SampledFrom(all).Draw(t, "parent")
		}
		head := f.commit(f.base(segno.ThreadID(f.id("any")), parent))
		return append(heads, head), append(all, head.Head)
	}
	i := rapid.IntRange(0, len(heads)-1).Draw(t, "thread")
	head := heads[i]
	c := f.agentStep(head)
	switch rapid.SampledFrom([]string{"step", "ask", "decide", "end", "interrupt", "save", "move", "note", "line"}).Draw(t, "kind") {
	case "ask":
		c.Entries = append(c.Entries, f.asks(f.id("question")))
	case "decide":
		line, err := segno.Fold(&segno.Line{Commits: f.load(head.Head)})
		f.ok(err)
		c.Checkpoint, c.Entries = nil, c.Entries[:1]
		if len(line.Interrupts) > 0 {
			c.Entries = []segno.Entry{f.decides(line.Interrupts[0].ID)}
		}
	case "end":
		// A turn ends without questions.
		line, err := segno.Fold(&segno.Line{Commits: f.load(head.Head)})
		f.ok(err)
		for _, x := range line.Interrupts {
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
		to := f.path(head.Tip, 0)
		c = f.move(head, rapid.SampledFrom(to).Draw(t, "to"), head.Tip)
	case "line":
		c = at(head, rapid.SampledFrom(f.path(head.Head, 0)).Draw(t, "at"), c)
	}
	heads[i] = f.commit(c)
	return heads, append(all, heads[i].Head)
}

func byPhaseAmongMany(f *fixture) {
	for i := range 3 {
		f.commit(f.agentStep(f.commit(f.base(segno.ThreadID(fmt.Sprintf("waiting %d", i)), "")), f.asks("1")))
	}
	find := func() { f.same("waiting", len(f.inPhase(segno.PhaseWaiting)), 3) }
	find()
	alone := allocated(find)
	for range 150 {
		f.thread()
	}
	find()
	if among := allocated(find); among > alone+alone/2+16<<10 {
		f.Errorf("finding them took %d bytes alone and %d among 150 others", alone, among)
	}
}

func byPhaseDeleted(f *fixture) {
	head := f.commit(f.agentStep(f.commit(f.base("t", ""))))
	f.ok(f.store.Delete(f.Context(), head.Thread))
	f.phasesAre("deleted", nil, nil, nil)
	for _, q := range []segno.ThreadQuery{{After: "t"}, {Phase: segno.PhaseWaiting + 1}, {Phase: segno.PhaseDone, Session: "s"}} {
		for _, err := range f.store.Threads(f.Context(), q) {
			f.kind(err, segno.KindInvalid)
		}
	}
}

func byPhaseAgain(f *fixture) {
	open := f.commit(f.agentStep(f.commit(f.base("open", ""))))
	f.commit(f.agentStep(f.commit(f.base("waiting", "")), f.asks("1")))
	f.commit(f.base("done", ""))
	f.commit(f.base("fork", open.Head))
	f.reopen()
	f.phasesAre("opened again", threadIDs{"done"}, threadIDs{"fork", "open"}, threadIDs{"waiting"})
}

// Phases wants every thread of a store to be found in the phase that its line has, and in no
// other. It is for stores that an older version wrote.
func Phases(t *testing.T, s segno.Store) {
	t.Helper()
	found := map[segno.ThreadID][]segno.Phase{}
	for p := segno.PhaseDone; p <= segno.PhaseWaiting; p++ {
		for th, err := range s.Threads(t.Context(), segno.ThreadQuery{Phase: p}) {
			if err != nil {
				t.Fatal(err)
			}
			found[th.ID] = append(found[th.ID], p)
		}
	}
	for th, err := range s.Threads(t.Context(), segno.ThreadQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		head, err := s.Head(t.Context(), th.ID)
		if err != nil {
			t.Fatal(err)
		}
		want, err := segno.ReadPhase(t.Context(), s, head.Head)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(found[th.ID], []segno.Phase{want}) {
			t.Errorf("thread %s is found in the phases %v, and its line is in %v", th.ID, found[th.ID], want)
		}
	}
}
