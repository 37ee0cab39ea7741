package storetest

import (
	"time"

	"github.com/dalsegno/segno"
)

func workspaces() []clause {
	return []clause{
		{"records", "a workspace's record comes back, and putting it leaves its state", records},
		{"finding", "a workspace is found by one of its paths or by device and inode, the longest path first", findingWorkspaces},
		{"operations", "operations are a log per workspace, newest first, and an id is used once", operations},
	}
}

func leases() []clause {
	return []clause{
		{"fencing", "a writer with an old epoch is refused, before it learns anything", fencing},
		{"a lease is held", "a lease held by another is busy; its owner renews it under the same epoch", aLeaseIsHeld},
		{"who holds", "the lease in force is told with its owner, epoch and end; without one the zero lease is", whoHolds},
	}
}

func otherLeases() []clause {
	return []clause{{"another sees who holds", "a lease is in force for every opening of the store", anotherSeesWhoHolds}}
}

func expiring() []clause {
	return []clause{
		{"a lease expires", "an expired lease can be taken, and its old owner is fenced", aLeaseExpires},
		{"an expired lease is not held", "a lease that has expired is held by nobody", anExpiredLeaseIsNotHeld},
	}
}

// later is a moment ahead of the store's clock.
func (f *fixture) later(d time.Duration) time.Time {
	return f.now().Add(d)
}

func records(f *fixture) {
	w := f.store.(segno.Workspaces)
	_, err := w.Workspace(f.Context(), "w")
	f.kind(err, segno.KindNotFound)
	head := f.thread()
	c := f.next(head)
	c.Staged = f.stage("tree")
	c.Workspace = &segno.WorkspaceState{Workspace: "w", Thread: head.Thread, By: c.ID, Time: epoch, Snapshot: &segno.Snapshot{Workspace: "w", Tree: name("tree")}}
	f.commit(c)
	_, err = w.Workspace(f.Context(), "w")
	f.kind(err, segno.KindNotFound)
	rec := segno.WorkspaceRecord{ID: "w", Path: "/home/x\xff\n", Device: 1 << 63, Inode: 1<<64 - 1, Created: epoch, Moved: []string{"/old", "/older\xff"}}
	for range 2 {
		f.ok(w.PutWorkspace(f.Context(), rec))
		got, err := w.Workspace(f.Context(), "w")
		f.ok(err)
		want := rec
		want.State = *c.Workspace
		f.same("the record", got, want)
		rec.Moved, rec.Path = append(rec.Moved, rec.Path), "/elsewhere"
	}
	f.kind(w.PutWorkspace(f.Context(), segno.WorkspaceRecord{}), segno.KindInvalid)
}

func findingWorkspaces(f *fixture) {
	w := f.store.(segno.Workspaces)
	for _, r := range []segno.WorkspaceRecord{{ID: "1", Path: "/a", Device: 1, Inode: 10}, {ID: "2", Path: "/a/b", Device: 1, Inode: 20},
		{ID: "3", Path: "/a/b/c\xff", Device: 2, Inode: 10}, {ID: "4", Path: "/z"}} {
		f.ok(w.PutWorkspace(f.Context(), r))
	}
	find := func(device, inode uint64, paths ...string) (ids string) {
		for r, err := range w.FindWorkspaces(f.Context(), paths, device, inode) {
			f.ok(err)
			ids += string(r.ID)
		}
		return ids
	}
	f.same("by paths", find(0, 0, "/a/b/c\xff", "/a/b", "/a", "/"), "321")
	f.same("by inode", find(1, 10, "/nowhere"), "1")
	f.same("by either", find(2, 10, "/a"), "31")
	f.same("all, longest path first", find(0, 0), "3214")
	f.same("no path", find(1, 20), "2")
}

