package timeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
)

// maxAmendments is how many checkpoints of a line are amended or looked at for an amendment.
const maxAmendments = 32

// amendment is a turn's checkpoint written again with more of its changes, and the
// checkpoints above it with the same paths.
type amendment struct {
	turn    *OpenTurn
	running *OpenTurn           // the turn that begins on the line, nil if none runs
	line    []*segno.Checkpoint // newest first, the last is the turn's
	snaps   []segno.Snapshot    // what each of them holds now
	entries []segno.Entry       // of the turn, since it was recorded
	doubt   []string
	session *segno.Position // where the turn's conversation ends now; nil if it stays
	message string          // the agent's last words, or ""
	now     map[segno.CommitID]segno.CommitID
}

// amend commits an amendment. The thread's head moves with the last commit only, so
// that a crash leaves the line as it was.
func (tx *txn) amend(ctx context.Context, batch segno.Batch, a amendment) error {
	staged, err := batch.Stage(ctx)
	if err != nil {
		return fmt.Errorf("stage amended turn: %w", err)
	}
	head, _, err := tx.headAndCheckpoint(ctx, a.turn.Thread)
	if err != nil {
		return err
	}
	below, err := tx.checkpointWithDeferred(ctx, a.turn.at(a.line).Parent)
	if err != nil {
		return err
	}
	parent, tree := below.ID, below.Tree()
	a.now = make(map[segno.CommitID]segno.CommitID, len(a.line))
	for i := len(a.line) - 1; i >= 0; i-- {
		old := a.line[i]
		cp := *old
		cp.Amends, cp.Workspace = old.ID, &a.snaps[i]
		entries, err := tx.commitEntries(ctx, old.ID)
		if err != nil {
			return err
		}
		if i == len(a.line)-1 {
			if entries, err = tx.amendTurn(&cp, entries, a); err != nil {
				return err
			}
		}
		if cp.Files, err = tx.count(ctx, tree, cp.Tree()); err != nil {
			return fmt.Errorf("compare workspace: %w", err)
		}
		c := segno.Commit{ID: segno.CommitID(segno.DerivedID("amend", string(old.ID), cp.Tree().String(), fmt.Sprint(len(entries)))), Thread: head.Thread, Parent: parent, Expect: head.Head,
			Epoch: head.Epoch, Entries: entries, Checkpoint: &cp, Staged: staged, Move: &segno.Move{Head: head.Head, Tip: head.Tip}}
		if staged = (segno.Staged{}); i == 0 {
			c.Move = &segno.Move{Head: segno.Self, Tip: head.Tip}
			if head.Tip == head.Head {
				c.Move.Tip = segno.Self
			}
			c.Workspace = tx.workspaceStateAfter(head.Thread, c.ID, &a.snaps[i])
		}
		now, _, err := tx.commitOrDefer(ctx, head, c)
		if err != nil {
			return fmt.Errorf("amend %s: %w", old.Kind, err)
		}
		a.now[old.ID] = c.ID
		if parent, tree = c.ID, cp.Tree(); i == len(a.line)-1 {
			a.turn.Ended = c.ID
		}
		head = now
	}
	if err := tx.moveToAmendment(ctx, a, parent); err != nil {
		return err
	}
	a.turn.Noted += len(a.entries)
	if err := tx.Spool.Open(ctx, *a.turn); err != nil || a.running == nil {
		return err
	}
	a.running.Parent, a.running.Before = parent, &a.snaps[0]
	return tx.Spool.Open(ctx, *a.running)
}

// moveToAmendment updates the other open turns after an amendment. Turns that began on the
// amended line now begin on its replacement. Turns in the background learn the new id of their
// own checkpoint.
func (tx *txn) moveToAmendment(ctx context.Context, a amendment, head segno.CommitID) error {
	turns, err := tx.Spool.Turns(ctx)
	if err != nil {
		return err
	}
	for _, t := range turns {
		if now, moved := a.now[t.Ended]; moved && t.Ended != "" && t.Key != a.turn.Key {
			t.Ended = now
			if err := tx.Spool.Open(ctx, t); err != nil {
				return err
			}
		}
		if t.Parent != a.line[0].ID || t.Thread != a.turn.Thread || t.Key == a.turn.Key || a.running != nil && t.Key == a.running.Key {
			continue
		}
		if t.Parent = head; t.Ended == "" {
			t.Before = &a.snaps[0]
		}
		if err := tx.Spool.Open(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// amendTurn adds the entries recorded since its end to the turn's own checkpoint.
func (tx *txn) amendTurn(cp *segno.Checkpoint, entries []segno.Entry, a amendment) ([]segno.Entry, error) {
	entries = dedupe(append(entries, a.entries...))
	if len(a.doubt) > 0 {
		e, err := doubtEntry(a.doubt, a.turn.Source.Session, tx.Now())
		if err != nil {
			return nil, fmt.Errorf("encode paths in doubt: %w", err)
		}
		entries = append(entries, e)
	}
	if a.session != nil {
		cp.Session = a.session
	}
	if a.message != "" {
		w := &turnEnd{turn: *a.turn}
		entries = append(entries, tx.messageEntry(w, "agent", a.message))
	}
	for i := range entries {
		entries[i].Turn = cp.Turn
	}
	cp.Time, cp.Shell = tx.Now(), shellCalls(entries, a.turn.hasAllResults(cp))
	return entries, nil
}

// followAmendment lets an open turn begin on the amendment of the checkpoint that it began on. The
// process that amended it may have been killed before it rewrote the turn in the spool.
func (tx *txn) followAmendment(ctx context.Context, t *OpenTurn) error {
	if t.Thread == "" || t.Parent == "" || t.Before == nil || tx.queue.behind {
		return nil
	}
	head, _, err := tx.headAndCheckpoint(ctx, t.Thread)
	if err != nil || head.Head == t.Parent {
		return err
	}
	line, err := tx.line(ctx, head.Head)
	if err != nil {
		return err
	}
	line = line[:min(len(line), maxAmendments)]
	if slices.ContainsFunc(line, func(c *segno.Checkpoint) bool { return c.ID == t.Parent }) {
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
		old, err := tx.checkpointWithDeferred(ctx, t.Parent)
		if err != nil {
			return err
		}
		if c.Workspace != nil && old.Tree() == t.Before.Tree {
			t.Before = c.Workspace
		}
		t.Parent = c.ID
		return nil
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
		var err error
		if c, err = tx.checkpointWithDeferred(ctx, c.Amends); segno.KindOf(err) == segno.KindNotFound {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	return false, nil
}
