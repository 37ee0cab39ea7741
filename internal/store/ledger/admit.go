// Package ledger is the only implementation of the rules that decide whether a thread admits a commit, and how the
// commit changes the thread. Every store applies a commit in the same order:
//
//  1. Before any transaction, [Prepare] checks that the commit is valid, and returns its digest.
//  2. In the transaction, the store looks for a commit with the same id. If there is one, [Repeat]
//     decides whether the recorded result is the answer.
//  3. [Admit] compares the commit with the thread, and through a [Reader] with the other commits, objects
//     and operations that it names.
//  4. [Next] returns the state of the thread after the commit, [Checkpoint] the checkpoint to store, and [EndLink] the
//     link of the chain that ends.
//
// The package has no state and reads nothing itself: the caller passes the values that its transaction
// reads. [Batch] collects the objects that a commit brings. [CheckWindow] and [CheckQuery] check what a caller reads.
//
// The table of cases in internal/testing/ledgertest applies to every store, even if a single SQL statement admits a
// commit.
package ledger

import "github.com/dalsegno/segno"

const op = "commit"

// Thread is the state of a thread that a transaction reads, or the state after a commit.
type Thread struct {
	segno.Head
	Exists  bool // false if there is no such thread; Head then has only the id
	Deleted bool
	Phase   segno.Phase
}

// Reader looks up the commits, objects and operations outside its thread that a commit names. It reads in the
// transaction of the commit.
type Reader interface {
	// HasNode reports whether a commit exists and is a node of a tree.
	HasNode(id segno.CommitID) (bool, error)
	// HasCheckpoint reports whether a commit exists and has a checkpoint.
	HasCheckpoint(id segno.CommitID) (bool, error)
	// HasOperation reports whether some workspace's log has an operation.
	HasOperation(id segno.OperationID) (bool, error)
	// MissingObject returns the first of names that the store does not hold and that is not in
	// the packs of the commit, or the zero hash.
	MissingObject(names []segno.Hash) (segno.Hash, error)
}

// Prepare makes the checks that need no store, and returns c's digest. The error has
// [segno.KindInvalid].
func Prepare(c *segno.Commit) (segno.Hash, error) {
	if err := c.Check(); err != nil {
		return segno.Hash{}, err
	}
	return digest(c)
}

// Repeat decides about a commit whose id the store already has. It returns nil if the two commits
// are the same. The caller then returns the recorded result again. threadDeleted is set if the
// thread of the recorded commit is deleted, and sameDigest if both digests are equal.
func Repeat(c *segno.Commit, threadDeleted, sameDigest bool) error {
	switch {
	case threadDeleted:
		return notFound(op, string(c.Thread))
	case !sameDigest:
		return segno.Errorf(segno.KindConflict, op, string(c.ID), "another commit has that id")
	}
	return nil
}

// Admit returns nil if c may be applied to its thread, whose state in the transaction is t. c's id
// must be new to the store, see [Repeat].
//
// The order is part of the contract. The epoch is compared before the head, because a writer that has lost its lease
// must not learn the head from a [segno.ConflictError]. Admit calls the Reader last, so that a conflict costs no
// further look-up.
func Admit(t *Thread, c *segno.Commit, r Reader) error {
	if err := AdmitHead(t, c); err != nil {
		return err
	}
	for _, id := range Nodes(c) {
		if found, err := r.HasNode(id); err != nil || !found {
			return or(err, notFound("find commit", string(id)))
		}
	}
	if names := Objects(c); len(names) > 0 {
		missing, err := r.MissingObject(names)
		if err != nil || !missing.IsZero() {
			return or(err, segno.Errorf(segno.KindNotFound, op, string(c.ID), "object %s does not exist", missing))
		}
	}
	if c.Pin != nil {
		if found, err := r.HasCheckpoint(c.Pin.Checkpoint); err != nil || !found {
			return or(err, notFound("pin", string(c.Pin.Checkpoint)))
		}
	}
	if c.Operation != nil {
		if found, err := r.HasOperation(c.Operation.ID); err != nil || found {
			return or(err, segno.Errorf(segno.KindConflict, op, string(c.Operation.ID), "another operation has that id"))
		}
	}
	return nil
}

// AdmitHead is the part of [Admit] that needs only the thread.
func AdmitHead(t *Thread, c *segno.Commit) error {
	switch {
	case t.Deleted, !t.Exists && c.Create == nil:
		return notFound(op, string(c.Thread))
	case t.Exists && c.Create == nil && c.Epoch < t.Epoch:
		return segno.NewError(segno.KindFenced, op, string(c.Thread), nil)
	case t.Exists && (c.Create != nil || c.Expect != t.Head.Head):
		return segno.NewError(segno.KindConflict, op, string(c.Thread), &segno.ConflictError{Actual: t.Head})
	}
	return nil
}

// or returns err if it is not nil, else other. So a failed look-up does not count as an answer.
func or(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

func notFound(op, name string) error { return segno.NewError(segno.KindNotFound, op, name, nil) }

// Nodes returns the commits that must be nodes for c to be applied: its parent, and the targets of
// its move, except c itself.
func Nodes(c *segno.Commit) []segno.CommitID {
	ids := make([]segno.CommitID, 0, 3)
	if c.Parent != "" {
		ids = append(ids, c.Parent)
	}
	if c.Move != nil {
		for _, id := range []segno.CommitID{c.Move.Head, c.Move.Tip} {
			if id != segno.Self {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// Objects returns the objects that the store must have for c to be applied, without duplicates.
// These are the objects that its batch found in the store, and the objects that c names but does
// not contain in Staged.Objects. Some of them may be in its packs.
func Objects(c *segno.Commit) []segno.Hash {
	seen := make(map[segno.Hash]bool, len(c.Staged.Objects))
	for _, o := range c.Staged.Objects {
		seen[o.Name] = seen[o.Name] || o.Data != nil
	}
	var names []segno.Hash
	add := func(name segno.Hash) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for _, o := range c.Staged.Objects {
		add(o.Name)
	}
	for _, name := range c.Refs() {
		add(name)
	}
	return names
}
