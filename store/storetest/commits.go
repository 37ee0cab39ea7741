package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dalsegno/segno"
)

func commits() []clause {
	return []clause{
		{"the same commit twice", "a commit is idempotent by its id: the same again gives the same result and changes nothing", theSameCommitTwice},
		{"the same id, other content", "another commit under a known id is a conflict and overwrites nothing", theSameIdOtherContent},
		{"seq is arrival order", "seq counts a thread's commits as they arrive, whatever the writers' clocks say", seqIsArrivalOrder},
		{"parents exist", "a commit whose parent is not there is refused and leaves nothing", parentsExist},
		{"threads exist", "a commit to a thread that is not there is not found", threadsExist},
		{"needs are checked", "a commit names only objects that exist: its needs and its tiers are looked for in its transaction", needsAreChecked},
		{"moves", "undo, redo and restore move pointers and truncate nothing", moves},
		{"moves need nodes", "head and tip only ever stand on nodes that exist", movesNeedNodes},
		{"turn numbers", "a turn number is never reused in a thread; a fork goes on from its parent's", turnNumbers},
		{"links", "a new link becomes the head session, and the one before it ends when it starts", links},
		{"pins", "a pin names a checkpoint until it is taken off", pins},
		{"entries alone", "a commit of entries is a node without a checkpoint", entriesAlone},
		{"an ended context", "a commit whose context has ended writes nothing and says so", anEndedContext},
		{"a context that ends meanwhile", "a commit is whole or not there, whenever its context ends", cancelled},
	}
}

func moves(f *fixture) {
	head := f.turns(f.thread(), 3)
	line := f.path(head.Head, 0)
	undone := f.commit(f.move(head, line[1], head.Tip))
	f.same("head", undone.Head, line[1])
	f.same("tip", undone.Tip, line[3])
	f.same("the tip's line", f.path(undone.Tip, 0), line)
	redone := f.commit(f.move(undone, line[2], undone.Tip))
	f.same("head", redone.Head, line[2])
	restore := f.next(redone)
	restore.Move = &segno.Move{Head: segno.Self, Tip: line[3]}
	stood := f.commit(restore)
	f.same("head of a commit that moves to itself", stood.Head, restore.ID)
	f.same("tip of it", stood.Tip, line[3])
	aside := at(stood, line[1], f.next(stood))
	aside.Move = &segno.Move{Head: stood.Head, Tip: stood.Tip}
	after := f.commit(aside)
	f.same("head of a node that moves nothing", after.Head, stood.Head)
	f.same("its line", f.path(aside.ID, 0), []segno.CommitID{line[0], line[1], aside.ID})
	fork := f.commit(f.base("fork", line[2]))
	into := f.commit(f.move(fork, line[1], fork.Tip))
	f.same("a fork undone into its parent's thread", into.Head, line[1])
}

func links(f *fixture) {
	chains, ok := f.store.(segno.Chains)
	head := f.thread()
	var want []segno.Link
	for i, session := range []segno.SessionID{"one", "two", "three"} {
		l := segno.Link{Agent: "claude", Session: session, Dir: "/dir\xff", Path: "/path", Start: epoch.Add(time.Duration(i) * time.Minute),
			Reason: "start", Fidelity: segno.FidelityRebuilt, At: head.Head, Note: "a note"}
		if i > 0 {
			want[i-1].End = l.Start
		}
		want = append(want, l)
		c := f.next(head)
		c.Link = &l
		head = f.commit(c)
		f.same("the head session", head.Link, l)
		f.same("the head session, read", f.head(head.Thread).Link, l)
	}
	aside := segno.Link{Agent: "claude", Session: "beside", Start: epoch.Add(time.Hour), At: head.Head, Detached: true,
		Position: &segno.Position{Agent: "claude", Session: "beside", Leaf: "leaf", Offset: 7}}
	c := f.next(head)
	c.Link = &aside
	f.same("the head session, with another aside", f.commit(c).Link, head.Link)
	want = append(want, aside)
	for _, l := range want {
		f.same("threads of a session", f.threads(segno.ThreadQuery{Session: l.Session}), []segno.ThreadID{head.Thread})
	}
	if !ok {
		return
	}
	var got []segno.Link
	for l, err := range chains.Chain(f.Context(), head.Thread) {
		f.ok(err)
		got = append(got, l)
	}
	f.same("the chain", got, want)
	for _, err := range chains.Chain(f.Context(), "nobody") {
		f.kind(err, segno.KindNotFound)
	}
}

