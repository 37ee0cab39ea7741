package storetest

import (
	"time"

	"github.com/dalsegno/segno"
)

// workspaceTests test the records and operations of directory trees.
var workspaceTests = []test{
	{"records", "the record of a workspace is returned unchanged; PutWorkspace keeps its state", func(f *fixture) {
		w := f.store.(segno.Workspaces)
		f.kind(errOf(w.Workspace(f.Context(), "w")), segno.KindNotFound)
		c := f.turn(f.newThread())
		c.Staged = f.stage("tree")
		c.Workspace = &segno.WorkspaceState{Workspace: "w", Thread: c.Thread, By: c.ID, Time: epoch,
			Snapshot: &segno.Snapshot{Workspace: "w", Tree: hash("tree")}}
		f.commit(c)
		f.kind(errOf(w.Workspace(f.Context(), "w")), segno.KindNotFound)
		rec := segno.WorkspaceRecord{ID: "w", Path: "/home/x\xff\n", Device: 1 << 63, Inode: 1<<64 - 1, Created: epoch,
			Moved: []string{"/old", "/older\xff"}}
		for range 2 {
			f.ok(w.PutWorkspace(f.Context(), rec))
			got := returned(w.Workspace(f.Context(), "w")).ok(f)
			want := rec
			want.State = *c.Workspace
			f.same("the record", got, want)
			rec.Moved, rec.Path = append(rec.Moved, rec.Path), "/elsewhere"
		}
		f.kind(w.PutWorkspace(f.Context(), segno.WorkspaceRecord{}), segno.KindInvalid)
	}},
	{"finding", "a workspace is found by a path or by device and inode, longest path first", func(f *fixture) {
		w := f.store.(segno.Workspaces)
		for _, r := range []segno.WorkspaceRecord{{ID: "1", Path: "/a", Device: 1, Inode: 10}, {ID: "2", Path: "/a/b", Device: 1, Inode: 20},
			{ID: "3", Path: "/a/b/c\xff", Device: 2, Inode: 10}, {ID: "4", Path: "/z"}} {
			f.ok(w.PutWorkspace(f.Context(), r))
		}
		find := func(want string, device, inode uint64, paths ...string) {
			f.Helper()
			got := ""
			for _, r := range all(f, w.FindWorkspaces(f.Context(), paths, device, inode)) {
				got += string(r.ID)
			}
			f.same("the workspaces", got, want)
		}
		find("321", 0, 0, "/a/b/c\xff", "/a/b", "/a", "/")
		find("1", 1, 10, "/missing")
		find("31", 2, 10, "/a")
		find("3214", 0, 0)
		find("2", 1, 20)
	}},
	{"operations", "operations are listed per workspace, newest first; an operation id is used once", func(f *fixture) {
		head := f.turns(f.newThread(), 1)
		operation := func(o segno.Operation) segno.Commit {
			c := f.move(head, head.Head, head.Tip)
			o.Thread, o.Verb = head.Thread, segno.VerbUndo
			c.Operation = &o
			return c
		}
		var want []segno.Operation
		for i := range 5 {
			c := operation(segno.Operation{ID: segno.OperationID(f.id("op")), Workspace: "w", Args: "1", Actor: "page",
				Time: epoch.Add(-time.Duration(i) * time.Minute), Undoes: "other", Pin: &segno.Pin{Checkpoint: head.Head, Name: "n"},
				After:  segno.Pointers{Head: "h"},
				Before: segno.Pointers{Head: head.Head, Tip: head.Tip, Session: "s", Tree: hash("t")}})
			f.commit(c)
			want = append([]segno.Operation{*c.Operation}, want...)
		}
		f.commit(operation(segno.Operation{ID: "elsewhere", Workspace: "v", Time: epoch}))
		f.same("the operations", all(f, f.store.(segno.Workspaces).Operations(f.Context(), "w")), want)
		f.kind(f.commitErr(operation(want[0])), segno.KindConflict)
	}},
}

// lease returns a lease that expires in a minute.
func (f *fixture) lease(thread segno.ThreadID, owner string) segno.Lease {
	return segno.Lease{Thread: thread, Owner: owner, Expires: f.now().Add(time.Minute)}
}

// acquire takes the lease of a thread for a minute.
func (f *fixture) acquire(thread segno.ThreadID, owner string) segno.Lease {
	f.Helper()
	return returned(f.store.(segno.Leaser).Acquire(f.Context(), f.lease(thread, owner))).ok(f)
}

func (f *fixture) acquireErr(l segno.Lease) error {
	return errOf(f.store.(segno.Leaser).Acquire(f.Context(), l))
}

// leaseIs fails the test unless the lease of a thread is want.
func (f *fixture) leaseIs(thread segno.ThreadID, want segno.Lease) {
	f.Helper()
	f.same("the lease", returned(f.store.(segno.Leaser).LeaseOf(f.Context(), thread)).ok(f), want)
}

