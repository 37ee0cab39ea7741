package timeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
)

// maxAmendments is the largest number of checkpoints of a line that are amended, or examined for
// an amendment.
const maxAmendments = 32

// amendment is a replacement for a turn's checkpoint that contains more of the turn's changes, and
// for the checkpoints above it, with the same paths.
type amendment struct {
	turn    *OpenTurn
	running *OpenTurn           // the turn that begins on the line, nil if none runs
	line    []*segno.Checkpoint // newest first, the last is the turn's
	snaps   []segno.Snapshot    // for each of them, the files with the turn's changes
	entries []segno.Entry       // of the turn, since it was recorded
	doubt   []string
	session *segno.Position // where the turn's conversation ends now; nil if that did not change
}

// amend commits an amendment. Only the last commit moves the thread's head, so that a crash leaves
// the line unchanged.
func (tx *txn) amend(ctx context.Context, batch segno.Batch, a amendment) error {
	staged, err := batch.Stage(ctx)
	if err != nil {
		return fmt.Errorf("stage amended turn: %w", err)
	}
	s, err := tx.threadState(ctx, a.turn.Thread)
	if err != nil {
		return err
	}
	if s.at, err = tx.checkpoint(ctx, ownOf(a.line).Parent); err != nil {
		return err
	}
	now := make(map[segno.CommitID]segno.CommitID, len(a.line)) // the new ids, by the old ones
	for i, old := range slices.Backward(a.line) {
		c, err := tx.amendedCommit(ctx, a, i, s)
		if err != nil {
			return err
		}
		c.Staged, staged = staged, segno.Staged{}
		if s, err = tx.commitAmended(ctx, s.head, c); err != nil {
			return fmt.Errorf("amend %s: %w", old.Kind, err)
		}
		now[old.ID] = c.ID
	}
	if err := tx.moveToAmendment(ctx, a, now); err != nil {
		return err
	}
	a.turn.Ended = now[ownOf(a.line).ID]
	a.turn.Noted += len(a.entries)
	if err := tx.saveTurn(ctx, *a.turn); err != nil || a.running == nil {
		return err
	}
	a.running.Parent, a.running.Before = s.at.ID, &a.snaps[0]
	return tx.saveTurn(ctx, *a.running)
}

// commitAmended commits c, unless an attempt that was killed before its last commit has made it already, with another time. It
// returns c's checkpoint in both cases.
func (tx *txn) commitAmended(ctx context.Context, head segno.Head, c segno.Commit) (threadState, error) {
	at, err := tx.checkpoint(ctx, c.ID)
	if segno.KindOf(err) == segno.KindNotFound {
		return tx.commitOrDefer(ctx, head, c)
	}
	if err == nil { // later commits need the objects that this attempt staged
		err = tx.keepStaged(ctx, c.Staged)
	}
	return threadState{head, at}, err
}

// amendedCommit returns the commit that replaces checkpoint i of the line and follows s.at. The
// commit of the newest checkpoint, which has the index 0, moves the head.
func (tx *txn) amendedCommit(ctx context.Context, a amendment, i int, s threadState) (c segno.Commit, err error) {
	head := s.head
	cp := *a.line[i]
	cp.Amends, cp.Workspace = cp.ID, &a.snaps[i]
	entries, err := tx.commitEntries(ctx, cp.ID)
	if err != nil {
		return c, err
	}
	if i == len(a.line)-1 {
		entries = tx.amendTurn(&cp, entries, a)
	} else if a.session != nil && isSamePosition(cp.Session, ownOf(a.line).Session) {
		cp.Session = a.session
	}
	if cp.Files, err = tx.count(ctx, s.at.Tree(), cp.Tree()); err != nil {
		return c, err
	}
	c = segno.Commit{ID: segno.CommitID(segno.DerivedID("amend", string(cp.Amends), string(s.at.ID), cp.Tree().String(), fmt.Sprint(len(entries)))),
		Thread: head.Thread, Parent: s.at.ID, Expect: head.Head, Epoch: head.Epoch,
		Entries: entries, Checkpoint: &cp, Move: &segno.Move{Head: head.Head, Tip: head.Tip}}
	if i == 0 {
		c.Move = &segno.Move{Head: segno.Self, Tip: nextTip(head)}
		c.Workspace = tx.workspaceStateAfter(head.Thread, c.ID, &a.snaps[0])
	}
	return c, nil
}

// moveToAmendment updates the other open turns after an amendment. Turns that began on the
// amended line now begin on its replacement. Turns in the background get the new id of their
// own checkpoint. now has the new ids of all checkpoints.
func (tx *txn) moveToAmendment(ctx context.Context, a amendment, now map[segno.CommitID]segno.CommitID) error {
	old := a.line[0].ID
	for _, t := range tx.turns {
		if t.Key == a.turn.Key {
			continue
		}
		amended, ended := now[t.Ended]
		if ended {
			t.Ended = amended
		}
		begins := t.Parent == old && t.Thread == a.turn.Thread && (a.running == nil || t.Key != a.running.Key)
		if begins {
			if t.Parent = now[old]; t.Ended == "" {
				t.Before = &a.snaps[0]
			}
		}
		if ended || begins {
			if err := tx.saveTurn(ctx, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// amendTurn adds the entries recorded since the turn's end to its checkpoint.
func (tx *txn) amendTurn(cp *segno.Checkpoint, entries []segno.Entry, a amendment) []segno.Entry {
	entries = dedupe(append(entries, a.entries...))
	if len(a.doubt) > 0 {
		entries = append(entries, pathsEntry(segno.EntryDoubt, a.doubt, a.turn.Source.Session, tx.Now()))
	}
	if a.session != nil {
		cp.Session = a.session
	}
	for i := range entries {
		entries[i].Turn = cp.Turn
	}
	cp.Time, cp.Shell = tx.Now(), shellCalls(entries, a.turn.hasAllResults(cp.Interrupted))
	return entries
}

// followAmendment lets an open turn begin on the amendment of the checkpoint that it began on. The
// process that amended the checkpoint may have been killed before it updated the turn in the
// spool.
func (tx *txn) followAmendment(ctx context.Context, t *OpenTurn) error {
	if t.Thread == "" || t.Parent == "" || t.Before == nil || tx.deferred {
		return nil
	}
	s, err := tx.threadState(ctx, t.Thread)
	if err != nil || s.head.Head == t.Parent {
		return err
	}
	line, err := tx.line(ctx, s.head.Head)
	if err != nil {
		return err
	}
	line = line[:min(len(line), maxAmendments)]
	if slices.ContainsFunc(line, hasID(t.Parent)) {
		return nil
	}
	for _, c := range line {
		is, err := tx.replaces(ctx, c, t.Parent)
		if err != nil {
			return err
		}
		if !is {
			continue
		}
		old, err := tx.checkpoint(ctx, t.Parent)
		if err == nil && c.Workspace != nil && old.Tree() == t.Before.Tree {
			t.Before = c.Workspace
		}
		t.Parent = c.ID
		return err
	}
	return nil
}

// replaces reports whether c is the checkpoint id, or amends it, directly or through
// other amendments.
func (tx *txn) replaces(ctx context.Context, c *segno.Checkpoint, id segno.CommitID) (bool, error) {
	for range maxAmendments {
		if c.ID == id || c.Amends == id {
			return true, nil
		}
		if c.Amends == "" {
			return false, nil
		}
		amended, err := tx.checkpoint(ctx, c.Amends)
		if segno.KindOf(err) == segno.KindNotFound {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		c = amended
	}
	return false, nil
}
