package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dalsegno/segno"
)

// ownershipTests test the compare-and-swap of the head.
var ownershipTests = []test{
	{"one of K wins", "of K concurrent commits on one head one succeeds; the others get the actual head and write nothing", func(f *fixture) {
		raceCommits(f, f.store)
	}},
	{"a late writer learns the head", "a commit on an old head is a ConflictError with the actual head and writes nothing", func(f *fixture) {
		old := f.newThread()
		won := f.turns(old, 1)
		late := f.turn(old)
		late.Staged = f.stage("the late writer's object")
		late.Link = &segno.Link{Agent: "claude", Session: "late", Start: epoch}
		f.same("the actual head", f.conflict(f.commitErr(late)), won)
		f.same("the head", f.head(old.Thread), won)
		f.kind(f.loadErr(late.ID), segno.KindNotFound)
		f.missing("the late writer's object")
		f.same("the threads of its session", f.threads(segno.ThreadQuery{Session: "late"}), []segno.ThreadID(nil))
		f.same("the head of a second creation", f.conflict(f.commitErr(f.base(old.Thread, ""))), won)
	}},
}

// secondStoreTests open the store twice, as two processes do.
var secondStoreTests = []test{
	{"one of K wins in two stores", "two openings of a store exclude each other like two goroutines", func(f *fixture) {
		raceCommits(f, f.store, f.secondStore())
	}},
	{"a second store sees each commit", "when Commit returns every opening of the store sees the commit", func(f *fixture) {
		other := f.secondStore()
		head := f.newThread()
		for range 20 {
			head = f.turns(head, 1)
			seen, err := other.Head(f.Context(), head.Thread)
			f.ok(err)
			f.same("the head in the other store", seen, head)
			head, err = other.Commit(f.Context(), f.turn(head))
			f.ok(err)
			f.same("the head", f.head(head.Thread), head)
		}
	}},
}

// raceCommits makes concurrent commits on one head, in several rounds.
func raceCommits(f *fixture, stores ...segno.Store) {
	const writers, rounds = 8, 10
	head := f.newThread()
	for round := range rounds {
		var commits [writers]segno.Commit
		for k := range commits {
			commits[k] = f.turn(head)
		}
		won, lost := race(f, writers, func(k int) (segno.Head, error) { return stores[k%len(stores)].Commit(f.Context(), commits[k]) })
		for _, err := range lost {
			f.same(fmt.Sprint("the actual head in round ", round), f.conflict(err), won)
		}
		head = won
	}
	line := f.line(head.Head, 0)
	f.same("commits and seq", []int64{int64(len(line)), head.Seq}, []int64{rounds + 1, rounds + 1})
	slices.Reverse(line)
	f.same("the checkpoints", f.find(segno.CheckpointQuery{Thread: head.Thread}), line)
}

