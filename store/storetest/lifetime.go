package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/timeline"
)

// calls returns a call of each method of the store.
func (f *fixture) calls(ctx context.Context) map[string]func() error {
	head := f.turns(f.newThread(), 1)
	s, o, c, staged, batch := f.store, f.store.Objects(), f.turn(head), f.stage("staged"), f.store.Objects().Batch()
	f.Cleanup(func() { f.ok(batch.Close()) })
	policy := segno.CollectPolicy{Trace: trace}
	calls := map[string]func() error{
		"commit":           func() error { return errOf(s.Commit(ctx, c)) },
		"head":             func() error { return errOf(s.Head(ctx, head.Thread)) },
		"load":             func() error { return errOf(s.Load(ctx, head.Head, segno.Window{Entries: true})) },
		"delete":           func() error { return s.Delete(ctx, head.Thread) },
		"purge":            func() error { return errOf(timeline.Purge(ctx, s, head.Thread, policy)) },
		"checkpoints":      func() error { return lastErr(s.Checkpoints(ctx, segno.CheckpointQuery{Thread: head.Thread})) },
		"threads":          func() error { return lastErr(s.Threads(ctx, segno.ThreadQuery{})) },
		"threads by phase": func() error { return lastErr(s.Threads(ctx, segno.ThreadQuery{Phase: segno.PhaseDone})) },
		"get":              func() error { return errOf(o.Get(ctx, hash("x"))) },
		"has":              func() error { return errOf(o.Has(ctx, hash("x"))) },
		"keep":             func() error { return o.Keep(ctx, staged) },
		"put":              func() error { return errOf(batch.Put(ctx, []byte("put"))) },
		"stage":            func() error { return errOf(batch.Stage(ctx)) },
	}
	if x, ok := s.(segno.Chains); ok {
		calls["chain"] = func() error { return lastErr(x.Chain(ctx, head.Thread)) }
	}
	if x, ok := s.(segno.Workspaces); ok {
		calls["workspace"] = func() error { return errOf(x.Workspace(ctx, "w")) }
		calls["put workspace"] = func() error { return x.PutWorkspace(ctx, segno.WorkspaceRecord{ID: "w"}) }
	}
	if x, ok := s.(segno.Leaser); ok {
		lease := segno.Lease{Thread: head.Thread, Owner: "a", Expires: f.now().Add(time.Minute)}
		calls["acquire"] = func() error { return errOf(x.Acquire(ctx, lease)) }
		calls["release"] = func() error { return x.Release(ctx, lease) }
		calls["lease of"] = func() error { return errOf(x.LeaseOf(ctx, head.Thread)) }
	}
	if x, ok := s.(segno.Collector); ok {
		calls["collect"] = func() error { return errOf(x.Collect(ctx, policy)) }
	}
	if x, ok := s.(segno.Eraser); ok {
		calls["erase"] = func() error { return errOf(x.Erase(ctx, policy)) }
	}
	return calls
}

// errorTests test the kind and the cause of errors.
var errorTests = []test{
	{"an ended context", "a call with an ended context changes nothing and is KindCancelled; errors.Is finds the cause", func(f *fixture) {
		cancelled, cancel := context.WithCancel(f.Context())
		cancel()
		late, cancel := context.WithDeadline(f.Context(), time.Now().Add(-time.Second))
		defer cancel()
		for _, ctx := range []context.Context{cancelled, late} {
			calls := f.calls(ctx)
			before := f.checkpoints(segno.CheckpointQuery{})
			for what, call := range calls {
				if err := call(); segno.KindOf(err) != segno.KindCancelled || !errors.Is(err, ctx.Err()) {
					f.Errorf("%s: error %v of kind %q; want one that wraps %v", what, err, segno.KindOf(err), ctx.Err())
				}
			}
			f.same("the checkpoints", f.checkpoints(segno.CheckpointQuery{}), before)
		}
	}},
}

// fullDiskTests need a store on a disk that the test can fill.
var fullDiskTests = []test{
	{"a full disk", "a write without space is KindIO, errors.Is finds ENOSPC, and the store works once there is space", func(f *fixture) {
		noSpace := func(what string, err error) {
			if segno.KindOf(err) != segno.KindIO || !errors.Is(err, syscall.ENOSPC) {
				f.Errorf("%s: error %v of kind %q; want ENOSPC", what, err, segno.KindOf(err))
			}
		}
		head := f.turns(f.newThread(), 1)
		end := f.o.Full(f.T, f.store)
		c := f.turn(head)
		c.Entries[0].Body = []byte(`"` + noise(1<<20) + `"`)
		noSpace("commit", f.commitErr(c))
		b := f.store.Objects().Batch()
		defer b.Close()
		_, err := b.Put(f.Context(), []byte(noise(6<<20)))
		var staged segno.Staged
		if err == nil {
			staged, err = b.Stage(f.Context())
		}
		if err == nil {
			err = f.store.Objects().Keep(f.Context(), staged)
		}
		noSpace("put, stage and keep", err)
		f.same("the head", f.head(head.Thread), head)
		end()
		f.commit(c)
	}},
}

