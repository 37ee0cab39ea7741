package timeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// moveNote returns the note that an agent gets at a prompt if its thread moved after the newest
// turn of the session, or "". at is the thread's current checkpoint. A session whose turns were
// undone and redone gets no note.
//
// The note is made from the checkpoints when the user prompts the session, not when a move is
// made, because it depends on all moves in between and on the session.
func (tx *txn) moveNote(ctx context.Context, s threadState, session segno.SessionID) (string, error) {
	at := s.at
	seen, err := tx.lastSeenBy(ctx, s.head, session)
	if err != nil || seen == nil || seen.ID == at.ID {
		return "", err
	}
	isUsers := at.Kind == segno.CheckpointSave || at.Kind == segno.CheckpointExternal && at.Label == ""
	if isUsers && at.Parent == seen.ID {
		return "", nil // this checkpoint does not come from a move
	}
	old, err := tx.line(ctx, seen.ID)
	var now []*segno.Checkpoint
	if err == nil {
		now, err = tx.line(ctx, at.ID)
	}
	if segno.KindOf(err) == segno.KindNotFound {
		return "", nil // a commit is deferred; a later prompt gets the note
	}
	if err != nil {
		return "", err
	}
	return noteBetween(old, now), nil
}

// lastSeenBy returns the newest checkpoint that a session's conversation contains: the last
// turn in the session, or the checkpoint at which the session was cut. It is nil if there is
// none.
func (tx *txn) lastSeenBy(ctx context.Context, head segno.Head, session segno.SessionID) (*segno.Checkpoint, error) {
	turn, err := tx.newestTurn(ctx, head.Thread, session)
	if err != nil || turn != nil {
		return turn, err
	}
	_, l, err := tx.linksOf(ctx, head, session)
	if err != nil || l == nil || l.At == "" {
		return nil, err
	}
	c, err := tx.checkpoint(ctx, l.At)
	if segno.KindOf(err) == segno.KindNotFound {
		return nil, nil
	}
	return c, err
}

// noteBetween returns the note for a session that contains the line old and gets a prompt on
// the line now. Both are newest first.
func noteBetween(old, now []*segno.Checkpoint) string {
	gone, come := turnsBeside(old, now), turnsBeside(now, old)
	var what []string
	if len(gone) > 0 {
		what = append(what, "the user undid "+turnList(gone)+" with segno")
	}
	if len(come) > 0 {
		what = append(what, "the work went on with "+turnList(come)+", which this session has not seen")
	}
	if alone := undoneAloneBeside(now, old); len(alone) > 0 {
		what = append(what, "the user undid "+turnList(alone)+" alone with segno, and kept what came later")
	}
	if len(what) == 0 && restoredBeside(now, old) {
		what = append(what, "the user restored files with segno")
	}
	if len(what) == 0 {
		return ""
	}
	files := "This changed no files."
	if newestTree(old) != newestTree(now) {
		files = "The files were changed to match; re-read files before you rely on them."
	}
	return "Note from segno: after your last turn here " + strings.Join(what, ", and ") + ". " + files
}

// turnsBeside returns the turns of a line that another line does not have, newest first. An
// amended turn counts as the same turn.
func turnsBeside(line, other []*segno.Checkpoint) (turns []*segno.Checkpoint) {
	has := func(list []*segno.Checkpoint, turn *segno.Checkpoint) bool {
		return slices.ContainsFunc(list, func(c *segno.Checkpoint) bool {
			return endsTurn(c) && c.Thread == turn.Thread && c.Turn == turn.Turn
		})
	}
	for _, c := range line {
		if endsTurn(c) && !has(other, c) && !has(turns, c) {
			turns = append(turns, c)
		}
	}
	return turns
}

// restoredBeside reports whether a line has a restore that is newer than its common ancestors
// with another line.
func restoredBeside(line, other []*segno.Checkpoint) bool {
	for _, c := range line {
		if slices.ContainsFunc(other, hasID(c.ID)) {
			return false
		}
		if c.Kind == segno.CheckpointRestore {
			return true
		}
	}
	return false
}

// undoneAloneBeside returns the turns of a line that were undone alone, newest undo first, by the checkpoints that are newer than
// its common ancestors with another line.
func undoneAloneBeside(line, other []*segno.Checkpoint) (turns []*segno.Checkpoint) {
	for _, c := range line {
		if slices.ContainsFunc(other, hasID(c.ID)) {
			break
		}
		args, isUndo := strings.CutPrefix(c.Label, string(segno.VerbUndo)+" ")
		args = strings.TrimSuffix(args, forced)
		if c.Kind != segno.CheckpointRestore || !isUndo || !strings.HasSuffix(args, onlyFlag) {
			continue // it restored some paths or parts
		}
		for _, t := range line {
			if endsTurn(t) && slices.Contains(OnlyTurns(args), t.Turn) && !slices.Contains(turns, t) {
				turns = append(turns, t)
			}
		}
	}
	return turns
}

// turnList lists turns by number and prompt.
func turnList(turns []*segno.Checkpoint) string {
	const most = 3
	var names []string
	for _, c := range turns[:min(len(turns), most)] {
		names = append(names, fmt.Sprintf("turn %d (“%s”)", c.Turn, Title(c.Prompt)))
	}
	if more := len(turns) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return names[0]
}

// recordMove commits the state in which recorded work left the workspace, if the thread does
// not have that state: its own files before the user returned to an older session, or the work
// of another thread. The changes that remain are then the user's.
func (tx *txn) recordMove(ctx context.Context, s threadState, was *segno.Checkpoint, snap segno.Snapshot, salt segno.TurnKey) (threadState, error) {
	c, err := tx.movedCommit(ctx, s, was, snap, salt)
	if err != nil || c == nil {
		return s, err
	}
	return tx.commitOrDefer(ctx, s.head, *c)
}

// saveMoved is recordMove for an operation that cannot be deferred.
func (tx *txn) saveMoved(ctx context.Context, s threadState, snap segno.Snapshot, salt segno.TurnKey) (threadState, error) {
	if s.at.Workspace.Equals(&snap) {
		return s, nil
	}
	c, err := tx.movedCommit(ctx, s, s.at, snap, salt)
	if err != nil || c == nil {
		return s, err
	}
	c.Parent = s.head.Head // the head may be a commit without a checkpoint
	head, err := tx.commitRetryingCAS(ctx, *c)
	if err != nil {
		return s, fmt.Errorf("save the current state: %w", err)
	}
	return threadState{head, checkpointOf(c)}, nil
}

// movedCommit returns the commit of recordMove, or nil if there is nothing to record. was is
// the checkpoint of the thread before the session was switched.
func (tx *txn) movedCommit(ctx context.Context, s threadState, was *segno.Checkpoint, snap segno.Snapshot, salt segno.TurnKey) (*segno.Commit, error) {
	head, at := s.head, s.at
	known, err := tx.workspaceState(ctx)
	if err != nil || known.Snapshot == nil || at.Tree().IsZero() || known.Snapshot.Equals(at.Workspace) {
		return nil, err
	}
	if known.Thread == head.Thread && was.ID == at.ID {
		return nil, nil // a turn of this thread ended again later
	}
	left := *known.Snapshot
	left.Git = snap.Git // HEAD may have moved since
	c, err := tx.externalCommit(ctx, s, left, salt)
	if err != nil {
		return nil, err
	}
	c.Checkpoint.Label = "changed in another thread"
	if known.Thread == head.Thread {
		c.Checkpoint.Kind, c.Checkpoint.Label = segno.CheckpointRestore, fmt.Sprintf("files as of t%d", was.Turn)
	}
	return &c, nil
}