func operations(f *fixture) {
	w := f.store.(segno.Workspaces)
	head := f.turns(f.thread(), 1)
	var want []segno.Operation
	for i := range 5 {
		c := f.move(head, head.Head, head.Tip)
		c.Operation = &segno.Operation{ID: segno.OperationID(f.id("op")), Workspace: "w", Thread: head.Thread, Verb: segno.VerbUndo, Args: "1",
			Time: epoch.Add(-time.Duration(i) * time.Minute), Undoes: "other", Pin: &segno.Pin{Checkpoint: head.Head, Name: "n"},
			Before: segno.Pointers{Head: head.Head, Tip: head.Tip, Session: "s", Tree: name("t")}, After: segno.Pointers{Head: "h"}}
		f.commit(c)
		want = append([]segno.Operation{*c.Operation}, want...)
	}
	other := f.move(head, head.Head, head.Tip)
	other.Operation = &segno.Operation{ID: "elsewhere", Workspace: "v", Thread: head.Thread, Verb: segno.VerbUndo, Time: epoch}
	f.commit(other)
	var got []segno.Operation
	for o, err := range w.Operations(f.Context(), "w") {
		f.ok(err)
		got = append(got, o)
	}
	f.same("the log", got, want)
	again := f.move(head, head.Head, head.Tip)
	again.Operation = &want[0]
	_, err := f.store.Commit(f.Context(), again)
	f.kind(err, segno.KindConflict)
}

func fencing(f *fixture) {
	l := f.store.(segno.Leaser)
	old := f.thread()
	got, err := l.Acquire(f.Context(), segno.Lease{Thread: old.Thread, Owner: "proxy", Expires: f.later(time.Minute)})
	f.ok(err)
	head := f.head(old.Thread)
	f.same("the head's epoch", head.Epoch, got.Epoch)
	if got.Epoch <= old.Epoch {
		f.Fatalf("taking the lease left the epoch at %d", got.Epoch)
	}
	_, err = f.store.Commit(f.Context(), f.next(old))
	f.kind(err, segno.KindFenced)
	stale := f.next(old)
	stale.Expect = "an older head"
	_, err = f.store.Commit(f.Context(), stale)
	f.kind(err, segno.KindFenced)
	f.turns(head, 1)
}

func aLeaseIsHeld(f *fixture) {
	l := f.store.(segno.Leaser)
	head := f.thread()
	one, err := l.Acquire(f.Context(), segno.Lease{Thread: head.Thread, Owner: "one", Expires: f.later(time.Minute)})
	f.ok(err)
	_, err = l.Acquire(f.Context(), segno.Lease{Thread: head.Thread, Owner: "two", Expires: f.later(time.Minute)})
	f.kind(err, segno.KindBusy)
	again, err := l.Acquire(f.Context(), segno.Lease{Thread: head.Thread, Owner: "one", Expires: f.later(2 * time.Minute), Epoch: one.Epoch})
	f.ok(err)
	f.same("the epoch", again.Epoch, one.Epoch)
	f.kind(l.Release(f.Context(), segno.Lease{Thread: head.Thread, Owner: "two", Epoch: one.Epoch}), segno.KindFenced)
	f.ok(l.Release(f.Context(), again))
	f.same("the epoch after", f.head(head.Thread).Epoch, one.Epoch)
	two, err := l.Acquire(f.Context(), segno.Lease{Thread: head.Thread, Owner: "two", Expires: f.later(time.Minute)})
	f.ok(err)
	if two.Epoch <= one.Epoch {
		f.Fatalf("the epoch went from %d to %d", one.Epoch, two.Epoch)
	}
	_, err = l.Acquire(f.Context(), segno.Lease{Thread: "nobody", Owner: "one", Expires: f.later(time.Minute)})
	f.kind(err, segno.KindNotFound)
	_, err = l.Acquire(f.Context(), segno.Lease{Thread: head.Thread, Expires: f.later(time.Minute)})
	f.kind(err, segno.KindInvalid)
}

