package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
)

const opKeep = "keep session"

// sessionsLock is the name of the lock that operations hold while they keep or move sessions without a workspace.
const sessionsLock = "sessions"

// KeepRequest names a session to keep.
type KeepRequest struct {
	Agent  string
	Source segno.Source
	// Workspace is the workspace that has the session's directory, or "" if none is known.
	Workspace segno.WorkspaceID
}

// Kept counts what [Timeline.KeepSession] added to the store. Both counts are 0 if the store had it all.
type Kept struct {
	Thread segno.ThreadID
	Turns  int             // new turns
	Bytes  int64           // new bytes of the transcript
	IsOpen bool            // a turn is open; its end keeps the session
	Damage []segno.Damage  // lines and sidecars that could not be kept
	At     *segno.Position // where the kept session ends
	Stored int64           // the end offset of the newest checkpoint that the call made, or 0 if it made none
}

// KeepSession stores the bytes of a session that segno has not recorded yet, and its turns as
// checkpoints without files. If the session has no thread, KeepSession creates one, as an adoption
// does. A later call costs only as much as the new bytes. The result is durable on return. The error
// is [segno.KindNotFound] if the session has no conversation. KeepSession does not use a workspace,
// so the timeline may have been opened without one.
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

// keeping collects what KeepSession finds out about a session before it writes anything.
type keeping struct {
	KeepRequest
	isNew  bool           // no thread in the store has the session
	known  segno.ThreadID // the thread that has the session, or "" if findKept must find it
	thread segno.ThreadID
	prev   *segno.Position   // where the session was kept until now, or nil
	last   *segno.Checkpoint // the checkpoint with prev, or nil
	origin *segno.Checkpoint // if the session is a fork: the checkpoint at which it begins
	// inherited are the checkpoints before the first one of a fork's thread, newest first, if hasInherited is set.
	inherited    []*segno.Checkpoint
	hasInherited bool
	got          segno.Captured
	asked        []string // the records about which the capture asked whether a checkpoint ends at them
	// commits store the new turns of the session, oldest first.
	commits []segno.Commit
	out     Kept
	err     error // why the session could not be kept
}

func (tx *txn) keep(ctx context.Context, r KeepRequest) (Kept, error) {
	done, err := tx.keepGroup(ctx, []KeepRequest{r})
	if err != nil {
		return Kept{}, err
	}
	return done[0].out, done[0].err
}

