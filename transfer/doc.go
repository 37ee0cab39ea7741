// Package transfer copies a thread between two stores: all its commits with the objects that they reach, its pins, the
// sessions of its chain and its parts, such as the runs of subagents. Either store may be of any kind, also one behind the HTTP API
// (package client).
//
//	done, err := transfer.Copy(ctx, laptop, fleet, thread, transfer.Options{})
//
// The copy has the same ids as its source, so a thread can go back and forth. Only missing commits and objects are sent. Each
// object is checked against its name, and the objects of a commit are in the target before the commit. A copy that was
// interrupted, also by kill -9, continues when [Copy] is called again.
//
// Nothing in the target is overwritten. If the target's head is on the line of the source's head, or if the source has
// all commits of the target, the head of the target moves to that of the source. If both sides have new commits, those
// of the source become a line of the thread in the target, and the target's head stays: see [Result].
//
// If the heads are the same, only the tip moves, also if the target keeps its head. The tip stays if the target has undone turns that
// the source lacks, because a redo there could no longer reach them.
//
// A fork brings its ancestors in other threads. If the target lacks such a thread, it gets one with these commits alone; a
// later copy of that thread completes it. If a run or a directory of the target is at such a thread, its head stays, and the commits are
// a line.
//
// These are not copied: operations, because they are the log of a directory; titles that changed since the thread was
// copied first; the removal of a pin; commits that only have entries and that neither the head, the tip nor a
// checkpoint follows, because no store lists them; and commits that a collection of the target has dropped, because no store makes a
// commit twice. The Seq of a checkpoint is given by each store.
package transfer

import (
	"context"
	"iter"

	"github.com/dalsegno/segno"
)

// Options are what a caller can choose.
type Options struct {
	// KeepHead adds the commits as a line, and leaves the head of a thread that the target already has. Its tip moves if the head is
	// that of the source.
	KeepHead bool
	// DryRun counts what a copy would send, and writes nothing.
	DryRun bool
	// Progress is called with the number of objects that were sent and that are known to be missing. It may be nil.
	// Several goroutines may call it.
	Progress func(sent, missing int64)
	// Arriving, if not nil, is called with commits, or with links of the chain, before they are made in the target, which has
	// their objects. They have neither entries nor moves. An error of [segno.KindNotFound] means that an object is missing;
	// Copy then sends it and calls Arriving once more. Any other error ends the copy.
	Arriving func(ctx context.Context, commits []segno.Commit) error
}

// Outcome is what became of the head of the thread in the target.
type Outcome string

// The outcomes.
const (
	Created   Outcome = "created"    // the target had no such thread
	Forwarded Outcome = "forwarded"  // the head moved to that of the source
	UpToDate  Outcome = "up to date" // the heads are the same
	Behind    Outcome = "behind"     // the target's head is ahead of the source's, and stays
	Diverged  Outcome = "diverged"   // both sides have commits of their own: the source's are a line in the target, and its head stays
	Kept      Outcome = "kept"       // the head could have moved, and stays: KeepHead, a run holds the thread, or a directory works on it
)

// Result is what [Copy] sent.
type Result struct {
	Thread  segno.ThreadID
	Outcome Outcome
	Head    segno.CommitID // of the thread in the target
	Source  segno.CommitID // the head of the source, which is also in the target
	Left    segno.CommitID // for Forwarded: the head that the target had, if it is not on the line of the new head; or ""
	Why     error          // for Kept: the error with which the target refused to move the head, or nil for KeepHead
	Commits int            // sent, also those of ancestors and parts
	Objects int            // sent
	Bytes   int64          // of these objects; -1 if a dry run would have to fetch them
	Pins    int            // set
	Links   int            // sessions that joined the chain
	Parts   int            // threads that are parts of this one
}

// The abilities of a store behind a network, which handles many objects in one request. [Copy] finds them by type
// assertion.
type (
	// ObjectLister lists objects as reachable.Objects does.
	ObjectLister interface {
		ReachedObjects(ctx context.Context, thread segno.ThreadID, at, without []segno.CommitID) iter.Seq2[segno.Hash, error]
	}
	// ObjectReader reads objects, checks them against their names, and calls visit for each in any order.
	ObjectReader interface {
		ReadObjects(ctx context.Context, names []segno.Hash, visit func(name segno.Hash, data []byte) error) error
	}
	// ObjectFinder returns those of names that the store lacks. The store keeps the others, as [segno.Objects.Keep] does.
	ObjectFinder interface {
		MissingObjects(ctx context.Context, names []segno.Hash) ([]segno.Hash, error)
	}
)
