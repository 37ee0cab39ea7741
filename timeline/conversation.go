package timeline

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
)

// moveSession prepares the session that continues the conversation: a session that already ends
// there, or a new one that is cut there. It does not move the thread. A failure leaves an unused
// session beside the agent's own.
func (tx *txn) moveSession(ctx context.Context, now currentState, moved *MoveResult) error {
	p := moved.Plan
	if p.Session == nil || p.Session.Agent == "" {
		return nil
	}
	target, err := tx.checkpoint(ctx, p.Target)
	if err != nil {
		return err
	}
	at, err := tx.positionFor(ctx, now.head, p.Session)
	if err != nil {
		return err
	}
	dir, err := tx.dirBelow(ctx, at.Dir, target, tx.Workspace.Root(), p.Steps)
	if err != nil {
		return err
	}
	link, err := tx.sessionAt(ctx, *at, now.head, dir, string(p.Verb))
	var none noSession
	if errors.As(err, &none) {
		moved.Chat = none.at(target)
		return nil
	}
	if err != nil {
		return segno.Errorf(segno.KindOf(err), string(p.Verb), "", "cut the conversation: %w", err).
			WithHint("use 'segno restore --files' to move the files alone")
	}
	link.At = p.Target
	moved.Run, moved.Link = tx.resumeCommand(link), link
	if link.Session == now.head.Link.Session {
		return nil
	}
	p.Link = link
	if o, ok := tx.observer(link.Agent); ok && now.head.Link.Session != "" {
		if pid, alive := o.Live(ctx, now.head.Link.Session); alive {
			moved.Live = pid
		}
	}
	return nil
}

// resumeCommand returns the command that continues a session.
func (tx *txn) resumeCommand(l *segno.Link) []string {
	return tx.Transcripts[l.Agent].Resume(segno.Source{Session: l.Session, Path: l.Path, Dir: l.Dir})
}

// noSession is the reason why no session can continue a conversation.
type noSession string

func (why noSession) Error() string { return string(why) }

// notBegun is the reason at a position without a record.
const notBegun noSession = "it had not begun yet; start the agent again"

// at returns the reason at a checkpoint. Some agents can run turns without a session, as codex exec --ephemeral does.
func (why noSession) at(c *segno.Checkpoint) string {
	if why == notBegun && c.Turn > 0 {
		return "the agent left no session; start the agent again"
	}
	return string(why)
}

// sessionAt returns a session that continues from a position: an existing one of the thread that
// ends there, or a cut. The error is a noSession if no session can continue from there.
func (tx *txn) sessionAt(ctx context.Context, p segno.Position, head segno.Head, dir, reason string) (*segno.Link, error) {
	if tx.Transcripts[p.Agent] == nil || p.Leaf == "" {
		return tx.cutSession(ctx, p, dir, reason, false)
	}
	existing, err := tx.endsThere(ctx, p, head, dir)
	if err != nil {
		return nil, err
	}
	if existing == nil {
		return tx.cutSession(ctx, p, dir, reason, false)
	}
	link := &segno.Link{Agent: p.Agent, Session: existing.Session, Dir: dir, Path: existing.Path, Start: tx.Now(), Reason: reason,
		Fidelity: segno.FidelityNative, Position: existing.Position}
	if o, ok := tx.observer(p.Agent); ok {
		err = o.Prefer(ctx, segno.Source{Session: link.Session, Path: link.Path, Dir: link.Dir})
	}
	return link, err
}

// cutSession writes a new session that ends at a position, and captures it. The session's next turn
// then stores only new records, and a later move can check that the session still ends there. The
// error is a noSession if the conversation cannot be cut.
func (tx *txn) cutSession(ctx context.Context, p segno.Position, dir, reason string, yield bool) (*segno.Link, error) {
	t := tx.Transcripts[p.Agent]
	if t == nil {
		return nil, noSession(fmt.Sprintf("segno cannot cut a session of %s; behind 'segno acp' it continues from here", p.Agent))
	}
	if p.Leaf == "" {
		return nil, notBegun
	}
	objects := tx.Store.Objects()
	src, err := t.Cut(ctx, p, segno.Target{Session: newSession(), Dir: dir, Yield: yield}, objects)
	var noCut *transcript.NoCutError
	if errors.As(err, &noCut) {
		return nil, segno.NewError(segno.KindOf(err), "", "", noSession(noCut.Why)).WithHint(segno.HintOf(err))
	}
	if err != nil {
		return nil, err
	}
	batch := objects.Batch()
	defer batch.Close()
	at, err := t.CaptureCut(ctx, src, p, objects, batch)
	if err != nil {
		return nil, fmt.Errorf("read the session that was cut: %w", err)
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return nil, fmt.Errorf("stage the session that was cut: %w", err)
	}
	return &segno.Link{Agent: p.Agent, Session: src.Session, Dir: dir, Path: src.Path, Start: tx.Now(), Reason: reason,
		Fidelity: segno.FidelityRebuilt, Position: &at}, tx.keepStaged(ctx, staged)
}

