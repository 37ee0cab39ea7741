package storetest

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
)

func endings() []clause {
	return []clause{
		{"a context that was cancelled", "each call with a context that was cancelled is KindCancelled, and errors.Is finds context.Canceled", aCancelledContext},
		{"a context past its deadline", "each call with a context past its deadline is KindCancelled, and errors.Is finds context.DeadlineExceeded", aLateContext},
	}
}

func fullDisks() []clause {
	return []clause{{"a full disk", "a write for which there is no room is KindIO, errors.Is finds ENOSPC, and the store goes on once there is room", aFullDisk}}
}

func aCancelledContext(f *fixture) {
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	f.ended(ctx)
}

func aLateContext(f *fixture) {
	ctx, cancel := context.WithDeadline(f.Context(), time.Now().Add(-time.Second))
	defer cancel()
	f.ended(ctx)
}

// ended wants every call to report how ctx ended.
func (f *fixture) ended(ctx context.Context) {
	f.Helper()
	head := f.turns(f.thread(), 1)
	staged := f.stage("staged")
	batch := f.store.Objects().Batch()
	defer batch.Close()
	for what, call := range f.calls(ctx, head, staged, batch) {
		err := call()
		if err == nil || segno.KindOf(err) != segno.KindCancelled || !errors.Is(err, ctx.Err()) {
			f.Errorf("%s: %v is of kind %q, and should wrap %v", what, err, segno.KindOf(err), ctx.Err())
		}
	}
	f.same("the head", f.head(head.Thread), head)
}

// calls are all that can be asked of a store.
func (f *fixture) calls(ctx context.Context, head segno.Head, staged segno.Staged, batch segno.Batch) map[string]func() error {
	s, o := f.store, f.store.Objects()
	calls := map[string]func() error{
		"commit": func() error { _, err := s.Commit(ctx, f.next(head)); return err },
		"head":   func() error { _, err := s.Head(ctx, head.Thread); return err },
		"load":   func() error { _, err := s.Load(ctx, head.Head, segno.Window{Entries: true}); return err },
		"delete": func() error { return s.Delete(ctx, head.Thread) },
		"get":    func() error { _, err := o.Get(ctx, name("x")); return err },
		"has":    func() error { _, err := o.Has(ctx, name("x")); return err },
		"keep":   func() error { return o.Keep(ctx, staged) },
		"put":    func() error { _, err := batch.Put(ctx, []byte("put")); return err },
		"stage":  func() error { _, err := batch.Stage(ctx); return err },
		"checkpoints": func() (last error) {
			for _, err := range s.Checkpoints(ctx, segno.CheckpointQuery{Thread: head.Thread}) {
				last = err
			}
			return last
		},
		"threads": func() (last error) {
			for _, err := range s.Threads(ctx, segno.ThreadQuery{}) {
				last = err
			}
			return last
		},
		"threads by phase": func() (last error) {
			for _, err := range s.Threads(ctx, segno.ThreadQuery{Phase: segno.PhaseDone}) {
				last = err
			}
			return last
		},
		"purge": func() error {
			_, err := segno.Purge(ctx, s, head.Thread, segno.CollectPolicy{Trace: trace})
			return err
		},
	}
	f.abilityCalls(ctx, head, calls)
	return calls
}

// abilityCalls adds what only some stores can be asked.
func (f *fixture) abilityCalls(ctx context.Context, head segno.Head, calls map[string]func() error) {
	if c, ok := f.store.(segno.Chains); ok {
		calls["chain"] = func() (last error) {
			for _, err := range c.Chain(ctx, head.Thread) {
				last = err
			}
			return last
		}
	}
	if w, ok := f.store.(segno.Workspaces); ok {
		calls["workspace"] = func() error { _, err := w.Workspace(ctx, "w"); return err }
		calls["put workspace"] = func() error { return w.PutWorkspace(ctx, segno.WorkspaceRecord{ID: "w"}) }
	}
	if l, ok := f.store.(segno.Leaser); ok {
		lease := segno.Lease{Thread: head.Thread, Owner: "a", Expires: f.now().Add(time.Minute)}
		calls["acquire"] = func() error { _, err := l.Acquire(ctx, lease); return err }
		calls["release"] = func() error { return l.Release(ctx, lease) }
		calls["held"] = func() error { _, err := l.LeaseOf(ctx, head.Thread); return err }
	}
	if g, ok := f.store.(segno.Collector); ok {
		calls["collect"] = func() error { _, err := g.Collect(ctx, segno.CollectPolicy{Trace: trace}); return err }
	}
	if e, ok := f.store.(segno.Eraser); ok {
		calls["erase"] = func() error { _, err := e.Erase(ctx, segno.CollectPolicy{Trace: trace}); return err }
	}
}

func aFullDisk(f *fixture) {
	head := f.turns(f.thread(), 1)
	end := f.o.Full(f.T, f.store)
	full := f.next(head)
	full.Entries[0].Body = []byte(`"` + noise(1<<20) + `"`)
	_, err := f.store.Commit(f.Context(), full)
	if segno.KindOf(err) != segno.KindIO || !errors.Is(err, syscall.ENOSPC) {
		f.Errorf("commit: %v is of kind %q, and should wrap ENOSPC", err, segno.KindOf(err))
	}
	b := f.store.Objects().Batch()
	defer b.Close()
	_, err = b.Put(f.Context(), []byte(noise(6<<20)))
	if err == nil {
		var staged segno.Staged
		if staged, err = b.Stage(f.Context()); err == nil {
			err = f.store.Objects().Keep(f.Context(), staged)
		}
	}
	if segno.KindOf(err) != segno.KindIO || !errors.Is(err, syscall.ENOSPC) {
		f.Errorf("keep: %v is of kind %q, and should wrap ENOSPC", err, segno.KindOf(err))
	}
	f.same("the head", f.head(head.Thread), head)
	end()
	f.commit(full)
}
