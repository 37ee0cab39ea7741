package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/dalsegno/segno"
)

// watching are the clauses of waiting for a thread, whoever waits.
func watching(how waiter) []clause {
	return []clause{
		{"already there", "what is there already is returned at once", how.alreadyThere},
		{"a commit wakes", "who waits gets the head that the commit made", how.aCommitWakes},
		{"a move wakes", "undo, redo and restore are commits, and so are a pin and a link", how.aMoveWakes},
		{"another thread", "what happens to other threads, forks among them, wakes nobody", how.anotherThread},
		{"all wake", "a commit wakes all who wait for its thread", how.allWake},
		{"no lost wake-up", "a commit that lands while somebody begins to wait wakes him", how.noLostWakeUp},
		{"a follower at any pace", "who waits from head to head sees them in order and arrives at the last, whatever the writer does", how.aFollowerAtAnyPace},
		{"cancel", "a context that ends ends the waiting, and that alone", how.cancel},
		{"delete", "who waits for a thread that is not there, or is deleted meanwhile, learns it", how.deleted},
		{"close", "Close ends who waits, and does not wait for them", how.close},
	}
}

// otherWatching are those of many openings of one store.
func otherWatching(how waiter) []clause {
	return []clause{
		{"another opening", "commits and deletes of other openings wake, too", how.anotherOpening},
	}
}

// waiter is one way to wait, and how often a clause tries its luck with it.
type waiter struct {
	of     func(s segno.Store) segno.Store
	rounds int
}

// able asks the store's own ability.
func able() waiter {
	return waiter{of: func(s segno.Store) segno.Store { return s }, rounds: 300}
}

// plainly is what a store has whose ability is not to be seen.
func plainly() waiter {
	return waiter{of: func(s segno.Store) segno.Store { return struct{ segno.Store }{s} }, rounds: 10}
}

// patience is how long a clause waits for what must come.
const patience = 5 * time.Second

// woken is what somebody who waited got.
type woken struct {
	head segno.Head
	err  error
}

func (how waiter) wait(f *fixture, s segno.Store, thread segno.ThreadID, after int64) (w woken) {
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	w.head, w.err = segno.Wait(ctx, how.of(s), thread, after)
	return w
}

// begin has somebody wait; he is about to, or does, when begin returns.
func (how waiter) begin(f *fixture, thread segno.ThreadID, after int64) <-chan woken {
	got, on := make(chan woken, 1), make(chan struct{})
	go func() {
		close(on)
		got <- how.wait(f, f.store, thread, after)
	}()
	<-on
	return got
}

// gets wants who waited to have got a head.
func (f *fixture) gets(got <-chan woken, want segno.Head) {
	f.Helper()
	w := <-got
	f.ok(w.err)
	f.same("the head", w.head, want)
}

func (how waiter) alreadyThere(f *fixture) {
	head := f.turns(f.thread(), 3)
	for _, after := range []int64{head.Seq - 1, 1, 0, -1} {
		w := how.wait(f, f.store, head.Thread, after)
		f.ok(w.err)
		f.same(fmt.Sprint("the head after ", after), w.head, head)
	}
}

func (how waiter) aCommitWakes(f *fixture) {
	head := f.thread()
	for range 5 {
		got := how.begin(f, head.Thread, head.Seq)
		head = f.turns(head, 1)
		f.gets(got, head)
	}
}

func (how waiter) aMoveWakes(f *fixture) {
	base := f.thread()
	head := f.turns(base, 2)
	tip := head.Tip
	wakes := func(c segno.Commit) {
		f.Helper()
		got := how.begin(f, head.Thread, head.Seq)
		before := head.Seq
		head = f.commit(c)
		if head.Seq <= before {
			f.Fatalf("the seq is %d after %d", head.Seq, before)
		}
		f.gets(got, head)
	}
	wakes(f.move(head, base.Head, tip))       // undo
	wakes(f.move(head, tip, tip))             // redo
	wakes(f.move(head, base.Head, base.Head)) // restore
	c := f.move(head, "", "")
	c.Move, c.Pin = nil, &segno.Pin{Checkpoint: base.Head, Name: "here"}
	wakes(c)
	c = f.next(head)
	c.Link = &segno.Link{Agent: "claude", Session: "s", Start: epoch}
	wakes(c)
}

func (how waiter) anotherThread(f *fixture) {
	head, other := f.thread(), f.thread()
	ctx, cancel := context.WithCancel(f.Context())
	stopped := make(chan error, 1)
	go func() {
		_, err := segno.Wait(ctx, how.of(f.store), head.Thread, head.Seq)
		stopped <- err
	}()
	got := how.begin(f, head.Thread, head.Seq)
	f.turns(other, 3)
	fork := f.commit(f.base(segno.ThreadID(f.id("fork")), head.Head))
	forked := how.begin(f, fork.Thread, fork.Seq)
	fork = f.turns(fork, 1)
	f.gets(forked, fork)
	f.ok(f.store.Delete(f.Context(), other.Thread))
	cancel()
	f.kind(<-stopped, segno.KindCancelled)
	f.gets(got, f.turns(head, 1))
}