// closeTests test calls during and after Close.
var closeTests = []test{
	{"after close", "after Close every call is KindInvalid; a second Close does nothing", func(f *fixture) {
		calls := f.calls(f.Context())
		f.ok(f.store.Close())
		f.ok(f.store.Close())
		for what, call := range calls {
			if err := call(); segno.KindOf(err) != segno.KindInvalid {
				f.Errorf("%s: error %v; want kind invalid", what, err)
			}
		}
	}},
	{"close waits", "Close waits for running calls; each succeeds or is refused", func(f *fixture) {
		head := f.newThread()
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
	}},
}

// reopenTests test durability.
var reopenTests = []test{
	{"everything is there again", "all committed data survives closing and opening again, with NUL bytes in every field", func(f *fixture) {
		const thread = "thread\x00"
		text := func(field string, n int) string { return "\x00the " + field + noise(n) }
		fill := f.fill(thread, text)
		f.fillAround(&fill, text)
		gone := f.newThread()
		f.ok(f.store.Delete(f.Context(), gone.Thread))
		full := f.fullTurn(f.head(thread))
		seq := f.commit(full).Seq
		before := fill.read(f.Context(), f.store)
		f.reopen()
		f.same("the data", fill.read(f.Context(), f.store), before)
		f.kind(errOf(f.store.Head(f.Context(), gone.Thread)), segno.KindNotFound)
		f.same("a full checkpoint", f.checkpoints(segno.CheckpointQuery{Limit: 1, Thread: thread})[0], stored(full, seq))
		f.commit(full)
		f.turns(f.head(thread), 1)
	}},
}

// costTests count costs in bytes and allocations instead of measuring time.
var costTests = []test{
	{"a long chain", "the cost of a head or the end of a line does not depend on the number of earlier sessions and turns", func(f *fixture) {
		few, many := 100, 1000
		if soak.IsWhole() {
			many = 10_000
		}
		head := f.newThread()
		grow := func(n int) {
			for i := range n {
				c := f.turn(head)
				c.Link = &segno.Link{Agent: "claude", Session: segno.SessionID(fmt.Sprint("session ", head.Seq, i)), Start: epoch}
				head = f.commit(c)
			}
		}
		cost := func() float64 {
			return testing.AllocsPerRun(5, func() {
				f.head(head.Thread)
				f.line(head.Head, 20)
				f.find(segno.CheckpointQuery{Thread: head.Thread, Limit: 20})
				f.find(segno.CheckpointQuery{Thread: head.Thread, Before: 20, Limit: 20})
			})
		}
		grow(few)
		before := cost()
		grow(many - few)
		if after := cost(); after > 1.5*before {
			f.Fatalf("%.0f allocations after %d sessions, %.0f after %d", after, many, before, few)
		}
	}},
	{"lists carry no states", "the cost of a list does not depend on the size of the entries", func(f *fixture) {
		head := f.newThread()
		for range 8 {
			c := f.turn(head)
			c.Entries[0].Body = []byte(`"` + noise(1<<20) + `"`)
			head = f.commit(c)
		}
		for what, list := range map[string]func() int{
			"heads":       func() int { return int(f.head(head.Thread).Seq) },
			"checkpoints": func() int { return len(f.find(segno.CheckpointQuery{Thread: head.Thread})) },
			"threads":     func() int { return 8 + len(f.threads(segno.ThreadQuery{})) },
			"lines":       func() int { return len(f.line(head.Head, 0)) },
		} {
			f.same(what, list(), 9)
			if n := allocated(func() { list() }); n > 2<<20 {
				f.Errorf("%s: %d bytes were allocated with 8 MB of entries", what, n)
			}
		}
	}},
}

// sizeTests measure the size of the store.
var sizeTests = []test{
	{"bytes grow with the change", "a step needs as many bytes after thousands of steps as after a hundred", func(f *fixture) {
		each := 1000
		if soak.IsWhole() {
			each = 2500
		}
		head := f.newThread()
		size := func(n int) int64 {
			before := f.o.Size(f.T, f.store)
			for range n {
				c := f.turn(head)
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
	}},
	{"a fork is a pointer", "the size of a fork does not depend on the length of its line", func(f *fixture) {
		head := f.turns(f.newThread(), 500)
		line := f.line(head.Head, 0)
		fork := func(at segno.CommitID) int64 {
			before := f.o.Size(f.T, f.store)
			for range 50 {
				f.commit(f.base(segno.ThreadID(f.id("fork")), at))
			}
			return (f.o.Size(f.T, f.store) - before) / 50
		}
		shallow, deep := fork(line[1]), fork(line[len(line)-1])
		if deep > 2*max(shallow, 512) || deep > 2048 {
			f.Fatalf("a fork of the newest of 500 commits needs %d bytes, one of the oldest %d", deep, shallow)
		}
	}},
}