// endsThere returns the session of the thread, in dir, that still ends at a position, or nil: the
// one in which the position was recorded, the head session, or one that was cut there. It ignores
// sessions of other threads: after a fork at its head, both threads would write to such a session.
func (tx *txn) endsThere(ctx context.Context, p segno.Position, head segno.Head, dir string) (*segno.Link, error) {
	var links []segno.Link
	isOwn := head.Link.Session == p.Session
	for l, err := range tx.chain(ctx, head.Thread) {
		if err != nil {
			return nil, err
		}
		isOwn = isOwn || l.Session == p.Session
		if l.Position != nil && l.Position.Leaf == p.Leaf {
			links = append(links, l)
		}
	}
	if isOwn {
		links = slices.Insert(links, 0, segno.Link{Session: p.Session, Path: p.Path, Dir: p.Dir})
	}
	for _, l := range slices.Backward(links) {
		if l.Dir != dir {
			continue
		}
		at := *cmp.Or(l.Position, &p)
		if ok, err := tx.Transcripts[p.Agent].EndsAt(ctx, segno.Source{Session: l.Session, Path: l.Path, Dir: l.Dir}, at); err == nil && ok {
			return &l, nil
		}
	}
	return nil, nil
}

// Resume returns the command that continues the conversation of a thread at one of its checkpoints
// or their ancestors, and the directory in which to run the command. Resume first relocates a
// session of another directory.
func (tl *Timeline) Resume(ctx context.Context, thread segno.ThreadID, at segno.CommitID) (*segno.Link, []string, error) {
	tx, err := tl.prepareMove(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer tx.unlock()
	c, err := tx.checkpoint(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	head, err := tx.Store.Head(ctx, thread)
	if err != nil {
		return nil, nil, err
	}
	if c.Session != nil && c.Session.Leaf == "" && tx.Transcripts[c.Session.Agent] != nil {
		why := "there is no conversation before the first prompt"
		if c.Turn > 0 {
			why = "the agent left no session"
		}
		return nil, nil, segno.Errorf(segno.KindNotFound, "resume", string(at), "%s", why).WithHint("start the agent again")
	}
	if at == head.Head && head.Link.Session != "" {
		return tx.resumeHead(ctx, head, c)
	}
	if c.Session == nil {
		return nil, nil, segno.Errorf(segno.KindNotFound, "resume", string(at), "the checkpoint has no conversation")
	}
	link, err := tx.resumeAt(ctx, head, c, at)
	if err != nil {
		return nil, nil, err
	}
	known, err := tx.threadOf(ctx, link.Session)
	if err == nil && known == "" {
		link.Detached = true // the head does not move: the user has the command now, and may not run it
		err = tx.commitLink(ctx, head, link)
	}
	return link, tx.resumeCommand(link), err
}

// resumeAt returns a session that continues the conversation of a checkpoint.
func (tx *txn) resumeAt(ctx context.Context, head segno.Head, c *segno.Checkpoint, at segno.CommitID) (*segno.Link, error) {
	dir, err := tx.sessionDir(ctx, c, tx.Workspace.Root())
	if err != nil {
		return nil, err
	}
	link, err := tx.sessionAt(ctx, *c.Session, head, dir, "resume")
	var none noSession
	if errors.As(err, &none) {
		return nil, segno.NewError(segno.KindNotFound, "resume", string(at), err)
	}
	if link != nil {
		link.At = at
	}
	return link, err
}

func (tx *txn) commitLink(ctx context.Context, head segno.Head, link *segno.Link) error {
	c := newCommit(head)
	c.Link = link
	_, err := tx.commitRetryingCAS(ctx, c)
	return err
}

// resumeHead continues the head session. It relocates a session of another directory. If the agent
// has deleted the session, resumeHead restores it from the store, with the same bytes. The id stays
// the same if it is free; otherwise the session gets a new one.
func (tx *txn) resumeHead(ctx context.Context, head segno.Head, c *segno.Checkpoint) (*segno.Link, []string, error) {
	l := head.Link
	t := tx.Transcripts[l.Agent]
	if t == nil {
		return nil, nil, segno.Errorf(segno.KindNotFound, "resume", l.Agent, "no transcripts of that agent can be read here")
	}
	src, err := t.Find(ctx, l.Session)
	if segno.KindOf(err) == segno.KindNotFound {
		if c.Session == nil || c.Session.Leaf == "" {
			return nil, nil, segno.Errorf(segno.KindNotFound, "resume", string(l.Session), "the session is missing and had no recorded turn")
		}
		link, err := tx.restoreHead(ctx, l, c)
		if err == nil && link == nil {
			link, err = tx.resumeAt(ctx, head, c, c.ID)
		}
		if err != nil {
			return nil, nil, err
		}
		return link, tx.resumeCommand(link), tx.commitLink(ctx, head, link)
	}
	if err != nil {
		return nil, nil, err
	}
	dir, err := tx.dirBelow(ctx, l.Dir, c, tx.Workspace.Root(), nil)
	if err != nil {
		return nil, nil, err
	}
	if src, err = t.Relocate(ctx, src, dir); err != nil {
		return nil, nil, fmt.Errorf("bring the session here: %w", err)
	}
	if l.Dir != src.Dir || l.Path != src.Path {
		l.Dir, l.Path, l.Start, l.Reason = src.Dir, src.Path, tx.Now(), "move"
		err = tx.commitLink(ctx, head, &l)
	}
	return &l, t.Resume(src), err
}

// restoreHead restores a head session that the agent deleted, under its own id. It returns nil if
// that is impossible: the store has no copy that ends there, or the agent has other files with the
// session's name.
func (tx *txn) restoreHead(ctx context.Context, l segno.Link, c *segno.Checkpoint) (*segno.Link, error) {
	p := c.Session
	if p.Session != l.Session {
		p = l.Position
	}
	r, ok := tx.Transcripts[l.Agent].(transcript.Restorer)
	if !ok || p == nil || p.Session != l.Session || p.Agent == c.Session.Agent && p.Leaf != c.Session.Leaf || p.Log.IsZero() {
		return nil, nil
	}
	dir, err := tx.dirBelow(ctx, l.Dir, c, tx.Workspace.Root(), nil)
	if err != nil {
		return nil, err
	}
	src, err := r.Restore(ctx, *p, dir, tx.Store.Objects())
	var noCut *transcript.NoCutError
	if errors.As(err, &noCut) {
		return nil, segno.NewError(segno.KindNotFound, "resume", string(l.Session), err)
	}
	switch segno.KindOf(err) {
	case segno.KindConflict, segno.KindInvalid, segno.KindNotFound, segno.KindCorrupt:
		return nil, nil // a cut under a new id may get the bytes from another source
	}
	l.Dir, l.Path, l.Start, l.Reason = src.Dir, src.Path, tx.Now(), "restore"
	return &l, err
}

// RestoreSession restores a session of a thread that the agent has deleted, with the same bytes and
// under its own id, so that it continues from a checkpoint. It returns nil if the agent still has
// the session, or if it cannot be restored: the store has no copy that ends there, or the agent has
// other files with the session's name. When the agent has accepted the session, the caller adds the
// link to the chain with [Timeline.JoinSession].
func (tl *Timeline) RestoreSession(ctx context.Context, l segno.Link, at segno.CommitID) (*segno.Link, error) {
	t := tl.Transcripts[l.Agent]
	if t == nil {
		return nil, nil
	}
	if _, err := t.Find(ctx, l.Session); segno.KindOf(err) != segno.KindNotFound {
		return nil, err
	}
	tx, err := tl.prepareMove(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	c, err := tx.checkpoint(ctx, at)
	if err != nil || c.Session == nil || c.Session.Leaf == "" {
		return nil, err
	}
	return tx.restoreHead(ctx, l, c)
}

// RebuildSession writes the conversation of a checkpoint into a new session, for an agent
// that has lost its own session or refuses it. When the agent has accepted the new session,
// the caller adds it to the chain with [Timeline.JoinSession]. The error has
// [segno.KindNotFound] if the agent has no readable transcripts, or there is no
// conversation yet.
func (tl *Timeline) RebuildSession(ctx context.Context, at segno.CommitID, dir string) (*segno.Link, error) {
	tx, err := tl.prepareMove(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	c, err := tx.checkpoint(ctx, at)
	if err != nil {
		return nil, err
	}
	if c.Session == nil || c.Session.Leaf == "" || tx.Transcripts[c.Session.Agent] == nil {
		return nil, segno.Errorf(segno.KindNotFound, "rebuild session", string(at), "the checkpoint has no transcript")
	}
	link, err := tx.cutSession(ctx, *c.Session, dir, "", false)
	if none := noSession(""); errors.As(err, &none) {
		return nil, segno.NewError(segno.KindNotFound, "rebuild session", string(at), err)
	}
	if link != nil {
		link.At = c.ID
	}
	return link, err
}

// newSession returns a random UUID (RFC 9562, version 4). Agents use this form for the ids
// of sessions.
func newSession() segno.SessionID {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return segno.SessionID(fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:]))
}
