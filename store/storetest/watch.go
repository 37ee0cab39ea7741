package storetest

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/dalsegno/segno"
)

// woken is the result of a wait.
type woken struct {
	Head segno.Head
	Err  error
}

// waitStore returns the store on which to wait. The group "wait" hides the store's Watcher, so that
// segno.Wait polls.
func (f *fixture) waitStore(s segno.Store) segno.Store {
	if f.hideWatcher {
		return struct{ segno.Store }{s}
	}
	return s
}

// wait waits for a commit with a seq higher than after, for so long that a commit takes less on a busy disk.
func (f *fixture) wait(s segno.Store, thread segno.ThreadID, after int64) (w woken) {
	ctx, cancel := context.WithTimeout(f.Context(), 5*time.Minute)
	defer cancel()
	w.Head, w.Err = segno.Wait(ctx, f.waitStore(s), thread, after)
	return w
}

// beginWait starts a goroutine that waits for the next commit after head.
func (f *fixture) beginWait(s segno.Store, head segno.Head) <-chan woken {
	got, started := make(chan woken, 1), make(chan struct{})
	go func() {
		close(started)
		got <- f.wait(s, head.Thread, head.Seq)
	}()
	<-started
	return got
}

// wakes commits c while several callers wait for it. All of them must receive the new head.
func (f *fixture) wakes(head segno.Head, c segno.Commit, callers int) segno.Head {
	f.Helper()
	var waits []<-chan woken
	for range callers {
		waits = append(waits, f.beginWait(f.store, head))
	}
	now := f.commit(c)
	for _, got := range waits {
		w := <-got
		f.ok(w.Err)
		f.same("the head", w.Head, now)
	}
	return now
}

// watchTests test segno.Wait, with the store's Watcher and without it.
var watchTests = []test{
	{"already there", "Wait returns at once if the thread has a higher seq", func(f *fixture) {
		head := f.turns(f.newThread(), 3)
		for _, seq := range []int64{head.Seq - 1, 1, 0, -1} {
			f.same(fmt.Sprint("the head after ", seq), f.wait(f.store, head.Thread, seq), woken{Head: head})
		}
		f.kind(f.wait(f.store, "missing", 0).Err, segno.KindNotFound)
	}},
	{"every commit wakes", "turns, undo, redo, restore, pins and links wake all callers that wait for the thread", func(f *fixture) {
		base := f.newThread()
		head := f.wakes(base, f.turn(base), 30)
		head = f.wakes(head, f.turn(head), 1)
		tip := head.Tip
		head = f.wakes(head, f.move(head, base.Head, tip), 1)
		head = f.wakes(head, f.move(head, tip, tip), 1)
		head = f.wakes(head, f.move(head, base.Head, base.Head), 1)
		pin := f.pin(head, base.Head, "here")
		pin.Move = nil
		head = f.wakes(head, pin, 1)
		link := f.turn(head)
		link.Link = &segno.Link{Agent: "claude", Session: "s", Start: epoch}
		f.wakes(head, link, 2)
	}},
	{"another thread", "commits to other threads and forks wake no caller; the end of a context ends only its wait", func(f *fixture) {
		head, other := f.newThread(), f.newThread()
		ctx, cancel := context.WithCancel(f.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- errOf(segno.Wait(ctx, f.waitStore(f.store), head.Thread, head.Seq)) }()
		got := f.beginWait(f.store, head)
		f.turns(other, 3)
		fork := f.commit(f.base(segno.ThreadID(f.id("fork")), head.Head))
		f.wakes(fork, f.turn(fork), 1)
		f.ok(f.store.Delete(f.Context(), other.Thread))
		cancel()
		f.kind(<-stopped, segno.KindCancelled)
		f.kind(errOf(segno.Wait(ctx, f.waitStore(f.store), head.Thread, head.Seq-1)), segno.KindCancelled)
		want := woken{Head: f.turns(head, 1)}
		f.same("the next head", <-got, want)
	}},
	{"no lost wake-up", "a caller that waits from head to head gets them in order and reaches the last one", testNoLostWakeUp},
	{"delete", "the deletion of the thread ends a wait with KindNotFound", func(f *fixture) {
		head := f.newThread()
		got := f.beginWait(f.store, head)
		f.ok(f.store.Delete(f.Context(), head.Thread))
		f.kind((<-got).Err, segno.KindNotFound)
		f.kind(f.wait(f.store, head.Thread, 0).Err, segno.KindNotFound)
	}},
	{"close", "Close ends all waits with KindInvalid", func(f *fixture) {
		head := f.newThread()
		var waits []<-chan woken
		for range 10 {
			waits = append(waits, f.beginWait(f.store, head))
		}
		f.ok(f.store.Close())
		for _, got := range waits {
			f.kind((<-got).Err, segno.KindInvalid)
		}
		f.kind(f.wait(f.store, head.Thread, 0).Err, segno.KindInvalid)
	}},
}

// otherWatchTests open the store twice.
var otherWatchTests = []test{
	{"another opening", "commits and deletions through another opening of the store end a wait", func(f *fixture) {
		other, head := f.secondStore(), f.newThread()
		for range 3 {
			waits := []<-chan woken{f.beginWait(f.store, head), f.beginWait(other, head)}
			head = returned(other.Commit(f.Context(), f.turn(head))).ok(f)
			for _, got := range waits {
				f.same("the head", <-got, woken{Head: head})
			}
		}
		got := f.beginWait(f.store, head)
		f.ok(other.Delete(f.Context(), head.Thread))
		f.kind((<-got).Err, segno.KindNotFound)
	}},
}

// testNoLostWakeUp starts a writer and a follower at the same time in each round, so that commits happen
// before, during and after the start of a wait. The follower must reach the last commit.
func testNoLostWakeUp(f *fixture) {
	rounds := 300
	if f.hideWatcher {
		rounds = 10 // a poll is slow
	}
	head := f.newThread()
	for n := range rounds {
		before, made, commits := head, map[int64]segno.Head{}, []segno.Commit{f.turn(head)}
		for range n % 3 {
			last := commits[len(commits)-1]
			commits = append(commits, f.turn(segno.Head{Thread: head.Thread, Head: last.ID}))
		}
		last, done := head.Seq+int64(len(commits)), make(chan woken, 1)
		go func() {
			var w woken
			for _, c := range commits {
				for range n % 20 {
					runtime.Gosched()
				}
				if w.Head, w.Err = f.store.Commit(f.Context(), c); w.Err != nil {
					break
				}
				made[w.Head.Seq] = w.Head
			}
			done <- w
		}()
		var seen []segno.Head
		for seq := before.Seq; seq < last; {
			w := f.wait(f.store, head.Thread, seq)
			if w.Err != nil || w.Head.Seq <= seq {
				f.Fatalf("round %d: seq %d follows %d of %d (%v)", n, w.Head.Seq, seq, last, w.Err)
			}
			seen, seq = append(seen, w.Head), w.Head.Seq
		}
		w := <-done
		f.ok(w.Err)
		for _, h := range seen {
			f.same("a head", h, made[h.Seq])
		}
		head = w.Head
	}
}