// newer fails the test unless b has a higher epoch than a.
func (f *fixture) newer(a, b segno.Lease) {
	f.Helper()
	if b.Epoch <= a.Epoch {
		f.Fatalf("epoch %d follows %d", b.Epoch, a.Epoch)
	}
}

// leaseTests test the single writer of a thread.
var leaseTests = []test{
	{"fencing", "a commit with an old epoch is refused, also one with an old head", func(f *fixture) {
		old := f.newThread()
		got := f.acquire(old.Thread, "proxy")
		head := f.head(old.Thread)
		f.same("the epoch of the head", head.Epoch, got.Epoch)
		f.newer(segno.Lease{Epoch: old.Epoch}, got)
		c := f.turn(old)
		f.kind(f.commitErr(c), segno.KindFenced)
		c.Expect = "an older head"
		f.kind(f.commitErr(c), segno.KindFenced)
		f.turns(head, 1)
	}},
	{"a lease is held", "a lease of another owner is busy; its owner renews it with the same epoch", func(f *fixture) {
		l, head := f.store.(segno.Leaser), f.newThread()
		one := f.acquire(head.Thread, "one")
		f.kind(f.acquireErr(f.lease(head.Thread, "two")), segno.KindBusy)
		renewal := one
		renewal.Expires = renewal.Expires.Add(time.Minute)
		renewed := returned(l.Acquire(f.Context(), renewal)).ok(f)
		f.same("the renewed lease", renewed, renewal)
		f.leaseIs(head.Thread, renewal)
		f.turns(f.head(head.Thread), 1)
		f.leaseIs(head.Thread, renewal)
		f.kind(l.Release(f.Context(), segno.Lease{Thread: head.Thread, Owner: "two", Epoch: one.Epoch}), segno.KindFenced)
		f.ok(l.Release(f.Context(), renewed))
		f.same("the epoch after the release", f.head(head.Thread).Epoch, one.Epoch)
		f.newer(one, f.acquire(head.Thread, "two"))
		f.kind(f.acquireErr(f.lease("missing", "one")), segno.KindNotFound)
		f.kind(f.acquireErr(f.lease(head.Thread, "")), segno.KindInvalid)
	}},
	{"reading a lease", "LeaseOf returns the lease in force or the zero Lease; any caller may release it", func(f *fixture) {
		l, head, other := f.store.(segno.Leaser), f.newThread(), f.newThread()
		f.leaseIs(head.Thread, segno.Lease{})
		want := f.acquire(head.Thread, "one")
		f.leaseIs(head.Thread, want)
		f.leaseIs(other.Thread, segno.Lease{})
		found := returned(l.LeaseOf(f.Context(), head.Thread)).ok(f)
		f.ok(l.Release(f.Context(), found))
		f.leaseIs(head.Thread, segno.Lease{})
		f.kind(errOf(l.LeaseOf(f.Context(), "missing")), segno.KindNotFound)
		f.acquire(head.Thread, "two")
		f.ok(f.store.Delete(f.Context(), head.Thread))
		f.kind(errOf(l.LeaseOf(f.Context(), head.Thread)), segno.KindNotFound)
	}},
}

// otherLeaseTests open the store twice.
var otherLeaseTests = []test{
	{"a second store sees a lease", "a lease is in force for every opening of the store", func(f *fixture) {
		other, head := f.secondStore().(segno.Leaser), f.newThread()
		want := f.acquire(head.Thread, "one")
		f.same("the lease in the other store", returned(other.LeaseOf(f.Context(), head.Thread)).ok(f), want)
		f.ok(other.Release(f.Context(), want))
		f.leaseIs(head.Thread, segno.Lease{})
	}},
}

// expiryTests move the clock past the end of a lease.
var expiryTests = []test{
	{"a lease expires", "an expired lease can be taken, and its old owner is fenced", func(f *fixture) {
		head := f.newThread()
		one := f.acquire(head.Thread, "one")
		f.advance(time.Minute - time.Nanosecond)
		f.leaseIs(head.Thread, one)
		f.advance(time.Nanosecond)
		f.leaseIs(head.Thread, segno.Lease{})
		two := f.acquire(head.Thread, "two")
		c := f.turn(head)
		c.Epoch = one.Epoch
		f.kind(f.commitErr(c), segno.KindFenced)
		f.kind(f.store.(segno.Leaser).Release(f.Context(), one), segno.KindFenced)
		renewal := f.lease(head.Thread, "one")
		renewal.Epoch = one.Epoch
		f.kind(f.acquireErr(renewal), segno.KindBusy)
		c.Epoch = two.Epoch
		f.commit(c)
		f.advance(time.Hour)
		again := f.acquire(head.Thread, "two")
		f.newer(two, again)
		f.leaseIs(head.Thread, again)
	}},
}
