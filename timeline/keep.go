package timeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
)

const opKeep = "keep session"

// sessionsLock is the name of the lock under which sessions are kept and moved without a workspace.
const sessionsLock = "sessions"

// KeepRequest names a session to keep.
type KeepRequest struct {
	Agent  string
	Source segno.Source
	// Workspace is the workspace that has the session's directory, or "" if none is known.
	Workspace segno.WorkspaceID
}

// Kept is the result of [Timeline.KeepSession].
type Kept struct {
	Thread segno.ThreadID
	Turns  int             // new turns
	Bytes  int64           // new bytes of the transcript
	IsOpen bool            // a turn is open; its end keeps the session
	Damage []segno.Damage  // lines and sidecars that could not be kept
	At     *segno.Position // where the kept session ends
}

// KeepSession stores the bytes of a session that segno has not recorded yet, and its turns as
// checkpoints without files. A session without a thread gets one, as if it had been adopted. The
// cost of a later call is that of the new bytes. It is durable on return. The error is
// [segno.KindNotFound] if the session has no conversation. KeepSession uses no workspace: the
// timeline may have been opened without one.
func (tl *Timeline) KeepSession(ctx context.Context, r KeepRequest) (Kept, error) {
	tx, err := tl.lockSessions(ctx)
	if err != nil {
		return Kept{}, err
	}
	defer tx.unlock()
	return tx.keep(ctx, r)
}

// lockSessions starts an operation on sessions that needs no workspace.
func (tl *Timeline) lockSessions(ctx context.Context) (*txn, error) {
	unlock, err := tl.Spool.Lock(ctx, sessionsLock)
	if err != nil {
		return nil, err
	}
	tx := tl.unlocked()
	tx.unlock = unlock
	return tx, nil
}

// keeping is the state of one KeepSession.
type keeping struct {
	KeepRequest
	thread segno.ThreadID
	prev   *segno.Position   // where the session was kept until now, or nil
	last   *segno.Checkpoint // the checkpoint with prev, or nil
	origin *segno.Checkpoint // of a fork: the checkpoint it begins at
	got    segno.Captured
	staged segno.Staged
	out    Kept
}

func (tx *txn) keep(ctx context.Context, r KeepRequest) (Kept, error) {
	k := &keeping{KeepRequest: r}
	err := tx.findKept(ctx, k)
	if err == nil {
		err = tx.captureKept(ctx, k)
	}
	if err != nil {
		return k.out, err
	}
	// A hook opens a turn before the agent writes the prompt. If the capture has the prompt, the
	// turn is in the spool by now.
	if err := tx.loadTurns(ctx); err != nil {
		return k.out, err
	}
	if slices.ContainsFunc(tx.turns, func(t OpenTurn) bool { return t.Source.Session == r.Source.Session && t.Ended == "" }) {
		return Kept{Thread: k.thread, IsOpen: true}, nil
	}
	return k.out, tx.commitKept(ctx, k)
}

// findKept finds the thread of the session, and what is kept of it.
func (tx *txn) findKept(ctx context.Context, k *keeping) (err error) {
	waiting, err := tx.Spool.ListDeferred(ctx)
	if err != nil {
		return err
	}
	session := k.Source.Session
	if k.thread, err = tx.threadOf(ctx, session); err != nil {
		return err
	}
	if slices.ContainsFunc(waiting, func(c segno.Commit) bool {
		return c.Thread == k.thread && k.thread != "" || c.Link != nil && c.Link.Session == session
	}) {
		return segno.Errorf(segno.KindBusy, opKeep, string(session), "a turn of it waits for the store").
			WithHint("run 'segno save' in its directory, then try again")
	}
	k.out.Thread = k.thread
	if k.thread == "" {
		return nil
	}
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Thread: k.thread, Session: session}) {
		if err != nil {
			return err
		}
		if c.Session.Leaf != "" && (k.last == nil || c.Session.Offset > k.last.Session.Offset) {
			k.last, k.prev = &c, c.Session
		}
	}
	if k.prev == nil {
		k.prev, err = tx.previousPosition(ctx, OpenTurn{Thread: k.thread, Source: k.Source})
	}
	return err
}

// captureKept captures the new bytes of the session. The session may be a fork of a known one. Its
// log then derives from that of the known one, for which the session is read a second time.
func (tx *txn) captureKept(ctx context.Context, k *keeping) error {
	for {
		batch := tx.Store.Objects().Batch()
		err := tx.captureInto(ctx, k, batch)
		if err == nil && k.thread == "" && k.origin == nil && k.got.Origin != nil {
			if k.origin, err = tx.turnAt(ctx, k.got.Origin.Leaf, func(c *segno.Checkpoint) bool { return c.Session.Log != (segno.Hash{}) }); k.origin != nil && err == nil {
				batch.Close()
				continue
			}
		}
		if err == nil && !k.isUnchanged() {
			k.staged, err = batch.Stage(ctx)
		}
		if closeErr := batch.Close(); err == nil {
			err = closeErr
		}
		return err
	}
}