func pins(f *fixture) {
	head := f.turns(f.thread(), 3)
	line := f.path(head.Head, 0)
	pin := func(id segno.CommitID, name string) error {
		_, err := f.store.Commit(f.Context(), segno.Commit{ID: segno.CommitID(f.id("pin")), Thread: head.Thread, Expect: head.Head,
			Pin: &segno.Pin{Checkpoint: id, Name: name}})
		return err
	}
	f.ok(pin(line[1], "before the rewrite"))
	f.ok(pin(line[2], "good"))
	f.same("the pinned", f.listed(segno.CheckpointQuery{Pinned: true}), []segno.CommitID{line[2], line[1]})
	f.same("a pin's name", f.list(segno.CheckpointQuery{Pinned: true})[1].Label, "before the rewrite")
	f.same("the label beside it", f.list(segno.CheckpointQuery{IDPrefix: string(line[1])})[0].Label, "")
	several := segno.WithPinName("better", "best")
	f.ok(pin(line[2], several))
	f.same("the new names", f.list(segno.CheckpointQuery{Pinned: true})[0].Label, several)
	f.ok(pin(line[1], ""))
	f.same("what is left", f.listed(segno.CheckpointQuery{Pinned: true, Thread: head.Thread}), []segno.CommitID{line[2]})
	f.kind(pin("nobody", "x"), segno.KindNotFound)
	f.same("the head", f.head(head.Thread).Head, head.Head)
}

// cancelled ends contexts at every moment of a commit there is.
func cancelled(f *fixture) {
	head := f.thread()
	for range 40 {
		c := f.next(head)
		c.Staged = f.stage("of " + string(c.ID))
		ctx, cancel := context.WithCancel(f.Context())
		var group sync.WaitGroup
		group.Go(cancel)
		got, err := f.store.Commit(ctx, c)
		group.Wait()
		if err != nil {
			f.kind(err, segno.KindCancelled)
			f.same("the head", f.head(head.Thread), head)
			if f.has("of " + string(c.ID)) {
				f.Fatal("an object of a commit that was not made is in the store")
			}
			continue
		}
		f.same("the head", f.head(head.Thread), got)
		head = got
	}
}

func theSameCommitTwice(f *fixture) {
	head := f.thread()
	c := f.next(head)
	c.Staged = f.stage("an object")
	c.Link = &segno.Link{Agent: "claude", Session: "s", Start: epoch}
	first := f.commit(c)
	f.same("the result at once", f.commit(c), first)
	later := f.next(first)
	later.Link = &segno.Link{Agent: "claude", Session: "s2", Start: epoch.Add(time.Hour)}
	now := f.commit(later)
	f.same("the result later", f.commit(c), first)
	f.same("the head", f.head(head.Thread), now)
	f.same("the line", f.path(now.Head, 0), []segno.CommitID{head.Head, c.ID, now.Head})
}

func theSameIdOtherContent(f *fixture) {
	head := f.thread()
	c := f.next(head)
	first := f.commit(c)
	other := c
	other.Entries = []segno.Entry{{Kind: segno.EntryNote, Body: []byte(`"forged"`)}}
	_, err := f.store.Commit(f.Context(), other)
	f.kind(err, segno.KindConflict)
	var late *segno.ConflictError
	if errors.As(err, &late) {
		f.Fatalf("%v looks like a lost race; the writer would try again for ever", err)
	}
	f.same("the entries", f.load(first.Head)[1].Entries, c.Entries)
}

func seqIsArrivalOrder(f *fixture) {
	head := f.thread()
	var want []segno.CommitID
	for i, skew := range []time.Duration{time.Hour, -time.Hour, 0, -time.Minute, time.Hour} {
		c := f.next(head)
		c.Checkpoint.Time = epoch.Add(skew)
		c.Entries[0].Time = epoch.Add(skew)
		head = f.commit(c)
		f.same("seq", head.Seq, int64(i+2))
		want = append([]segno.CommitID{c.ID}, want...)
	}
	f.same("newest first", f.listed(segno.CheckpointQuery{Thread: head.Thread, Limit: 5}), want)
}