func (how waiter) allWake(f *fixture) {
	head := f.thread()
	var all []<-chan woken
	for range 30 {
		all = append(all, how.begin(f, head.Thread, head.Seq))
	}
	head = f.turns(head, 1)
	for _, got := range all {
		f.gets(got, head)
	}
}

// noLostWakeUp lets a writer go as soon as somebody is about to wait, so that the
// commit lands before, amid and after what that takes.
func (how waiter) noLostWakeUp(f *fixture) {
	head := f.thread()
	commits := make(chan segno.Commit)
	made := make(chan woken, 1)
	go func() {
		defer close(made)
		n := 0
		for c := range commits {
			for range n % 20 {
				runtime.Gosched()
			}
			n++
			var w woken
			w.head, w.err = f.store.Commit(f.Context(), c)
			made <- w
		}
	}()
	defer close(commits)
	for range how.rounds {
		commits <- f.next(head)
		got := how.wait(f, f.store, head.Thread, head.Seq)
		w := <-made
		f.ok(w.err)
		if got.err != nil {
			f.Fatalf("the commit with seq %d woke nobody: %v", w.head.Seq, got.err)
		}
		f.same("the head", got.head, w.head)
		head = w.head
	}
}

// aFollowerAtAnyPace has a writer and a follower run beside each other, each at the
// pace that chance gives the round.
func (how waiter) aFollowerAtAnyPace(f *fixture) {
	for round := range max(how.rounds/10, 3) {
		chance := rand.New(rand.NewPCG(uint64(round), 0))
		head := f.thread()
		made := map[int64]segno.Head{head.Seq: head}
		n := 1 + chance.IntN(12)
		seen := how.follow(f, head.Thread, head.Seq+int64(n))
		for range n {
			c := f.next(head)
			if chance.IntN(2) == 0 {
				c = f.move(head, f.path(head.Head, 0)[0], head.Tip)
			}
			for range chance.IntN(50) {
				runtime.Gosched()
			}
			head = f.commit(c)
			made[head.Seq] = head
		}
		var at int64
		for w := range seen {
			if w.err != nil {
				f.Fatalf("round %d, after seq %d of %d: %v", round, at, head.Seq, w.err)
			}
			if w.head.Seq <= at {
				f.Fatalf("round %d: seq %d after %d", round, w.head.Seq, at)
			}
			at = w.head.Seq
			f.same(fmt.Sprint("the head with seq ", at), w.head, made[at])
		}
		f.same("the last seq", at, head.Seq)
	}
}

// follow waits from head to head until the thread is at last.
func (how waiter) follow(f *fixture, thread segno.ThreadID, last int64) <-chan woken {
	seen := make(chan woken, last+1)
	go func() {
		defer close(seen)
		for at := int64(0); at < last; {
			w := how.wait(f, f.store, thread, at)
			seen <- w
			if w.err != nil {
				return
			}
			at = w.head.Seq
		}
	}()
	return seen
}

func (how waiter) cancel(f *fixture) {
	head := f.thread()
	ctx, cancel := context.WithCancel(f.Context())
	stopped := make(chan error, 1)
	go func() {
		_, err := segno.Wait(ctx, how.of(f.store), head.Thread, head.Seq)
		stopped <- err
	}()
	stays := how.begin(f, head.Thread, head.Seq)
	cancel()
	f.kind(<-stopped, segno.KindCancelled)
	_, err := segno.Wait(ctx, how.of(f.store), head.Thread, head.Seq-1)
	f.kind(err, segno.KindCancelled)
	f.gets(stays, f.turns(head, 1))
}

func (how waiter) deleted(f *fixture) {
	w := how.wait(f, f.store, "nobody", 0)
	f.kind(w.err, segno.KindNotFound)
	head := f.thread()
	got := how.begin(f, head.Thread, head.Seq)
	f.ok(f.store.Delete(f.Context(), head.Thread))
	f.kind((<-got).err, segno.KindNotFound)
	w = how.wait(f, f.store, head.Thread, 0)
	f.kind(w.err, segno.KindNotFound)
}

func (how waiter) close(f *fixture) {
	head := f.thread()
	var all []<-chan woken
	for range 10 {
		all = append(all, how.begin(f, head.Thread, head.Seq))
	}
	f.ok(f.store.Close())
	for _, got := range all {
		f.kind((<-got).err, segno.KindInvalid)
	}
	f.kind(how.wait(f, f.store, head.Thread, 0).err, segno.KindInvalid)
}

func (how waiter) anotherOpening(f *fixture) {
	other := f.o.Another(f.T, f.store)
	defer other.Close()
	head := f.thread()
	for range 3 {
		mine := how.begin(f, head.Thread, head.Seq)
		var theirs woken
		var group sync.WaitGroup
		thread, seq := head.Thread, head.Seq
		group.Go(func() { theirs = how.wait(f, other, thread, seq) })
		var err error
		head, err = other.Commit(f.Context(), f.next(head))
		f.ok(err)
		f.gets(mine, head)
		group.Wait()
		f.ok(theirs.err)
		f.same("the head in the other", theirs.head, head)
	}
	got := how.begin(f, head.Thread, head.Seq)
	f.ok(other.Delete(f.Context(), head.Thread))
	f.kind((<-got).err, segno.KindNotFound)
}