// commitTests test the effects of one commit.
var commitTests = []test{
	{"a batched commit", "a batched commit is visible at once, and it and the synced one with its id are the same commit", func(f *fixture) {
		head := f.newThread()
		c := f.turn(head)
		c.Durability = segno.Batched
		first := f.commit(c)
		f.same("the head", f.head(head.Thread), first)
		c.Durability = segno.Synced
		f.same("the result of the synced one", f.commit(c), first)
		next := f.turns(first, 1)
		f.same("the head after a synced commit", f.head(head.Thread), next)
	}},
	{"the same commit twice", "a known id with equal content returns the first result, with other content a conflict", func(f *fixture) {
		head := f.newThread()
		c := f.turn(head)
		c.Staged = f.stage("an object")
		c.Link = &segno.Link{Agent: "claude", Session: "s", Start: epoch}
		first := f.commit(c)
		f.same("the result of the second commit", f.commit(c), first)
		later := f.turn(first)
		later.Link = &segno.Link{Agent: "claude", Session: "s2", Start: epoch.Add(time.Hour)}
		now := f.commit(later)
		f.same("the result after another commit", f.commit(c), first)
		forged := c
		forged.Entries = []segno.Entry{{Kind: segno.EntryNote, Body: []byte(`"forged"`)}}
		err := f.commitErr(forged)
		f.kind(err, segno.KindConflict)
		if late := new(segno.ConflictError); errors.As(err, &late) {
			f.Fatalf("%v is a ConflictError: the caller would retry without end", err)
		}
		f.same("the entries", f.load(first.Head)[1].Entries, c.Entries)
		f.same("the head", f.head(head.Thread), now)
		f.same("the line", f.line(now.Head, 0), []segno.CommitID{head.Head, c.ID, now.Head})
	}},
	{"missing references", "a commit that names a missing thread, commit or object is refused and writes nothing", testMissingReferences},
	{"moves", "a move changes head and tip and removes no commit", func(f *fixture) {
		head := f.turns(f.newThread(), 3)
		line := f.line(head.Head, 0)
		pointers := func(what string, got segno.Head, head, tip segno.CommitID) {
			f.same(what, []segno.CommitID{got.Head, got.Tip}, []segno.CommitID{head, tip})
		}
		undone := f.commit(f.move(head, line[1], head.Tip))
		pointers("undo", undone, line[1], line[3])
		f.same("the line of the tip", f.line(undone.Tip, 0), line)
		redone := f.commit(f.move(undone, line[2], undone.Tip))
		pointers("redo", redone, line[2], line[3])
		restore := f.turn(redone)
		restore.Move = &segno.Move{Head: segno.Self, Tip: line[3]}
		restored := f.commit(restore)
		pointers("a commit that moves the head to itself", restored, restore.ID, line[3])
		aside := after(restored, line[1], f.turn(restored))
		aside.Move = &segno.Move{Head: restored.Head, Tip: restored.Tip}
		pointers("a commit that leaves the head", f.commit(aside), restored.Head, restored.Tip)
		f.same("its line", f.line(aside.ID, 0), []segno.CommitID{line[0], line[1], aside.ID})
		fork := f.commit(f.base("fork", line[2]))
		pointers("an undo in a fork into its source", f.commit(f.move(fork, line[1], fork.Tip)), line[1], fork.Tip)
	}},
	{"turn numbers", "a thread never uses a turn number twice; a fork continues after its parent's turn", func(f *fixture) {
		head := f.turns(f.newThread(), 5)
		second := f.line(head.Head, 0)[2]
		head = f.commit(f.move(head, second, head.Tip))
		f.same("after an undo", head.Turn, 5)
		f.same("the next turn", f.turns(head, 1).Turn, 6)
		fork := f.base("fork", second)
		fork.Checkpoint.Turn = 2
		f.same("a fork of turn 2", f.commit(fork).Turn, 2)
		f.same("a fork without a turn number", f.commit(f.base("plain", second)).Turn, 2)
	}},
	{"links", "a link becomes the head session and ends the one before, unless it is detached", testLinks},
	{"pins", "a pin has a checkpoint and a name; an empty name removes it", func(f *fixture) {
		head := f.turns(f.newThread(), 3)
		line := f.line(head.Head, 0)
		pinned := segno.CheckpointQuery{Pinned: true}
		f.commit(f.pin(head, line[1], "before the rewrite"))
		f.commit(f.pin(head, line[2], "good"))
		f.same("the pinned checkpoints", f.find(pinned), []segno.CommitID{line[2], line[1]})
		f.same("the name of a pin", f.checkpoints(pinned)[1].Label, "before the rewrite")
		f.same("the label without Pinned", f.checkpoints(segno.CheckpointQuery{IDPrefix: string(line[1])})[0].Label, "")
		names := segno.WithPinName("better", "best")
		f.commit(f.pin(head, line[2], names))
		f.same("the new name", f.checkpoints(pinned)[0].Label, names)
		f.commit(f.pin(head, line[1], ""))
		f.same("what is left", f.find(segno.CheckpointQuery{Pinned: true, Thread: head.Thread}), []segno.CommitID{line[2]})
		f.kind(f.commitErr(f.pin(head, "missing", "x")), segno.KindNotFound)
		own := f.pin(head, "own", "x")
		own.ID, own.Parent, own.Checkpoint = "own", head.Head, &segno.Checkpoint{Kind: segno.CheckpointTurn}
		f.kind(f.commitErr(own), segno.KindNotFound)
		f.same("the head", f.head(head.Thread).Head, head.Head)
	}},
	{"a context that ends during a commit", "a commit is complete or not there, whenever its context ends", func(f *fixture) {
		head := f.newThread()
		for range 40 {
			c := f.turn(head)
			c.Staged = f.stage("object of " + string(c.ID))
			ctx, cancel := context.WithCancel(f.Context())
			var group sync.WaitGroup
			group.Go(cancel)
			got, err := f.store.Commit(ctx, c)
			group.Wait()
			if err == nil {
				head = got
			} else {
				f.kind(err, segno.KindCancelled)
				f.missing("object of " + string(c.ID))
			}
			f.same("the head", f.head(head.Thread), head)
		}
	}},
}