func (tx *txn) captureInto(ctx context.Context, k *keeping, batch segno.Batch) (err error) {
	t := tx.Transcripts[k.Agent]
	if t == nil {
		return segno.Errorf(segno.KindNotFound, opKeep, k.Agent, "no transcripts of that agent can be read here")
	}
	if all, ok := t.(transcript.TurnCapturer); ok {
		var of *segno.Position
		if k.origin != nil {
			of = k.origin.Session
		}
		k.got, err = all.CaptureTurns(ctx, k.Source, k.prev, of, tx.Store.Objects(), batch, tx.isKnownLeaf(ctx))
	} else {
		k.got, err = t.Capture(ctx, k.Source, k.prev, batch, tx.isKnownLeaf(ctx))
	}
	k.out.Damage, k.out.At = k.got.Damage, &k.got.Position
	if err == nil && k.got.Position.Leaf == "" {
		err = segno.Errorf(segno.KindNotFound, opKeep, string(k.Source.Session), "it has no conversation")
	}
	return err
}

// isUnchanged reports whether the whole conversation is kept already. The agent also writes lines
// that are no part of it, such as titles. They are kept with the next turn.
func (k *keeping) isUnchanged() bool {
	return k.prev != nil && k.got.Position.Leaf == k.prev.Leaf && k.got.Prompt == "" && len(k.got.Earlier) == 0 && k.got.Position.Offset >= k.prev.Offset
}

// turns are the new turns of the session, oldest first.
func (k *keeping) turns() []segno.TranscriptTurn {
	out := slices.Clone(k.got.Earlier)
	if k.got.Prompt != "" {
		out = append(out, segno.TranscriptTurn{Key: k.got.Key, Prompt: k.got.Text, Position: k.got.Position})
	}
	return out
}

// commitKept commits the new turns. Each commit can be repeated: if the process ends between two of
// them, the next call makes the rest.
func (tx *txn) commitKept(ctx context.Context, k *keeping) error {
	if k.isUnchanged() {
		return nil
	}
	k.out.Bytes = max(0, k.got.Position.Offset-offsetOf(k.prev))
	s, err := tx.keptThread(ctx, k)
	if err != nil {
		return err
	}
	k.out.Thread = s.head.Thread
	if err := tx.keepStaged(ctx, k.staged); err != nil {
		return fmt.Errorf("store session: %w", err)
	}
	turns := k.turns()
	if len(turns) == 0 && k.last != nil {
		return tx.amendKept(ctx, k, s)
	}
	parent, err := tx.keptParent(ctx, k, s)
	if err != nil {
		return err
	}
	var commits []segno.Commit
	head := s.head
	for _, t := range turns {
		recorded, err := tx.turnIn(ctx, head.Thread, t.Position.Leaf)
		if err != nil {
			return err
		}
		if recorded != nil {
			parent = recorded
			continue
		}
		c := tx.keptTurn(k, t, head, parent)
		commits, head, parent = append(commits, c), headAfter(&c, head), checkpointOf(&c)
	}
	k.out.Turns = len(commits)
	for batch := range slices.Chunk(commits, maxTogether) {
		if err := tx.commitTogether(ctx, batch); err != nil {
			return fmt.Errorf("record turns: %w", err)
		}
	}
	return nil
}

// maxTogether is how many turns are committed at once. Hooks wait for the store meanwhile.
const maxTogether = 64