// findKept finds the thread of the session and the position up to which the session is kept.
func (tx *txn) findKept(ctx context.Context, k *keeping) (err error) {
	waiting, err := tx.Spool.ListDeferred(ctx)
	if err != nil {
		return err
	}
	if err := tx.findKeptThread(ctx, k, waiting); err != nil {
		return err
	}
	k.out.Thread = k.thread
	if k.thread == "" {
		return nil
	}
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Thread: k.thread, Session: k.Source.Session}) {
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

// findKeptThread finds the thread of the session. waiting are the deferred commits.
func (tx *txn) findKeptThread(ctx context.Context, k *keeping, waiting []segno.Commit) (err error) {
	session := k.Source.Session
	if k.known != "" && len(waiting) == 0 {
		if _, err := tx.Store.Head(ctx, k.known); err == nil { // otherwise the user has deleted it since
			k.thread = k.known
		}
	}
	if k.thread == "" && !(k.isNew && len(waiting) == 0) {
		if k.thread, err = tx.threadOfAgent(ctx, k.Agent, session); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(waiting, func(c segno.Commit) bool {
		return c.Thread == k.thread && k.thread != "" || c.Link != nil && c.Link.Session == session
	}) {
		return segno.Errorf(segno.KindBusy, opKeep, string(session), "a turn of it waits for the store").
			WithHint("run 'segno save' in its directory, then try again")
	}
	return nil
}

// captureKept captures the new bytes of the session. If the session is a fork of a known session, its
// log derives from the log of the known session.
func (tx *txn) captureKept(ctx context.Context, k *keeping, g *keepGroup) error {
	in := &forkBatch{Batch: g.batch, stop: k.thread == ""}
	known := func(leaf string) bool {
		k.asked = append(k.asked, leaf)
		if g.hasLeaf(leaf) {
			in.err = errForkInGroup
			return true
		}
		isKnown := g.known.isKnown(ctx, tx, leaf)
		if isKnown && in.stop {
			in.err = cmp.Or(in.err, errFork)
		}
		return isKnown
	}
	err := tx.captureInto(ctx, k, in, known)
	if err == nil {
		err = in.err
	}
	if errors.Is(err, errFork) {
		if origin := k.got.Origin; origin != nil {
			if k.origin, err = tx.turnAt(ctx, origin.Leaf, func(c *segno.Checkpoint) bool { return c.Session.Log != (segno.Hash{}) }); err != nil {
				return err
			}
		}
		in.err, in.stop = nil, false
		err = tx.captureInto(ctx, k, in, known)
	}
	return err
}

// forkBatch refuses to store objects once the session turns out to be a fork, because the objects of a
// fork depend on those of the other session.
type forkBatch struct {
	segno.Batch
	stop bool  // the session may be a fork
	err  error // not nil once the session is known to be a fork
}

var (
	errFork        = errors.New("the session is a fork of a known one")
	errForkInGroup = errors.New("the session is a fork of one that is not committed yet")
)

func (b *forkBatch) Put(ctx context.Context, data []byte) (segno.Hash, error) {
	if b.err != nil {
		return segno.Hash{}, b.err
	}
	return b.Batch.Put(ctx, data)
}

func (tx *txn) captureInto(ctx context.Context, k *keeping, batch segno.Batch, known func(string) bool) (err error) {
	t := tx.Transcripts[k.Agent]
	if t == nil {
		return segno.Errorf(segno.KindNotFound, opKeep, k.Agent, "no transcripts of that agent can be read here")
	}
	if all, ok := t.(transcript.TurnCapturer); ok {
		var of *segno.Position
		if k.origin != nil {
			of = k.origin.Session
		}
		k.got, err = all.CaptureTurns(ctx, k.Source, k.prev, of, tx.Store.Objects(), batch, known)
	} else {
		k.got, err = t.Capture(ctx, k.Source, k.prev, batch, known)
	}
	k.out.Damage, k.out.At = k.got.Damage, &k.got.Position
	if err == nil && k.got.Position.Leaf == "" {
		err = segno.Errorf(segno.KindNotFound, opKeep, string(k.Source.Session), "it has no conversation")
	}
	return err
}

// isUnchanged reports whether the store already has the whole conversation and the session's other files. Files that the agent has
// deleted since do not count. The agent also writes
// lines that are not part of the conversation, such as titles. segno keeps these lines with the next
// turn. But if they may contain the record of the end of the newest turn, the session counts as changed.
func (k *keeping) isUnchanged(mayLackEnd bool) bool {
	if k.prev == nil || k.got.Position.Leaf != k.prev.Leaf || k.got.Prompt != "" || len(k.got.Earlier) > 0 {
		return false
	}
	if k.got.HasNewSidecars { // a subagent may continue after the newest turn
		return false
	}
	return k.got.Position.Offset == k.prev.Offset || k.got.Position.Offset > k.prev.Offset && !mayLackEnd
}

// turns are the new turns of the session, oldest first.
func (k *keeping) turns() []segno.TranscriptTurn {
	out := slices.Clone(k.got.Earlier)
	if k.got.Prompt != "" {
		out = append(out, segno.TranscriptTurn{Key: k.got.Key, Prompt: k.got.Text, Position: k.got.Position})
	}
	return out
}

// planKept sets the commits of the new turns. Each commit is idempotent: if the process ends between two
// of them, the next call makes the rest. thread is the id for a new thread.
func (tx *txn) planKept(ctx context.Context, k *keeping, thread segno.ThreadID) (err error) {
	_, mayLackEnd := tx.Transcripts[k.Agent].(transcript.TurnEndCapturer)
	if k.commits = nil; k.isUnchanged(mayLackEnd) {
		return nil
	}
	k.out.Bytes = max(0, k.got.Position.Offset-offsetOf(k.prev))
	var s threadState
	if k.thread == "" {
		base := tx.keptBase(k, thread)
		k.commits = append(k.commits, base)
		s = threadState{headAfter(&base, segno.Head{}), checkpointOf(&base)}
	} else if s, err = tx.threadState(ctx, k.thread); err != nil {
		return err
	}
	k.out.Thread = s.head.Thread
	turns := k.turns()
	if len(turns) == 0 && k.last != nil {
		return tx.planContinuation(ctx, k, s)
	}
	parent, err := tx.keptParent(ctx, k, s)
	if err != nil {
		return err
	}
	head, before, keys, after := s.head, len(k.commits), turnKeys{}, int64(0)
	if at := offsetOf(k.prev); len(turns) > 0 && at < turns[0].Position.Offset {
		after = at
	}
	for _, t := range turns {
		isTaken := false
		if k.thread != "" { // an interrupted call may have recorded the turn
			var recorded *segno.Checkpoint
			if recorded, isTaken, err = tx.recordedTurn(ctx, head.Thread, t, after); err != nil {
				return err
			}
			if recorded == nil && !isTaken {
				if recorded, err = tx.inheritedTurn(ctx, k, t.Position.Leaf); err != nil {
					return err
				}
			}
			if after = t.Position.Offset; recorded != nil {
				parent = recorded
				continue
			}
		}
		// The hook at the end of the turn, and an adoption of the session, would make the same commit.
		key := keys.choose(t, fmt.Sprintf("%s/%d", k.Source.Session, head.Turn+1), isTaken)
		c := tx.keptTurn(k, t, key, head, parent)
		k.commits, head, parent = append(k.commits, c), headAfter(&c, head), checkpointOf(&c)
	}
	if k.out.Turns = len(k.commits) - before; k.out.Turns == 0 && k.thread != "" {
		k.out.Bytes = 0 // the session was written again, and the store has all its turns
	}
	return nil
}

// inheritedTurn returns the turn that ends at a record and that the thread of a fork has from its source, or nil. A session of Codex that segno wrote
// back has these turns in its own rollout.
func (tx *txn) inheritedTurn(ctx context.Context, k *keeping, leaf string) (*segno.Checkpoint, error) {
	if !k.hasInherited {
		t, ok, err := segno.FindThread(ctx, tx.Store, k.thread)
		if err == nil && ok && t.Parent != "" {
			k.inherited, err = tx.line(ctx, t.Parent)
		}
		if err != nil && segno.KindOf(err) != segno.KindNotFound {
			return nil, err
		}
		k.hasInherited = true
	}
	if len(k.inherited) == 0 {
		return nil, nil
	}
	return tx.turnAt(ctx, leaf, func(c *segno.Checkpoint) bool { return slices.ContainsFunc(k.inherited, hasID(c.ID)) })
}

// keptBase returns the base of a new thread. The base of a fork has the position at which it begins, or the fork's if it has no new turns.
func (tx *txn) keptBase(k *keeping, id segno.ThreadID) segno.Commit {
	turns := k.turns()
	at := segno.Position{Agent: k.Agent, Session: k.Source.Session, Dir: k.got.Position.Dir, Path: k.Source.Path}
	if len(turns) == 0 {
		at = k.got.Position
	}
	title := ""
	if len(turns) > 0 {
		title = turns[0].Prompt
	}
	c := segno.Commit{ID: baseID(id), Thread: id,
		Create:     &segno.Thread{ID: id, Created: tx.Now(), Title: Title(title), Agent: k.Agent, Workspace: k.Workspace},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: tx.Now(), Agent: k.Agent, Session: &at},
		Link: &segno.Link{Agent: k.Agent, Session: k.Source.Session, Dir: k.got.Position.Dir, Path: k.Source.Path,
			Start: tx.Now(), Reason: "keep", Fidelity: segno.FidelityNative}}
	if k.origin != nil {
		c.Parent, c.Create.Parent, c.Link.At = k.origin.ID, k.origin.ID, k.origin.ID
		c.Checkpoint.Turn, c.Link.Reason = k.origin.Turn, string(segno.VerbFork)
		if len(turns) > 0 { // as in the thread of a fork that a hook records: an undo of its first turn leads here
			c.Checkpoint.Session = k.origin.Session
		}
	}
	return c
}

// keptParent returns the checkpoint that the first new turn follows. It is the checkpoint at the record
// before the prompt of that turn. If the user went back in the agent, it is not the newest one.
func (tx *txn) keptParent(ctx context.Context, k *keeping, s threadState) (*segno.Checkpoint, error) {
	if k.last == nil {
		return tx.keptBeginning(ctx, k, s)
	}
	if k.got.Follows == "" || k.got.Follows == k.prev.Leaf {
		return k.last, nil
	}
	found, err := tx.turnIn(ctx, s.head.Thread, k.got.Follows)
	return cmp.Or(found, k.last), err
}

// keptBeginning returns the checkpoint that the first turn of a session follows. A session that was written at an older
// checkpoint continues from there, and not from where the thread is.
func (tx *txn) keptBeginning(ctx context.Context, k *keeping, s threadState) (*segno.Checkpoint, error) {
	if k.thread == "" || s.at.Kind == segno.CheckpointBase {
		return s.at, nil // the thread begins with the session
	}
	_, l, err := tx.linksOf(ctx, s.head, k.Source.Session)
	if err != nil || l == nil || l.At == "" {
		return s.at, err
	}
	at, err := tx.checkpoint(ctx, l.At)
	switch {
	case segno.KindOf(err) == segno.KindNotFound:
		return s.at, nil // a collection removed it
	case err != nil:
		return nil, err
	case at.Session == nil || s.at.Session != nil && s.at.Session.Leaf == at.Session.Leaf:
		return s.at, nil // only files have changed since
	}
	return at, nil
}

// turnIn returns the turn of a thread that ends at a record of a transcript, or nil.
func (tx *txn) turnIn(ctx context.Context, thread segno.ThreadID, leaf string) (*segno.Checkpoint, error) {
	return tx.turnAt(ctx, leaf, func(c *segno.Checkpoint) bool { return c.Thread == thread })
}

// keptTurn returns the commit of a turn. The commit moves the thread's head only if the head is at the turn's
// parent, because the user may have moved it elsewhere.
func (tx *txn) keptTurn(k *keeping, t segno.TranscriptTurn, key segno.TurnKey, head segno.Head, parent *segno.Checkpoint) segno.Commit {
	c := segno.Commit{ID: segno.CommitID(segno.DerivedID("turn", string(key), string(head.Thread))), Thread: head.Thread,
		Parent: parent.ID, Expect: head.Head, Epoch: head.Epoch,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: head.Turn + 1, Time: tx.Now(), Agent: k.Agent,
			Prompt: t.Prompt, Key: key, Label: "kept", Session: &t.Position}}
	if head.Head != parent.ID {
		c.Move = &segno.Move{Head: head.Head, Tip: head.Tip}
	}
	return c
}

