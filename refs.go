package segno

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
)

// Check reports whether c is valid for any store, regardless of the store's content. The error
// has [KindInvalid].
func (c *Commit) Check() error {
	if err := c.checkIDs(); err != nil {
		return err
	}
	var why errText
	switch {
	case c.ID == Self:
		why = "that id stands for the commit itself"
	case c.Create != nil && c.Create.ID != c.Thread:
		why = "the thread it creates is not its thread"
	case c.Create != nil && c.Expect != "":
		why = "a new thread has no head to expect"
	case c.Move.has(""):
		why = "a move names a head and a tip"
	case c.Move.has(Self) && !c.IsNode():
		why = "it moves to itself and is no node"
	case c.Pin != nil && c.Pin.Checkpoint == "":
		why = "the pin names no checkpoint"
	default:
		return nil
	}
	return NewError(KindInvalid, "commit", string(c.ID), why)
}

// has reports whether one of the pointers that m sets is id.
func (m *Move) has(id CommitID) bool { return m != nil && (m.Head == id || m.Tip == id) }

func (c *Commit) checkIDs() error {
	ids := []string{string(c.ID), string(c.Thread)}
	if c.Workspace != nil {
		ids = append(ids, string(c.Workspace.Workspace))
	}
	if c.Operation != nil {
		ids = append(ids, string(c.Operation.ID), string(c.Operation.Workspace))
	}
	for _, id := range ids {
		if err := CheckID("commit", id); err != nil {
			return err
		}
	}
	return nil
}

// Digest is a hash of c's content: two commits with the same ID are equal if their digests are.
// It covers the JSON of c without Staged and without the fields that the store sets, so that a
// commit from the spool has the same digest. It does not cover Expect and Epoch, because a
// commit that is repeated after a crash finds a head that it moved itself.
func (c Commit) Digest() (Hash, error) {
	c.Staged, c.Expect, c.Epoch = Staged{}, "", 0
	if c.Checkpoint != nil {
		cp := *c.Checkpoint
		cp.ID, cp.Thread, cp.Parent, cp.Seq = "", "", "", 0
		c.Checkpoint = &cp
	}
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(c); err != nil {
		return Hash{}, Errorf(KindInvalid, "commit", string(c.ID), "it does not encode: %w", err)
	}
	return Hash(h.Sum(nil)), nil
}

// Refs returns the objects that must exist once c is committed, without duplicates.
func (c *Commit) Refs() []Hash {
	all := slices.Concat(c.Needs, c.Checkpoint.Refs())
	if c.Workspace != nil && c.Workspace.Snapshot != nil {
		all = append(all, c.Workspace.Snapshot.Tree, c.Workspace.Snapshot.Times)
	}
	seen := map[Hash]bool{{}: true}
	return slices.DeleteFunc(all, func(h Hash) bool {
		again := seen[h]
		seen[h] = true
		return again
	})
}

// Refs returns the objects that c names directly. The Trace of each tier finds the objects that
// those name.
func (c *Checkpoint) Refs() []Hash {
	if c == nil {
		return nil
	}
	var refs []Hash
	if c.Workspace != nil {
		refs = append(refs, c.Workspace.Tree, c.Workspace.Times)
		if w := c.Workspace.World; w != nil {
			refs = append(refs, w.Data)
		}
	}
	if c.Session != nil {
		refs = append(refs, c.Session.Log, c.Session.Sidecars)
	}
	if c.State != nil {
		refs = append(refs, c.State.Data)
	}
	if c.World != nil {
		refs = append(refs, c.World.Data)
	}
	return slices.DeleteFunc(append(refs, c.Points), Hash.IsZero)
}

// Matches reports whether q selects c, as far as c alone shows it. The store must check Pinned
// and Limit.
func (q *CheckpointQuery) Matches(c *Checkpoint) bool {
	return (q.Thread == "" || c.Thread == q.Thread) &&
		q.matchesTiers(cmp.Or(c.Session, &Position{}), cmp.Or(c.Workspace, &Snapshot{})) &&
		(q.Key == "" || c.Key == q.Key) &&
		(q.Step == 0 || c.Step == q.Step) &&
		hasAll(c.Meta, q.Meta) &&
		strings.HasPrefix(string(c.ID), q.IDPrefix) &&
		(q.Before == 0 || c.Seq < q.Before)
}

// matchesTiers is Matches for the session and the workspace of a checkpoint.
func (q *CheckpointQuery) matchesTiers(session *Position, files *Snapshot) bool {
	return (q.Workspace == "" || files.Workspace == q.Workspace) &&
		(q.Session == "" || session.Session == q.Session) &&
		(q.Leaf == "" || session.Leaf == q.Leaf)
}

// hasAll reports whether have contains all pairs in want.
func hasAll(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// Matches reports whether q selects t, as far as t alone shows it. The store must check Session
// and Limit.
func (q *ThreadQuery) Matches(t *Thread) bool {
	return (q.Workspace == "" || t.Workspace == q.Workspace) &&
		(q.ParentThread == "" || t.ParentThread == q.ParentThread) && (!q.TopLevel || t.ParentThread == "") &&
		strings.HasPrefix(string(t.ID), q.IDPrefix)
}
