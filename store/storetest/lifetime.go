package storetest

import (
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/dalsegno/segno"
)

func closing() []clause {
	return []clause{
		{"after close", "after Close every call is refused as invalid, and closing again is nothing", afterClose},
		{"close waits", "Close waits for calls under way: each is whole or refused", closeWaits},
	}
}

func reopening() []clause {
	return []clause{{"everything is there again", "what was acknowledged survives closing and opening", everythingIsThereAgain}}
}

// everything is all a store answers about one thread.
func everything(f *fixture, thread segno.ThreadID) map[string]any {
	all := map[string]any{
		"head": f.head(thread), "line": f.load(f.head(thread).Head), "checkpoints": f.list(segno.CheckpointQuery{}),
		"pins": f.list(segno.CheckpointQuery{Pinned: true}), "threads": f.threads(segno.ThreadQuery{}),
	}
	if c, ok := f.store.(segno.Chains); ok {
		for l, err := range c.Chain(f.Context(), thread) {
			f.ok(err)
			all["link "+string(l.Session)] = l
		}
	}
	if w, ok := f.store.(segno.Workspaces); ok {
		rec, err := w.Workspace(f.Context(), "w")
		f.ok(err)
		all["workspace"] = rec
		for o, err := range w.Operations(f.Context(), "w") {
			f.ok(err)
			all["operation "+string(o.ID)] = o
		}
	}
	return all
}

// scale counts what a timer would only guess.
func scale() []clause {
	return []clause{
		{"a long chain", "what a head or the end of a line costs does not depend on how many sessions and turns came before", aLongChain},
		{"lists carry no states", "what a list costs does not depend on how much was said", listsCarryNoStates},
	}
}

func sizing() []clause {
	return []clause{
		{"bytes grow with the change", "a step costs as many bytes after thousands as after a hundred", bytesGrowWithTheChange},
		{"a fork is a pointer", "a fork costs the same few bytes wherever it begins", aForkIsAPointer},
	}
}

func afterClose(f *fixture) {
	head := f.thread()
	b := f.store.Objects().Batch()
	f.ok(f.store.Close())
	f.ok(f.store.Close())
	ctx := f.Context()
	_, err := f.store.Commit(ctx, f.next(head))
	f.kind(err, segno.KindInvalid)
	_, err = f.store.Head(ctx, head.Thread)
	f.kind(err, segno.KindInvalid)
	_, err = f.store.Load(ctx, head.Head, segno.Window{})
	f.kind(err, segno.KindInvalid)
	for _, err := range f.store.Checkpoints(ctx, segno.CheckpointQuery{}) {
		f.kind(err, segno.KindInvalid)
	}
	for _, err := range f.store.Threads(ctx, segno.ThreadQuery{}) {
		f.kind(err, segno.KindInvalid)
	}
	f.kind(f.store.Delete(ctx, head.Thread), segno.KindInvalid)
	_, err = f.store.Objects().Get(ctx, name("x"))
	f.kind(err, segno.KindInvalid)
	_, err = f.store.Objects().Has(ctx, name("x"))
	f.kind(err, segno.KindInvalid)
	_, err = b.Put(ctx, []byte("x"))
	f.kind(err, segno.KindInvalid)
	f.ok(b.Close())
}

func closeWaits(f *fixture) {
	head := f.thread()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for {
				if _, err := f.store.Load(f.Context(), head.Head, segno.Window{Entries: true}); err != nil {
					if segno.KindOf(err) != segno.KindInvalid {
						f.Errorf("load: %v", err)
					}
					return
				}
			}
		})
	}
	f.turns(head, 3)
	f.ok(f.store.Close())
	group.Wait()
}

