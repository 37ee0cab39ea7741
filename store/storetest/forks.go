package storetest

import (
	"fmt"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

func forks() []clause {
	return []clause{
		{"a fork is where it began", "a fork has the messages, state, questions, meta and step of its checkpoint, and is listed", forkIsWhereItBegan},
		{"a fork at every save", "a fork at each save sees exactly what was saved there, and never a line that was abandoned", forkAtEverySave},
		{"forks go apart", "what is saved on a fork is not seen by its source, nor the other way round", forksGoApart},
		{"a fork outlives its source", "deleting a thread leaves its forks whole", forkOutlives},
		{"a fork into a namespace", "a fork may be a part of a thread, and a part may be forked into a whole one", forkIntoNamespace},
		{"a fork undone into its source", "a fork can go back to what it was forked from, and is still the same thread", forkUndone},
		{"no fork over a thread", "a fork onto a thread that exists is a conflict, and one of nothing is not found", noForkOver},
	}
}

// likeFork wants a fork to hold what its checkpoint held.
func (f *fixture) likeFork(what string, fork, of saver.Snapshot) {
	f.Helper()
	want := of
	want.ThreadKey, want.ID, want.Created, want.Updated = fork.ThreadKey, fork.ID, fork.Created, fork.Updated
	f.alike(what, fork, want)
}

func forkIsWhereItBegan(f *fixture) {
	s := f.save(f.rich(f.address()))
	s = f.save(more(s, "two"))
	s.Meta = map[string]string{"source": "loop"}
	s = f.save(more(s, "three"))
	f.save(more(s, "four"))
	fork := f.fork(s.ID, f.address())
	f.likeFork("the fork", fork, s)
	f.stands(fork)
	f.same("the newest listed", f.infos("")[0].ID, fork.ID)
	f.exists(fork.ThreadKey, true)
	next := f.save(more(fork, "on the fork"))
	f.same("the step after", next.Step, 4)
	f.same("the messages after", len(f.get(fork.ThreadKey).Messages), 5)
	f.same("created", f.get(fork.ThreadKey).Created, fork.Created)
}

func forkAtEverySave(f *fixture) {
	all := f.grown(f.address(), 6)
	a := all[0].ThreadKey
	undone := more(f.undo(a, 3), "elsewhere")
	undone.State = state("n", `"elsewhere"`)
	all = append(all, f.save(undone))
	all = append(all, f.save(more(all[6], "and on")))
	for i, s := range all {
		fork := f.fork(s.ID, f.address())
		f.likeFork(fmt.Sprint("the fork of save ", i), fork, s)
		f.stands(fork)
	}
	f.stands(all[7])
	f.same("the source's history", f.told(a, segno.CheckpointQuery{}), newest(all...))
}

func forksGoApart(f *fixture) {
	all := f.grown(f.address(), 2)
	fork := f.fork(all[0].ID, f.address())
	fork = f.save(more(fork, "on the fork"))
	source := f.save(more(all[1], "on the source"))
	f.stands(fork)
	f.stands(source)
	f.same("the fork's messages", len(f.get(fork.ThreadKey).Messages), 2)
	again := f.fork(fork.ID, f.address())
	f.likeFork("a fork of the fork", again, fork)
	f.save(more(again, "deeper"))
	f.stands(fork)
}

func forkOutlives(f *fixture) {
	all := f.grown(f.address(), 3)
	fork := f.fork(all[1].ID, f.address())
	f.ok(f.saver.Delete(f.Context(), all[0].ThreadKey))
	f.absent(all[0].ThreadKey)
	f.stands(fork)
	f.stands(f.save(more(fork, "on")))
}

func forkIntoNamespace(f *fixture) {
	all := f.grown(f.address(), 2)
	part := saver.ThreadKey{Thread: all[0].Thread, Namespace: "try"}
	fork := f.fork(all[0].ID, part)
	f.likeFork("the part", fork, all[0])
	f.same("the namespace's list", f.saved("try"), []saver.ThreadKey{part})
	f.same("the whole ones", f.saved(""), []saver.ThreadKey{all[0].ThreadKey})
	whole := f.fork(f.save(more(fork, "x")).ID, f.address())
	f.same("the whole ones after", f.saved(""), []saver.ThreadKey{whole.ThreadKey, all[0].ThreadKey})
	f.ok(f.saver.Delete(f.Context(), all[0].ThreadKey))
	f.absent(part)
	f.stands(whole)
}

func forkUndone(f *fixture) {
	all := f.grown(f.address(), 3)
	f.tick(time.Hour)
	fork := f.fork(all[2].ID, f.address())
	back := f.undo(fork.ThreadKey, 2)
	f.likeFork("two back", back, all[1])
	f.same("created", back.Created, fork.Created)
	f.alike("loaded", f.get(fork.ThreadKey), back)
	f.likeFork("an ancestor by its id", f.at(fork.ThreadKey, all[0].ID), all[0])
	next := f.save(more(back, "from there"))
	f.same("its step", next.Step, 3)
	f.same("created after a save", f.get(fork.ThreadKey).Created, fork.Created)
	f.same("created, listed", f.infos("")[0].Created, fork.Created)
	f.stands(all[2])
}

func noForkOver(f *fixture) {
	all := f.grown(f.address(), 2)
	other := f.begin(f.address(), "other")
	_, err := f.saver.(Forker).Fork(f.Context(), all[0].ID, other.ThreadKey)
	f.kind(err, segno.KindConflict)
	f.stands(other)
	fresh := f.address()
	_, err = f.saver.(Forker).Fork(f.Context(), "nobody", fresh)
	f.kind(err, segno.KindNotFound)
	f.absent(fresh)
	f.ok(f.saver.Delete(f.Context(), f.begin(fresh, "x").ThreadKey))
	_, err = f.saver.(Forker).Fork(f.Context(), all[0].ID, fresh)
	f.kind(err, segno.KindRefused)
	_, err = f.saver.(Forker).Fork(f.Context(), all[0].ID, saver.ThreadKey{})
	f.kind(err, segno.KindInvalid)
	f.same("how many are listed", len(f.saved("")), 2)
}