// planContinuation sets the commit which records that the newest kept turn has continued since. It amends the turn's checkpoint
// only at the head and the tip of the thread. Any other checkpoint may have children, or a redo, a name, an operation or an open
// turn refers to it, and its id must stay: there, a checkpoint that follows it has the new end of the session.
func (tx *txn) planContinuation(ctx context.Context, k *keeping, s threadState) error {
	isEnd := s.head.Head == k.last.ID && s.head.Tip == k.last.ID
	canAmend := isEnd && k.last.Kind != segno.CheckpointSave && k.last.Kind != segno.CheckpointRestore
	if canAmend {
		if err := tx.loadTurns(ctx); err != nil {
			return err
		}
		isFixed, err := tx.isFixed(ctx, []*segno.Checkpoint{k.last})
		if err != nil {
			return err
		}
		canAmend = !isFixed
	}
	c, err := tx.withPosition(ctx, k.last, s.head, &k.got.Position)
	if err != nil {
		return err
	}
	if !canAmend {
		last := k.last
		c.Parent, c.Entries = last.ID, nil
		c.Checkpoint = &segno.Checkpoint{Kind: segno.CheckpointExternal, Turn: last.Turn, Time: tx.Now(), Agent: last.Agent,
			Label: "end of its session kept", Session: &k.got.Position, Workspace: last.Workspace, Step: last.Step, Members: last.Members}
	}
	if !isEnd {
		c.Move = &segno.Move{Head: s.head.Head, Tip: s.head.Tip}
	}
	k.commits = append(k.commits, c)
	return nil
}
