package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/dalsegno/segno"
)

func ownership() []clause {
	return []clause{
		{"one of K wins", "a commit is compare-and-swap: of K writers on one head one wins, the others learn the actual head and leave nothing", func(f *fixture) {
			race(f, []segno.Store{f.store})
		}},
		{"a late writer learns the head", "the error of a writer that was too late is a ConflictError with the actual head", func(f *fixture) {
			old := f.thread()
			won := f.turns(old, 1)
			late := f.next(old)
			late.Staged = f.stage("the late writer's object")
			late.Link = &segno.Link{Agent: "claude", Session: "late", Start: epoch}
			_, err := f.store.Commit(f.Context(), late)
			f.same("the actual head", f.conflict(err), won)
			f.same("the head", f.head(old.Thread), won)
			_, err = f.store.Load(f.Context(), late.ID, segno.Window{})
			f.kind(err, segno.KindNotFound)
			if f.has("the late writer's object") {
				f.Fatal("an object of the late writer is in the store")
			}
			f.same("the threads of its session", f.threads(segno.ThreadQuery{Session: "late"}), []segno.ThreadID(nil))
		}},
		{"the loser lands beside", "a writer that lost commits on a line of its own, so that no turn is ever lost", func(f *fixture) {
			old := f.thread()
			won := f.turns(old, 1)
			lost := at(won, old.Head, f.next(old))
			lost.ID = "lost"
			head := f.commit(lost)
			f.same("its line", f.path("lost", 0), []segno.CommitID{old.Head, "lost"})
			f.same("the winner's line", f.path(won.Head, 0), []segno.CommitID{old.Head, won.Head})
			f.same("the head", head.Head, segno.CommitID("lost"))
		}},
		{"a thread is made once", "creating a thread that exists is a lost race", func(f *fixture) {
			head := f.thread()
			_, err := f.store.Commit(f.Context(), f.base(head.Thread, ""))
			f.same("the actual head", f.conflict(err), head)
		}},
	}
}

func openings() []clause {
	return []clause{
		{"one of K wins in two stores", "two openings of a store exclude each other as two goroutines do", func(f *fixture) {
			other := f.o.Another(f.T, f.store)
			defer other.Close()
			race(f, []segno.Store{f.store, other})
		}},
		{"what one commits the other sees", "a commit is visible to every opening of the store when it returns", func(f *fixture) {
			other := f.o.Another(f.T, f.store)
			defer other.Close()
			head := f.thread()
			for range 20 {
				head = f.turns(head, 1)
				seen, err := other.Head(f.Context(), head.Thread)
				f.ok(err)
				f.same("the other's head", seen, head)
				head, err = other.Commit(f.Context(), f.next(head))
				f.ok(err)
				f.same("our head", f.head(head.Thread), head)
			}
		}},
	}
}

// race has K writers commit on one head, over and over.
func race(f *fixture, stores []segno.Store) {
	const writers, rounds = 8, 10
	head := f.thread()
	for round := range rounds {
		var mu sync.Mutex
		var won []segno.Head
		var lost []error
		var group sync.WaitGroup
		for k := range writers {
			c := f.next(head)
			c.ID = segno.CommitID(fmt.Sprintf("round %d writer %d", round, k))
			group.Go(func() {
				got, err := stores[k%len(stores)].Commit(f.Context(), c)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					lost = append(lost, err)
				} else {
					won = append(won, got)
				}
			})
		}
		group.Wait()
		if len(won) != 1 {
			f.Fatalf("%d writers won; errors: %v", len(won), errors.Join(lost...))
		}
		for _, err := range lost {
			f.same("what a loser learns", f.conflict(err), won[0])
		}
		head = won[0]
	}
	if got := f.listed(segno.CheckpointQuery{Thread: head.Thread}); len(got) != rounds+1 {
		f.Fatalf("%d checkpoints are visible instead of %d: %v", len(got), rounds+1, got)
	}
	f.same("the seq", head.Seq, int64(rounds+1))
	path := f.path(head.Head, 0)
	slices.Reverse(path)
	f.same("line and list", path, f.listed(segno.CheckpointQuery{Thread: head.Thread}))
}
