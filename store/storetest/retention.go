package storetest

import (
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// retentions are the clauses of a collection with a [segno.Retention].
func retentions() []clause {
	return []clause{
		{"lines that were left", "a rule drops what an undo left, and nothing that head, tip, a pin, a fork or an open question keeps", leftLinesGo},
		{"the newest turns", "the newest turns of a thread stay on whatever line they are", newestTurnsStay},
		{"what has no time", "a thread whose checkpoints have no time does not expire, and its lines stay", noTimeStays},
		{"expired threads", "a thread expires when no rule keeps a turn of it; one that has a pin, runs or waits does not", threadsExpire},
	}
}

// retain collects with a retention.
func (f *fixture) retain(r segno.Retention) segno.Collection {
	f.Helper()
	lines, err := r.Lines(f.Context(), f.store, f.now())
	f.ok(err)
	done, err := f.store.(segno.Collector).Collect(f.Context(), segno.CollectPolicy{Trace: trace, Retain: lines})
	f.ok(err)
	return done
}

// left is a line of one turn on a base, which the thread left for the base again.
func (f *fixture) left(base segno.CommitID, head segno.Head, entries ...segno.Entry) (end segno.CommitID, back segno.Head) {
	f.Helper()
	c := f.agentStep(head, entries...)
	c.Parent, c.Checkpoint.Time = base, f.now()
	if len(entries) == 0 {
		c.Checkpoint.Kind = segno.CheckpointTurn
	}
	head = f.commit(c)
	return head.Head, f.commit(f.move(head, base, base))
}

func leftLinesGo(f *fixture) {
	head := f.commit(f.next(f.thread()))
	base := head.Head
	plain, head := f.left(base, head)
	pinned, head := f.left(base, head)
	asking, head := f.left(base, head, f.asks("1"))
	forked, head := f.left(base, head)
	undone, head := f.left(base, head)
	pin := f.move(head, base, base)
	pin.Pin = &segno.Pin{Checkpoint: pinned, Name: "wanted"}
	head = f.commit(pin)
	f.commit(f.base("fork", forked))
	if _, ok := f.store.(segno.Workspaces); ok {
		op := f.move(head, base, base)
		op.Operation = &segno.Operation{ID: "op", Workspace: "w", Thread: head.Thread, Verb: segno.VerbUndo, Time: f.now(), Before: segno.Pointers{Head: undone, Tip: undone}}
		head = f.commit(op)
	}
	f.o.Clock.Advance(48 * time.Hour)
	now := f.agentStep(head)
	now.Checkpoint.Time = f.now()
	head = f.commit(now)
	f.same("without a rule", f.retain(segno.Retention{}).Checkpoints, 0)
	f.same("with a rule that keeps all", f.retain(segno.Retention{KeepFor: 72 * time.Hour}).Checkpoints, 0)
	f.same("dropped", f.retain(segno.Retention{KeepFor: 24 * time.Hour}).Checkpoints, 2)
	var found []segno.CommitID
	for _, c := range f.list(segno.CheckpointQuery{Thread: head.Thread}) {
		found = append(found, c.ID)
	}
	for _, id := range []segno.CommitID{pinned, asking, forked, base, head.Head} {
		if !slices.Contains(found, id) {
			f.Errorf("%s is gone", id)
		}
	}
	for _, id := range []segno.CommitID{plain, undone} {
		_, err := f.store.Load(f.Context(), id, segno.Window{})
		f.kind(err, segno.KindNotFound)
	}
	f.turns(f.head(head.Thread), 1)
}

func newestTurnsStay(f *fixture) {
	head := f.commit(f.next(f.thread()))
	base := head.Head
	var ends []segno.CommitID
	for range 4 {
		var end segno.CommitID
		end, head = f.left(base, head)
		ends = append(ends, end)
	}
	f.o.Clock.Advance(48 * time.Hour)
	f.same("dropped", f.retain(segno.Retention{KeepTurns: 2}).Checkpoints, 2)
	f.path(ends[2], 0)
	f.path(ends[3], 0)
	f.same("dropped by both rules", f.retain(segno.Retention{KeepTurns: 1, KeepFor: 72 * time.Hour}).Checkpoints, 0)
	f.same("dropped by the stricter rule", f.retain(segno.Retention{KeepTurns: 1}).Checkpoints, 1)
}

func noTimeStays(f *fixture) {
	c := f.base("timeless", "")
	c.Checkpoint.Time = time.Time{}
	base := f.commit(c)
	c = f.next(base)
	c.Checkpoint.Time = time.Time{}
	left := f.commit(c)
	f.commit(f.move(left, base.Head, base.Head))
	f.o.Clock.Advance(48 * time.Hour)
	rule := segno.Retention{KeepFor: time.Hour}
	expired, err := rule.Expired(f.Context(), f.store, f.now())
	f.ok(err)
	f.same("expired", expired, []segno.ThreadID(nil))
	f.same("dropped", f.retain(rule).Checkpoints, 0)
	f.path(left.Head, 0)
}

func threadsExpire(f *fixture) {
	commit := func(id segno.ThreadID, entries ...segno.Entry) segno.Head {
		c := f.agentStep(f.commit(f.base(id, "")), entries...)
		c.Checkpoint.Time = f.now()
		return f.commit(c)
	}
	commit("old")
	commit("waits", f.asks("1"))
	pinned := commit("pinned")
	pin := f.move(pinned, pinned.Head, pinned.Tip)
	pin.Pin = &segno.Pin{Checkpoint: pinned.Head, Name: "wanted"}
	f.commit(pin)
	commit("whole")
	part := f.base("part", "")
	part.Create.ParentThread, part.Checkpoint.Time = "whole", f.now().Add(47*time.Hour)
	f.commit(part)
	f.o.Clock.Advance(48 * time.Hour)
	want := []segno.ThreadID{"old"}
	if leaser, ok := f.store.(segno.Leaser); ok {
		commit("runs")
		_, err := leaser.Acquire(f.Context(), segno.Lease{Thread: "runs", Owner: "a run", Expires: f.now().Add(time.Minute)})
		f.ok(err)
	}
	expired := func(r segno.Retention) []segno.ThreadID {
		got, err := r.Expired(f.Context(), f.store, f.now())
		f.ok(err)
		return got
	}
	f.same("expired", expired(segno.Retention{KeepFor: 24 * time.Hour}), want)
	f.same("without a rule", expired(segno.Retention{}), []segno.ThreadID(nil))
	f.same("with the newest turns", expired(segno.Retention{KeepFor: 24 * time.Hour, KeepTurns: 1}), []segno.ThreadID(nil))
}