func everythingIsThereAgain(f *fixture) {
	head := f.turns(f.thread(), 3)
	c := f.next(head)
	c.Staged = f.stage(tree("data"), "data", noise(3<<20))
	c.Checkpoint = full(tree("data"), "data")
	c.Link = &segno.Link{Agent: "claude", Session: "s", Start: epoch}
	c.Pin = &segno.Pin{Checkpoint: head.Head, Name: "a pin"}
	c.Operation = &segno.Operation{ID: "op", Workspace: "w", Thread: head.Thread, Verb: segno.VerbPin, Time: epoch}
	c.Workspace = &segno.WorkspaceState{Workspace: "w", Thread: head.Thread, By: c.ID, Snapshot: c.Checkpoint.Workspace, Time: epoch}
	f.commit(c)
	deleted := f.thread()
	f.ok(f.store.Delete(f.Context(), deleted.Thread))
	if w, ok := f.store.(segno.Workspaces); ok {
		f.ok(w.PutWorkspace(f.Context(), segno.WorkspaceRecord{ID: "w", Path: "/w\xff", Device: 1 << 63, Inode: 1<<64 - 1, Created: epoch, Moved: []string{"/v"}}))
	}
	before := everything(f, head.Thread)
	f.reopen()
	f.same("everything", everything(f, head.Thread), before)
	f.holds(tree("data"), "data", noise(3<<20))
	f.commit(c)
	f.turns(f.head(head.Thread), 1)
}

func aLongChain(f *fixture) {
	few, many := 100, 1000
	if soak() {
		many = 10_000
	}
	head := f.thread()
	grow := func(n int) {
		for i := range n {
			c := f.next(head)
			c.Link = &segno.Link{Agent: "claude", Session: segno.SessionID(fmt.Sprint("session ", head.Seq, i)), Start: epoch}
			head = f.commit(c)
		}
	}
	cost := func() float64 {
		return testing.AllocsPerRun(5, func() {
			f.head(head.Thread)
			f.path(head.Head, 20)
			f.listed(segno.CheckpointQuery{Thread: head.Thread, Limit: 20})
			f.listed(segno.CheckpointQuery{Thread: head.Thread, Before: 20, Limit: 20})
		})
	}
	grow(few)
	before := cost()
	grow(many - few)
	if after := cost(); after > 1.5*before {
		f.Fatalf("%.0f allocations after %d sessions, %.0f after %d", after, many, before, few)
	}
}

// allocated is how many bytes this process asks for while what runs.
func allocated(what func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	what()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func listsCarryNoStates(f *fixture) {
	big, err := json.Marshal(noise(1 << 20))
	f.ok(err)
	head := f.thread()
	for range 8 {
		c := f.next(head)
		c.Entries[0].Body = big
		head = f.commit(c)
	}
	for what, list := range map[string]func(){
		"heads":       func() { f.head(head.Thread) },
		"checkpoints": func() { f.same("checkpoints", len(f.list(segno.CheckpointQuery{Thread: head.Thread})), 9) },
		"threads":     func() { f.same("threads", len(f.threads(segno.ThreadQuery{})), 1) },
		"lines":       func() { f.same("the line", len(f.path(head.Head, 0)), 9) },
	} {
		list()
		if n := allocated(list); n > 2<<20 {
			f.Errorf("%s took %d bytes of 8 MB that were said", what, n)
		}
	}
}

func bytesGrowWithTheChange(f *fixture) {
	each := 1000
	if soak() {
		each = 2500
	}
	head := f.thread()
	size := func(n int) int64 {
		before := f.o.Size(f.T, f.store)
		for range n {
			c := f.next(head)
			c.Entries[0].Body = []byte(`"` + noise(600 + int(head.Seq%7))[int(head.Seq%7):] + `"`)
			head = f.commit(c)
		}
		return f.o.Size(f.T, f.store) - before
	}
	size(100)
	first := size(each)
	if last := size(each); float64(last) > 1.25*float64(first) {
		f.Fatalf("%d bytes for %d steps at first, %d later", first, each, last)
	}
}

func aForkIsAPointer(f *fixture) {
	head := f.turns(f.thread(), 500)
	line := f.path(head.Head, 0)
	fork := func(at segno.CommitID) int64 {
		before := f.o.Size(f.T, f.store)
		for range 50 {
			f.commit(f.base(segno.ThreadID(f.id("fork")), at))
		}
		return (f.o.Size(f.T, f.store) - before) / 50
	}
	shallow, deep := fork(line[1]), fork(line[len(line)-1])
	if deep > 2*max(shallow, 512) || deep > 2048 {
		f.Fatalf("a fork of the newest of 500 commits costs %d bytes, one of the oldest %d", deep, shallow)
	}
}
