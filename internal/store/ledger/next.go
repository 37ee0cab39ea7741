package ledger

import "github.com/dalsegno/segno"

// Next returns the state of thread t after c is applied. parentTurn is the turn of c's parent, see
// [Turn], or 0 if c has no parent. Next does not change t and c. The result shares their pointers.
//
//   - c.Move sets head and tip. If c has no move and is a node, it becomes both.
//   - The sequence number is the number of the thread's commits.
//   - A new thread begins with its parent's turn, so that a fork at turn 2 continues with turn 3.
//   - The epoch stays the same, because only a lease increments it.
//   - A link that is not detached becomes the head session.
func Next(t *Thread, c *segno.Commit, parentTurn int) Thread {
	next := *t
	next.Thread, next.Exists = c.Thread, true
	next.Phase = NextPhase(t.Phase, c)
	next.Seq++
	if c.Create != nil {
		next.Turn = parentTurn
	}
	if c.Checkpoint != nil {
		next.Turn = max(next.Turn, c.Checkpoint.Turn)
	}
	switch {
	case c.Move != nil:
		next.Head.Head, next.Tip = target(c.Move.Head, c.ID), target(c.Move.Tip, c.ID)
	case c.IsNode():
		next.Head.Head, next.Tip = c.ID, c.ID
	}
	if c.Link != nil && !c.Link.Detached {
		next.Link = *c.Link
	}
	return next
}

func target(id, self segno.CommitID) segno.CommitID {
	if id == segno.Self {
		return self
	}
	return id
}

// Turn returns the turn number of c: that of its checkpoint, else that of its parent.
func Turn(c *segno.Commit, parentTurn int) int {
	if c.Checkpoint != nil {
		return c.Checkpoint.Turn
	}
	return parentTurn
}

// Checkpoint returns c's checkpoint with the fields that a store fills in, or nil if c has none.
// seq is the thread's sequence number after c.
func Checkpoint(c *segno.Commit, seq int64) *segno.Checkpoint {
	if c.Checkpoint == nil {
		return nil
	}
	filled := *c.Checkpoint
	filled.ID, filled.Thread, filled.Parent, filled.Seq = c.ID, c.Thread, c.Parent, seq
	return &filled
}

// EndLink returns the state of head, the link of a thread's head session, after c. ends is true if
// c ends that link. A detached link joins the chain beside the head session and does not end it.
func EndLink(head segno.Link, c *segno.Commit) (ended segno.Link, ends bool) {
	if c.Link == nil || c.Link.Detached {
		return head, false
	}
	head.End = c.Link.Start
	return head, true
}