func parentsExist(f *fixture) {
	head := f.thread()
	_, err := f.store.Commit(f.Context(), at(head, "nobody", f.next(head)))
	f.kind(err, segno.KindNotFound)
	f.same("the head", f.head(head.Thread), head)
}

func threadsExist(f *fixture) {
	c := f.next(segno.Head{Thread: "nobody"})
	_, err := f.store.Commit(f.Context(), c)
	f.kind(err, segno.KindNotFound)
	_, err = f.store.Head(f.Context(), "nobody")
	f.kind(err, segno.KindNotFound)
}

func needsAreChecked(f *fixture) {
	head := f.thread()
	gone := name("never stored")
	for what, spoil := range map[string]func(c *segno.Commit){
		"need":     func(c *segno.Commit) { c.Needs = []segno.Hash{gone} },
		"tree":     func(c *segno.Commit) { c.Checkpoint.Workspace = &segno.Snapshot{Workspace: "w", Tree: gone} },
		"times":    func(c *segno.Commit) { c.Checkpoint.Workspace = &segno.Snapshot{Workspace: "w", Times: gone} },
		"log":      func(c *segno.Commit) { c.Checkpoint.Session = &segno.Position{Log: gone} },
		"sidecars": func(c *segno.Commit) { c.Checkpoint.Session = &segno.Position{Sidecars: gone} },
		"state":    func(c *segno.Commit) { c.Checkpoint.State = &segno.Document{Data: gone} },
		"world":    func(c *segno.Commit) { c.Checkpoint.World = &segno.Document{Data: gone} },
	} {
		c := f.next(head)
		c.Staged = f.stage("beside " + what)
		spoil(&c)
		_, err := f.store.Commit(f.Context(), c)
		f.kind(err, segno.KindNotFound)
		f.same("the head after a missing "+what, f.head(head.Thread), head)
		if f.has("beside " + what) {
			f.Fatalf("an object of a refused commit is in the store")
		}
	}
	c := f.next(head)
	c.Staged = f.stage("now stored")
	c.Needs = []segno.Hash{name("now stored")}
	f.commit(c)
}

func movesNeedNodes(f *fixture) {
	head := f.turns(f.thread(), 2)
	_, err := f.store.Commit(f.Context(), f.move(head, "nobody", head.Tip))
	f.kind(err, segno.KindNotFound)
	_, err = f.store.Commit(f.Context(), f.move(head, segno.Self, head.Tip))
	f.kind(err, segno.KindInvalid)
	mv := f.move(head, head.Head, head.Tip)
	f.commit(mv)
	_, err = f.store.Commit(f.Context(), f.move(head, mv.ID, head.Tip))
	f.kind(err, segno.KindNotFound)
	f.same("where it stands", f.head(head.Thread).Head, head.Head)
}

func turnNumbers(f *fixture) {
	head := f.turns(f.thread(), 5)
	second := f.path(head.Head, 0)[2]
	head = f.commit(f.move(head, second, head.Tip))
	f.same("after an undo", head.Turn, 5)
	head = f.turns(head, 1)
	f.same("the next turn", head.Turn, 6)
	fork := f.base("fork", second)
	fork.Checkpoint.Turn = 2
	got := f.commit(fork)
	f.same("a fork of turn 2", got.Turn, 2)
	plain := f.commit(f.base("plain", second))
	f.same("a fork whose base says nothing", plain.Turn, 2)
}

func entriesAlone(f *fixture) {
	head := f.thread()
	c := f.next(head)
	c.Checkpoint = nil
	head = f.commit(c)
	nodes := f.load(head.Head)
	f.same("its checkpoint", nodes[1].Checkpoint, (*segno.Checkpoint)(nil))
	f.same("its entries", nodes[1].Entries, c.Entries)
	f.same("checkpoints", f.listed(segno.CheckpointQuery{Thread: head.Thread}), []segno.CommitID{nodes[0].ID})
	f.same("the turn", head.Turn, 0)
}

func anEndedContext(f *fixture) {
	head := f.thread()
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	_, err := f.store.Commit(ctx, f.next(head))
	f.kind(err, segno.KindCancelled)
	f.same("the head", f.head(head.Thread), head)
}
