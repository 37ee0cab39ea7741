package timeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// resolveThread finds the thread of a turn that began without one. If an interrupted end of this same
// turn began to make the thread, resolveThread leaves it unknown, so that this end completes it.
func (tx *txn) resolveThread(ctx context.Context, turn *OpenTurn) error {
	if turn.Thread != "" {
		return nil
	}
	thread, err := tx.threadOf(ctx, turn.Source.Session)
	if err != nil || thread == "" {
		return err
	}
	base, err := tx.checkpoint(ctx, baseID(thread))
	switch {
	case segno.KindOf(err) == segno.KindNotFound: // the thread is a fork
		turn.Thread, err = thread, nil
	case err == nil && (turn.Start.IsZero() || !base.Time.Equal(turn.Start)):
		turn.Thread = thread
	}
	return err
}

// resolveParent determines the thread and the parent of the turn.
func (tx *txn) resolveParent(ctx context.Context, w *turnEnd) (err error) {
	if w.turn.Thread == "" {
		// An interrupted end may have made the thread already. Making it again produces the same
		// commits.
		s, err := tx.startThread(ctx, w)
		w.head, w.parent = s.head, s.at
		return err
	}
	s, err := tx.threadState(ctx, w.turn.Thread)
	if err != nil {
		return err
	}
	w.head, w.parent = s.head, s.at
	at := w.turn.Parent
	if w.done != nil {
		at = w.done.Parent
	}
	if at != "" {
		if w.parent, err = tx.checkpoint(ctx, at); err != nil {
			return err
		}
	}
	if w.done != nil {
		return nil
	}
	if err := tx.followRewind(ctx, w); err != nil {
		return err
	}
	return tx.commitChangesBeforeTurn(ctx, w)
}

// followRewind changes the parent if the user returned to an older record in the agent before the
// prompt: the prompt then follows that record.
func (tx *txn) followRewind(ctx context.Context, w *turnEnd) error {
	p := w.parent.Session
	if w.got.Prompt == "" || p == nil || w.got.Follows == p.Leaf {
		return nil
	}
	if w.got.Follows == "" {
		return tx.followRewindToStart(ctx, w)
	}
	line, err := tx.line(ctx, w.parent.ID)
	if err != nil {
		return err
	}
	found, err := tx.turnAt(ctx, w.got.Follows, func(c *segno.Checkpoint) bool { return slices.ContainsFunc(line, hasID(c.ID)) })
	if found == nil && err == nil {
		found, err = tx.turnAt(ctx, w.got.Follows, func(c *segno.Checkpoint) bool { return c.Thread == w.head.Thread })
	}
	if found != nil {
		w.parent = found
	}
	return err
}

// followRewindToStart is followRewind for a prompt that is the first record of a conversation. The
// first prompt of a session that began with a preamble is one, too: it continues from the checkpoint
// that the preamble describes.
func (tx *txn) followRewindToStart(ctx context.Context, w *turnEnd) error {
	began, _, err := tx.linksOf(ctx, w.head, w.turn.Source.Session)
	if err != nil {
		return err
	}
	if began != nil && began.Fidelity == segno.FidelityPreamble && began.At != "" {
		if w.parent.Session.Session == w.turn.Source.Session {
			w.parent, err = tx.checkpoint(ctx, began.At)
		}
		return err
	}
	if at, err := tx.continuedFrom(ctx, began); err != nil || at != nil {
		w.parent = cmp.Or(at, w.parent)
		return err
	}
	line, err := tx.line(ctx, w.parent.ID)
	if err == nil {
		w.parent = line[len(line)-1]
	}
	return err
}

// continuedFrom returns the checkpoint of another agent for which a session was written, or nil. The
// first records of such a session are segno's, so a prompt that follows one of them does not follow a
// known turn.
func (tx *txn) continuedFrom(ctx context.Context, began *segno.Link) (*segno.Checkpoint, error) {
	if began == nil || began.Position == nil || began.At == "" {
		return nil, nil
	}
	at, err := tx.checkpoint(ctx, began.At)
	if err != nil || at.Session != nil && at.Session.Agent == began.Agent {
		return nil, err
	}
	return at, nil
}