func testMissingReferences(f *fixture) {
	head := f.turns(f.newThread(), 2)
	absent, moveOnly := hash("never stored"), f.move(head, head.Head, head.Tip)
	f.commit(moveOnly)
	for what, change := range map[string]func(c *segno.Commit){
		"parent":    func(c *segno.Commit) { c.Parent = "missing" },
		"thread":    func(c *segno.Commit) { c.Thread, c.Parent, c.Expect = "missing", "", "" },
		"need":      func(c *segno.Commit) { c.Needs = []segno.Hash{absent} },
		"tree":      func(c *segno.Commit) { c.Checkpoint.Workspace = &segno.Snapshot{Workspace: "w", Tree: absent} },
		"times":     func(c *segno.Commit) { c.Checkpoint.Workspace = &segno.Snapshot{Workspace: "w", Times: absent} },
		"log":       func(c *segno.Commit) { c.Checkpoint.Session = &segno.Position{Log: absent} },
		"sidecars":  func(c *segno.Commit) { c.Checkpoint.Session = &segno.Position{Sidecars: absent} },
		"state":     func(c *segno.Commit) { c.Checkpoint.State = &segno.Document{Data: absent} },
		"world":     func(c *segno.Commit) { c.Checkpoint.World = &segno.Document{Data: absent} },
		"databases": func(c *segno.Commit) { c.Checkpoint.Workspace = &segno.Snapshot{World: &segno.Document{Data: absent}} },
		"head":      func(c *segno.Commit) { c.Move = &segno.Move{Head: "missing", Tip: head.Tip} },
		"tip":       func(c *segno.Commit) { c.Move = &segno.Move{Head: head.Head, Tip: "missing"} },
		"node head": func(c *segno.Commit) { c.Move = &segno.Move{Head: moveOnly.ID, Tip: head.Tip} },
	} {
		c := f.turn(head)
		c.Staged = f.stage("beside " + what)
		change(&c)
		if err := f.commitErr(c); segno.KindOf(err) != segno.KindNotFound {
			f.Fatalf("missing %s: error %v; want kind not found", what, err)
		}
		f.same("the head after a missing "+what, f.head(head.Thread).Head, head.Head)
		f.missing("beside " + what)
	}
	f.kind(f.commitErr(f.move(head, segno.Self, head.Tip)), segno.KindInvalid)
	f.kind(errOf(f.store.Head(f.Context(), "missing")), segno.KindNotFound)
	c := f.turn(head)
	c.Staged = f.stage("stored with the commit")
	c.Needs = []segno.Hash{hash("stored with the commit")}
	f.commit(c)
}

func testLinks(f *fixture) {
	head := f.newThread()
	var want []segno.Link
	for i, session := range []segno.SessionID{"one", "two", "three"} {
		l := segno.Link{Agent: "claude", Session: session, Dir: "/dir\xff", Path: "/path", Start: epoch.Add(time.Duration(i) * time.Minute),
			Reason: "start", Fidelity: segno.FidelityRebuilt, At: head.Head, Note: "a note"}
		if i > 0 {
			want[i-1].End = l.Start
		}
		want = append(want, l)
		c := f.turn(head)
		c.Link = &l
		head = f.commit(c)
		f.same("the head session from Commit", head.Link, l)
		f.same("the head session from Head", f.head(head.Thread).Link, l)
	}
	detached := segno.Link{Agent: "claude", Session: "beside", Start: epoch.Add(time.Hour), At: head.Head, Detached: true,
		Position: &segno.Position{Agent: "claude", Session: "beside", Leaf: "leaf", Offset: 7}}
	c := f.turn(head)
	c.Link = &detached
	f.same("the head session beside a detached one", f.commit(c).Link, head.Link)
	want = append(want, detached)
	for _, l := range want {
		f.same("the threads of a session", f.threads(segno.ThreadQuery{Session: l.Session}), []segno.ThreadID{head.Thread})
	}
	if chains, ok := f.store.(segno.Chains); ok {
		f.same("the chain", all(f, chains.Chain(f.Context(), head.Thread)), want)
		f.kind(lastErr(chains.Chain(f.Context(), "missing")), segno.KindNotFound)
	}
}
