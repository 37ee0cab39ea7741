package storetest

import (
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

func histories() []clause {
	return []clause{
		{"the history keeps the first", "every save is in the history, newest first, and is loaded as it was saved", historyKeepsFirst},
		{"any history", "whatever a query combines, a thread's history in a namespace is what an oracle says", anyHistory},
		{"any checkpoint of the thread", "a checkpoint that is not there, or is another thread's, is not found; an old one cannot be saved onto", anyCheckpoint},
	}
}

func travels() []clause {
	return []clause{
		{"undo and redo", "undo and redo move between saves; each is loaded as it was saved, and nothing is lost", undoAndRedo},
		{"too far", "what cannot be undone or redone moves nothing and says so", tooFar},
		{"a new line after an undo", "a save after an undo begins a line that has nothing of the one left behind", newLineAfterUndo},
		{"restore", "a thread can stand on any of its checkpoints, and the redo of the line it was on remains", restoreAny},
		{"an answer taken back", "undoing an answer makes its question wait again, and the answer is in the history only", answerTakenBack},
		{"a stale writer after an undo", "a save onto a checkpoint that was undone meanwhile is a conflict", staleAfterUndo},
	}
}

// at loads one checkpoint.
func (f *fixture) at(a saver.ThreadKey, id segno.CommitID) saver.Snapshot {
	f.Helper()
	s, err := f.saver.(Historian).At(f.Context(), a, id)
	f.ok(err)
	return s
}

func (f *fixture) history(a saver.ThreadKey, q segno.CheckpointQuery) (found []segno.Checkpoint) {
	f.Helper()
	for c, err := range f.saver.(Historian).History(f.Context(), a, q) {
		f.ok(err)
		found = append(found, c)
	}
	return found
}

// told is the ids of a history.
func (f *fixture) told(a saver.ThreadKey, q segno.CheckpointQuery) (ids []segno.CommitID) {
	f.Helper()
	for _, c := range f.history(a, q) {
		ids = append(ids, c.ID)
	}
	return ids
}

// grown saves n checkpoints, each with one more message and another value.
func (f *fixture) grown(a saver.ThreadKey, n int) (all []saver.Snapshot) {
	f.Helper()
	s := saver.Snapshot{ThreadKey: a}
	for i := range n {
		s = more(s, fmt.Sprint("message ", i))
		s.State = state("n", fmt.Sprint(i), "same", `"always"`)
		s = f.save(s)
		all = append(all, s)
	}
	return all
}

// newest is the ids of checkpoints, the newest first, as a history tells them.
func newest(all ...saver.Snapshot) (ids []segno.CommitID) {
	for _, s := range slices.Backward(all) {
		ids = append(ids, s.ID)
	}
	return ids
}

func (f *fixture) undo(a saver.ThreadKey, n int) saver.Snapshot {
	f.Helper()
	s, err := f.saver.(Traveller).Undo(f.Context(), a, n)
	f.ok(err)
	return s
}

func (f *fixture) redo(a saver.ThreadKey, n int) saver.Snapshot {
	f.Helper()
	s, err := f.saver.(Traveller).Redo(f.Context(), a, n)
	f.ok(err)
	return s
}

func (f *fixture) fork(from segno.CommitID, to saver.ThreadKey) saver.Snapshot {
	f.Helper()
	s, err := f.saver.(Forker).Fork(f.Context(), from, to)
	f.ok(err)
	return s
}

func historyKeepsFirst(f *fixture) {
	all := f.grown(f.address(), 4)
	a := all[0].ThreadKey
	f.same("the history", f.told(a, segno.CheckpointQuery{}), newest(all...))
	for i, s := range all {
		f.alike(fmt.Sprint("save ", i), f.at(a, s.ID), s)
	}
	h := f.history(a, segno.CheckpointQuery{})
	f.same("the first's parent", h[3].Parent, segno.CommitID(""))
	f.same("the second's parent", h[2].Parent, all[0].ID)
	f.same("the second's step and time", []any{h[2].Step, h[2].Time.Equal(all[1].Updated)}, []any{2, true})
	f.same("a thread's that is not there", f.told(f.address(), segno.CheckpointQuery{}), []segno.CommitID(nil))
}

func anyCheckpoint(f *fixture) {
	all := f.grown(f.address(), 2)
	h := f.saver.(Historian)
	_, err := h.At(f.Context(), all[0].ThreadKey, "nobody")
	f.kind(err, segno.KindNotFound)
	_, err = h.At(f.Context(), f.address(), all[0].ID)
	f.kind(err, segno.KindNotFound)
	old := f.at(all[0].ThreadKey, all[0].ID)
	_, err = f.saver.Save(f.Context(), more(old, "late"))
	f.same("what a save onto an old one is told", f.conflict(err).Head, all[1].ID)
	other := f.begin(f.address(), "of another")
	_, err = h.At(f.Context(), all[0].ThreadKey, other.ID)
	f.kind(err, segno.KindNotFound)
	f.ok(f.saver.Delete(f.Context(), all[0].ThreadKey))
	_, err = h.At(f.Context(), all[0].ThreadKey, all[0].ID)
	f.kind(err, segno.KindNotFound)
	f.same("the history of what was deleted", f.told(all[0].ThreadKey, segno.CheckpointQuery{}), []segno.CommitID(nil))
}

func undoAndRedo(f *fixture) {
	all := f.grown(f.address(), 5)
	a := all[0].ThreadKey
	for i := 3; i >= 0; i-- {
		f.alike(fmt.Sprint("undone to ", i), f.undo(a, 1), all[i])
		f.stands(all[i])
	}
	f.alike("two forward", f.redo(a, 2), all[2])
	f.alike("to the end", f.redo(a, 2), all[4])
	f.alike("three back", f.undo(a, 3), all[1])
	f.same("the history", f.told(a, segno.CheckpointQuery{}), newest(all...))
	f.same("what is listed", f.infos("")[0].ID, all[1].ID)
}

func tooFar(f *fixture) {
	all := f.grown(f.address(), 3)
	a, v := all[0].ThreadKey, f.saver.(Traveller)
	for _, n := range []int{3, 99, 0, -1} {
		_, err := v.Undo(f.Context(), a, n)
		f.kind(err, segno.KindNotFound)
		_, err = v.Redo(f.Context(), a, n)
		f.kind(err, segno.KindNotFound)
	}
	f.stands(all[2])
	_, err := v.Restore(f.Context(), a, "nobody")
	f.kind(err, segno.KindNotFound)
	_, err = v.Undo(f.Context(), f.address(), 1)
	f.kind(err, segno.KindNotFound)
}

func newLineAfterUndo(f *fixture) {
	all := f.grown(f.address(), 4)
	a := all[0].ThreadKey
	s := f.save(more(f.undo(a, 2), "elsewhere"))
	f.stands(s)
	f.same("its messages", len(f.get(a).Messages), 3)
	f.same("its step", s.Step, 3)
	_, err := f.saver.(Traveller).Redo(f.Context(), a, 1)
	f.kind(err, segno.KindNotFound)
	f.alike("the line left behind", f.at(a, all[3].ID), all[3])
	f.same("the history", f.told(a, segno.CheckpointQuery{}), append([]segno.CommitID{s.ID}, newest(all...)...))
	f.alike("one back on the new line", f.undo(a, 1), all[1])
}

func restoreAny(f *fixture) {
	all := f.grown(f.address(), 4)
	a, v := all[0].ThreadKey, f.saver.(Traveller)
	other := f.grown(f.address(), 2)
	s, err := v.Restore(f.Context(), a, all[1].ID)
	f.ok(err)
	f.alike("where it stands", s, all[1])
	f.alike("its redo", f.redo(a, 2), all[3])
	f.save(more(f.undo(a, 3), "elsewhere"))
	s, err = v.Restore(f.Context(), a, all[3].ID)
	f.ok(err)
	f.alike("back on the line left behind", s, all[3])
	f.stands(all[3])
	_, err = v.Restore(f.Context(), a, other[0].ID)
	f.kind(err, segno.KindRefused)
	f.stands(all[3])
}

func answerTakenBack(f *fixture) {
	s := f.asked(1)
	answered := f.save(decided(s, approve(s.Interrupts[0])))
	back := f.undo(s.ThreadKey, 1)
	f.same("what waits", waiting(back), waiting(s))
	now := f.save(decided(back, segno.Decision{Interrupt: s.Interrupts[0].ID, Kind: segno.Reject}))
	f.same("what waits after another answer", len(waiting(f.get(s.ThreadKey))), 0)
	f.same("the history", f.told(s.ThreadKey, segno.CheckpointQuery{}), []segno.CommitID{now.ID, answered.ID, s.ID})
}

func staleAfterUndo(f *fixture) {
	all := f.grown(f.address(), 3)
	f.undo(all[0].ThreadKey, 1)
	_, err := f.saver.Save(f.Context(), more(all[2], "late"))
	f.same("what it is told", f.conflict(err).Head, all[1].ID)
	f.stands(all[1])
}