func aLeaseExpires(f *fixture) {
	l := f.store.(segno.Leaser)
	head := f.thread()
	one, err := l.Acquire(f.Context(), segno.Lease{Thread: head.Thread, Owner: "one", Expires: f.later(time.Minute)})
	f.ok(err)
	f.o.Clock.Advance(time.Hour)
	two, err := l.Acquire(f.Context(), segno.Lease{Thread: head.Thread, Owner: "two", Expires: f.later(time.Minute)})
	f.ok(err)
	c := f.next(head)
	c.Epoch = one.Epoch
	_, err = f.store.Commit(f.Context(), c)
	f.kind(err, segno.KindFenced)
	f.kind(l.Release(f.Context(), one), segno.KindFenced)
	_, err = l.Acquire(f.Context(), segno.Lease{Thread: head.Thread, Owner: "one", Expires: f.later(time.Minute), Epoch: one.Epoch})
	f.kind(err, segno.KindBusy)
	c.Epoch = two.Epoch
	f.commit(c)
}

// held wants a thread's lease in force to be l.
func (f *fixture) held(l segno.Leaser, thread segno.ThreadID, want segno.Lease) {
	f.Helper()
	got, err := l.LeaseOf(f.Context(), thread)
	f.ok(err)
	f.same("the lease in force", got, want)
}

func whoHolds(f *fixture) {
	l := f.store.(segno.Leaser)
	head, other := f.thread(), f.thread()
	f.held(l, head.Thread, segno.Lease{})
	want := segno.Lease{Thread: head.Thread, Owner: "one", Expires: f.later(time.Minute)}
	got, err := l.Acquire(f.Context(), want)
	f.ok(err)
	want.Epoch = got.Epoch
	f.held(l, head.Thread, want)
	f.held(l, other.Thread, segno.Lease{})
	want.Expires = f.later(2 * time.Minute)
	_, err = l.Acquire(f.Context(), want) // renewed
	f.ok(err)
	f.held(l, head.Thread, want)
	f.turns(f.head(head.Thread), 1)
	f.held(l, head.Thread, want)
	// somebody else who found that the owner is gone
	found, err := l.LeaseOf(f.Context(), head.Thread)
	f.ok(err)
	f.ok(l.Release(f.Context(), found))
	f.held(l, head.Thread, segno.Lease{})
	_, err = l.LeaseOf(f.Context(), "nobody")
	f.kind(err, segno.KindNotFound)
	_, err = l.Acquire(f.Context(), segno.Lease{Thread: head.Thread, Owner: "two", Expires: f.later(time.Minute)})
	f.ok(err)
	f.ok(f.store.Delete(f.Context(), head.Thread))
	_, err = l.LeaseOf(f.Context(), head.Thread)
	f.kind(err, segno.KindNotFound)
}

func anExpiredLeaseIsNotHeld(f *fixture) {
	l := f.store.(segno.Leaser)
	head := f.thread()
	one, err := l.Acquire(f.Context(), segno.Lease{Thread: head.Thread, Owner: "one", Expires: f.later(time.Minute)})
	f.ok(err)
	f.o.Clock.Advance(time.Minute - time.Nanosecond)
	f.held(l, head.Thread, one)
	f.o.Clock.Advance(time.Nanosecond)
	f.held(l, head.Thread, segno.Lease{})
	again, err := l.Acquire(f.Context(), segno.Lease{Thread: head.Thread, Owner: "one", Expires: f.later(time.Minute)})
	f.ok(err)
	if again.Epoch <= one.Epoch {
		f.Fatalf("the epoch went from %d to %d", one.Epoch, again.Epoch)
	}
	f.held(l, head.Thread, again)
}

func anotherSeesWhoHolds(f *fixture) {
	l := f.store.(segno.Leaser)
	other := f.o.Another(f.T, f.store)
	defer other.Close()
	head := f.thread()
	want, err := l.Acquire(f.Context(), segno.Lease{Thread: head.Thread, Owner: "one", Expires: f.later(time.Minute)})
	f.ok(err)
	f.held(other.(segno.Leaser), head.Thread, want)
	f.ok(other.(segno.Leaser).Release(f.Context(), want))
	f.held(l, head.Thread, segno.Lease{})
}