// commitTogether makes commits durable at once if the store can and no other writer moved the head,
// else one after the other.
func (tx *txn) commitTogether(ctx context.Context, commits []segno.Commit) error {
	if many, ok := tx.Store.(manyCommitter); ok && len(commits) > 1 {
		_, err := many.CommitAll(ctx, commits)
		switch segno.KindOf(err) {
		case segno.KindConflict, segno.KindFenced:
		default:
			return err
		}
	}
	for _, c := range commits {
		if _, err := tx.commitRetryingCAS(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// keptThread returns the thread of the session, and makes it if there is none.
func (tx *txn) keptThread(ctx context.Context, k *keeping) (threadState, error) {
	if k.thread != "" {
		return tx.threadState(ctx, k.thread)
	}
	s, err := tx.createKept(ctx, k, threadOfSession(k.Agent, k.Source.Session, ""))
	if segno.KindOf(err) == segno.KindNotFound { // the user deleted that thread, and the store keeps its id
		s, err = tx.createKept(ctx, k, threadOfSession(k.Agent, k.Source.Session, segno.NewID()))
	}
	return s, err
}

// createKept commits the base of a new thread. A fork without a turn of its own has its position there.
func (tx *txn) createKept(ctx context.Context, k *keeping, id segno.ThreadID) (threadState, error) {
	turns := k.turns()
	at := segno.Position{Agent: k.Agent, Session: k.Source.Session, Dir: k.got.Position.Dir, Path: k.Source.Path}
	if len(turns) == 0 {
		at = k.got.Position
	}
	title := ""
	if len(turns) > 0 {
		title = turns[0].Prompt
	}
	c := segno.Commit{ID: baseID(id), Thread: id, Staged: k.staged,
		Create:     &segno.Thread{ID: id, Created: tx.Now(), Title: Title(title), Agent: k.Agent, Workspace: k.Workspace},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: tx.Now(), Agent: k.Agent, Session: &at},
		Link: &segno.Link{Agent: k.Agent, Session: k.Source.Session, Dir: k.got.Position.Dir, Path: k.Source.Path,
			Start: tx.Now(), Reason: "keep", Fidelity: segno.FidelityNative}}
	if k.origin != nil {
		c.Parent, c.Create.Parent, c.Link.At = k.origin.ID, k.origin.ID, k.origin.ID
		c.Checkpoint.Turn, c.Link.Reason = k.origin.Turn, string(segno.VerbFork)
	}
	k.staged = segno.Staged{}
	_, err := tx.commitRetryingCAS(ctx, c)
	if err != nil {
		return threadState{}, fmt.Errorf("start thread: %w", err)
	}
	return tx.threadState(ctx, id)
}

// keptParent returns the checkpoint that the first new turn follows: the one at the record before
// its prompt, which is an older one if the user went back in the agent.
func (tx *txn) keptParent(ctx context.Context, k *keeping, s threadState) (*segno.Checkpoint, error) {
	if k.last == nil {
		return s.at, nil
	}
	if k.got.Follows == "" || k.got.Follows == k.prev.Leaf {
		return k.last, nil
	}
	found, err := tx.turnIn(ctx, s.head.Thread, k.got.Follows)
	return cmp.Or(found, k.last), err
}

// turnIn returns the turn of a thread that ends at a record of a transcript, or nil.
func (tx *txn) turnIn(ctx context.Context, thread segno.ThreadID, leaf string) (*segno.Checkpoint, error) {
	return tx.turnAt(ctx, leaf, func(c *segno.Checkpoint) bool { return c.Thread == thread })
}

// keptTurn returns the commit of a turn. The thread's head moves only if it is at the turn's parent: a
// user may have moved it elsewhere.
func (tx *txn) keptTurn(k *keeping, t segno.TranscriptTurn, head segno.Head, parent *segno.Checkpoint) segno.Commit {
	// The end of the turn, and an adoption of the session, would make the same commit.
	key := cmp.Or(t.Key, segno.TurnKey(fmt.Sprintf("%s/%d", k.Source.Session, head.Turn+1)))
	c := segno.Commit{ID: segno.CommitID(segno.DerivedID("turn", string(key), string(head.Thread))), Thread: head.Thread,
		Parent: parent.ID, Expect: head.Head, Epoch: head.Epoch,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: head.Turn + 1, Time: tx.Now(), Agent: k.Agent,
			Prompt: t.Prompt, Key: key, Label: "kept", Session: &t.Position}}
	if head.Head != parent.ID {
		c.Move = &segno.Move{Head: head.Head, Tip: head.Tip}
	}
	return c
}

// amendKept records that the newest kept turn has gone on since.
func (tx *txn) amendKept(ctx context.Context, k *keeping, s threadState) error {
	cp := *k.last
	cp.Amends, cp.Session, cp.ID = k.last.ID, &k.got.Position, ""
	entries, err := tx.commitEntries(ctx, k.last.ID)
	if err != nil {
		return err
	}
	c := segno.Commit{ID: segno.CommitID(segno.DerivedID("amend", string(k.last.ID), k.got.Position.Leaf)), Thread: s.head.Thread,
		Parent: k.last.Parent, Expect: s.head.Head, Epoch: s.head.Epoch, Entries: entries, Checkpoint: &cp}
	if s.head.Head != k.last.ID {
		c.Move = &segno.Move{Head: s.head.Head, Tip: s.head.Tip}
	}
	if _, err = tx.commitRetryingCAS(ctx, c); err != nil {
		return fmt.Errorf("amend turn: %w", err)
	}
	return nil
}

// manyCommitter is the ability of a [segno.Store] to make several commits durable at once, at
// the cost of one.
type manyCommitter interface {
	// CommitAll applies commits in order, all or none, as Commit does each of them. It returns
	// the head after the last one. Other writers wait meanwhile, so a caller passes no more than
	// a hundred.
	CommitAll(ctx context.Context, commits []segno.Commit) (segno.Head, error)
}