// commitChangesBeforeTurn commits the changes that were made before the turn. They become an external
// checkpoint between the parent and the turn, if the workspace differed from the parent when the turn
// began.
func (tx *txn) commitChangesBeforeTurn(ctx context.Context, w *turnEnd) error {
	before := w.turn.Before
	if before == nil || w.parent.Workspace.Equals(before) {
		return nil
	}
	c, err := tx.externalCommit(ctx, threadState{w.head, w.parent}, *before, w.turn.Key)
	if err != nil {
		return err
	}
	c.Checkpoint.Time = w.startTime(tx.Now())
	c.Workspace = nil
	c.Move = nil
	c.Staged, w.staged = w.staged, segno.Staged{}
	s, err := tx.commitIdempotent(ctx, w.head, c)
	if err != nil {
		return err
	}
	w.head = s.head
	w.parent, err = tx.checkpoint(ctx, c.ID)
	return err
}

// startThread makes the thread of an unknown session: a fork if the transcript begins with
// the records of a known session, else a new thread with the earlier turns of the session.
func (tx *txn) startThread(ctx context.Context, w *turnEnd) (threadState, error) {
	agent, session, staged := w.turn.Agent, w.turn.Source.Session, w.staged
	id := threadOfSession(agent, session, w.name)
	isOther, err := tx.isOtherThread(ctx, id)
	if err != nil {
		return threadState{}, err
	}
	if !isOther {
		s, err := tx.startThreadAs(ctx, w, id)
		if segno.KindOf(err) != segno.KindNotFound {
			return s, err
		}
	}
	// Another thread has the id, or the user deleted the session's thread, and the store keeps its id. The id of the new
	// thread is derived from the turn's key, so that a repeated end finds that thread.
	w.staged = staged
	return tx.startThreadAs(ctx, w, threadOfSession(agent, session, cmp.Or(string(w.turn.Key), segno.NewID())))
}

// startThreadAs makes the thread of a session under an id. It returns KindNotFound if a thread
// with that id was deleted.
func (tx *txn) startThreadAs(ctx context.Context, w *turnEnd, id segno.ThreadID) (threadState, error) {
	var origin *segno.Checkpoint
	if w.got.Origin != nil {
		var err error
		// A checkpoint that an earlier attempt to record this end made is not an origin.
		origin, err = tx.turnAt(ctx, w.got.Origin.Leaf, func(c *segno.Checkpoint) bool { return c.Thread != id })
		if err != nil {
			return threadState{}, err
		}
	}
	c := tx.baseCommit(id, w.turn.Agent, w.turn.Prompt, w.turn.Before, w.startTime(tx.Now()))
	c.Link = tx.newLink(w.turn, "start", c.ID)
	c.Link.Start = c.Checkpoint.Time
	c.Checkpoint.Session = &segno.Position{Agent: w.turn.Agent, Session: w.turn.Source.Session,
		Dir: w.turn.Source.Dir, Path: w.turn.Source.Path}
	if origin != nil {
		c.Parent, c.Create.Parent = origin.ID, origin.ID
		c.Checkpoint.Session, c.Checkpoint.Turn = origin.Session, origin.Turn
		c.Link.Reason, c.Link.At = string(segno.VerbFork), origin.ID
	} else if len(w.got.Earlier) > 0 {
		// The files at the beginning of those turns are unknown.
		c.Checkpoint.Workspace, c.Workspace = nil, nil
	}
	c.Staged, w.staged = w.staged, segno.Staged{}
	s, err := tx.commitIdempotent(ctx, segno.Head{}, c)
	if err != nil || origin != nil || s.at.Workspace != nil {
		return s, err
	}
	return tx.recordEarlierTurns(ctx, w, s)
}

// newLink returns the link of a turn's session for the chain of a thread.
func (tx *txn) newLink(t OpenTurn, reason string, at segno.CommitID) *segno.Link {
	return &segno.Link{Agent: t.Agent, Session: t.Source.Session, Dir: t.Source.Dir, Path: t.Source.Path,
		Start: tx.Now(), Reason: reason, Fidelity: segno.FidelityNative, At: at}
}

// turnAt returns the newest turn that ends at a record of a transcript and for which may
// returns true. Other checkpoints with the same position count only if there is no such turn,
// because their files are from another moment.
func (tx *txn) turnAt(ctx context.Context, leaf string, may func(*segno.Checkpoint) bool) (*segno.Checkpoint, error) {
	var found *segno.Checkpoint
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Leaf: leaf}) {
		if err != nil {
			return nil, err
		}
		if may(&c) && (found == nil || (found.Kind != segno.CheckpointTurn && c.Kind == segno.CheckpointTurn)) {
			found = &c
		}
	}
	return found, nil
}

// threadOfSession returns the id of the thread that begins with a session. See [Adoption] for
// name.
func threadOfSession(agent string, session segno.SessionID, name string) segno.ThreadID {
	parts := []string{"thread", agent, string(session)}
	if name != "" {
		parts = append(parts, name)
	}
	return segno.ThreadID(segno.DerivedID(parts...))
}

// isOtherThread reports whether the store has a thread with the given id that did not begin with [txn.baseCommit]. 'segno unpack' makes
// such a thread from an archive: it keeps the id, its commits get others, and it does not have the archive's session.
func (tx *txn) isOtherThread(ctx context.Context, id segno.ThreadID) (bool, error) {
	if _, err := tx.Store.Head(ctx, id); segno.KindOf(err) == segno.KindNotFound {
		return false, nil
	} else if err != nil {
		return false, err
	}
	_, err := tx.checkpoint(ctx, baseID(id))
	if segno.KindOf(err) == segno.KindNotFound {
		return true, nil
	}
	return false, err
}

// baseID returns the id of the commit with which a thread begins.
func baseID(id segno.ThreadID) segno.CommitID {
	return segno.CommitID(segno.DerivedID("base", string(id)))
}

// baseCommit returns the commit with which a thread begins.
func (tx *txn) baseCommit(id segno.ThreadID, agent, title string, snap *segno.Snapshot, at time.Time) segno.Commit {
	first := baseID(id)
	c := segno.Commit{ID: first, Thread: id,
		Create:     &segno.Thread{ID: id, Created: at, Title: Title(title), Agent: agent, Workspace: tx.Workspace.ID()},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: at, Agent: agent, Workspace: snap}}
	if snap != nil {
		c.Workspace = tx.workspaceStateAfter(id, first, snap)
		c.Workspace.Time = at
	}
	return c
}

// recordEarlierTurns adds the earlier turns of a session that is older than its thread. These
// turns have only the session tier. It pins the files in the state that the first recorded turn
// found.
func (tx *txn) recordEarlierTurns(ctx context.Context, w *turnEnd, s threadState) (_ threadState, err error) {
	keys := turnKeys{w.turn.Key: true}
	for i, t := range w.got.Earlier {
		key := keys.choose(t, fmt.Sprintf("%s/%d", w.turn.Source.Session, i+1), false)
		head := s.head
		c := segno.Commit{ID: segno.CommitID(segno.DerivedID("turn", string(key), string(head.Thread))), Thread: head.Thread,
			Parent: head.Head, Expect: head.Head, Epoch: head.Epoch,
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: head.Turn + 1, Time: w.startTime(tx.Now()), Agent: w.turn.Agent,
				Prompt: t.Prompt, Key: key, Label: "before segno", Session: &t.Position}}
		for _, e := range dedupe(t.Entries) {
			e.Turn, e.Session, e.Time = c.Checkpoint.Turn, w.turn.Source.Session, c.Checkpoint.Time
			c.Entries = append(c.Entries, e)
		}
		if s, err = tx.commitIdempotent(ctx, head, c); err != nil {
			return s, err
		}
	}
	if w.turn.Before == nil {
		return s, nil
	}
	c, err := tx.externalCommit(ctx, s, *w.turn.Before, w.turn.Key)
	if err != nil {
		return s, err
	}
	c.Checkpoint.Time, c.Workspace.Time = w.startTime(tx.Now()), w.startTime(tx.Now())
	return tx.commitIdempotent(ctx, s.head, c)
}

// Title returns the first line of a prompt, shortened to a title.
func Title(prompt string) string {
	const most = 72
	line, _, _ := strings.Cut(strings.TrimSpace(prompt), "\n")
	if r := []rune(line); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return line
}
