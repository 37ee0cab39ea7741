package timeline

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
)

// liveChecker is the ability of a [Transcript] to say whether an agent holds a
// session open.
type liveChecker interface {
	Live(ctx context.Context, session segno.SessionID) (pid int, ok bool)
}

// sessionChooser is the ability of a [Transcript] to make a session the one that
// "continue the newest" finds.
type sessionChooser interface {
	Prefer(ctx context.Context, src segno.Source) error
}

// turnJudge is the ability of a [segno.Transcript] to detect that the user interrupted a turn
// while its agent runs, which no event reports.
type turnJudge interface {
	Interrupted(ctx context.Context, src segno.Source, key segno.TurnKey) (bool, error)
}

// isOver reports whether an open turn of a living agent has ended all the same.
func (tx *txn) isOver(ctx context.Context, t OpenTurn) bool {
	j, ok := tx.Transcripts[t.Agent].(turnJudge)
	if !ok {
		return false
	}
	over, err := j.Interrupted(ctx, t.Source, t.newestKey())
	return err == nil && over
}

// moveSession prepares the session that continues the conversation: a session that already
// ends there, or a new one, cut there. The thread is not moved yet. After a failure an
// unused session is left beside the agent's own.
func (tx *txn) moveSession(ctx context.Context, now currentState, moved *MoveResult) error {
	p := moved.Plan
	if p.Session == nil || p.Session.Agent == "" {
		return nil
	}
	dir, err := tx.landingDir(ctx, p)
	if err != nil {
		return err
	}
	link, why, err := tx.sessionAt(ctx, *p.Session, now.head, dir, string(p.Verb))
	if err != nil {
		return segno.Errorf(segno.KindOf(err), string(p.Verb), "", "cut the conversation: %w", err).WithHint("use 'segno restore --files' to move the files alone")
	}
	moved.Chat = why
	if link == nil {
		return nil
	}
	link.At = p.Landing
	t := tx.Transcripts[link.Agent]
	moved.Run = t.Resume(segno.Source{Session: link.Session, Path: link.Path, Dir: link.Dir})
	moved.Link = link
	if link.Session == now.head.Link.Session {
		return nil
	}
	p.Link = link
	if l, ok := t.(liveChecker); ok && now.head.Link.Session != "" {
		if pid, alive := l.Live(ctx, now.head.Link.Session); alive {
			moved.Live = pid
		}
	}
	return nil
}

// sessionAt returns a session that continues from a position: an existing one of
// the thread's that stands there, or a cut. Without one it says why.
func (tx *txn) sessionAt(ctx context.Context, p segno.Position, head segno.Head, dir, reason string) (*segno.Link, string, error) {
	t := tx.Transcripts[p.Agent]
	if t == nil || p.Leaf == "" {
		return tx.cutSession(ctx, p, dir, reason, false)
	}
	standing, err := tx.endsThere(ctx, p, head, dir)
	if err != nil {
		return nil, "", err
	}
	if standing == nil {
		return tx.cutSession(ctx, p, dir, reason, false)
	}
	link := &segno.Link{Agent: p.Agent, Session: standing.Session, Dir: dir, Path: standing.Path, Start: tx.Now(), Reason: reason,
		Fidelity: segno.FidelityNative, Position: standing.Position}
	if pr, ok := t.(sessionChooser); ok {
		err = pr.Prefer(ctx, segno.Source{Session: link.Session, Path: link.Path, Dir: link.Dir})
	}
	return link, "", err
}

// cutSession writes a new session that ends at a position. If it cannot be it says
// why.
func (tx *txn) cutSession(ctx context.Context, p segno.Position, dir, reason string, yield bool) (*segno.Link, string, error) {
	t := tx.Transcripts[p.Agent]
	if t == nil {
		return nil, fmt.Sprintf("no transcripts of %s can be read here", p.Agent), nil
	}
	if p.Leaf == "" {
		return nil, "before its first prompt there is no conversation; start the agent again", nil
	}
	src, err := t.Cut(ctx, p, segno.Target{Session: newSession(), Dir: dir, Yield: yield}, tx.Store.Objects())
	if err != nil {
		return nil, "", err
	}
	link := &segno.Link{Agent: p.Agent, Session: src.Session, Dir: dir, Path: src.Path, Start: tx.Now(), Reason: reason, Fidelity: segno.FidelityRebuilt}
	link.Position, err = tx.captureCut(ctx, t, src, p)
	return link, "", err
}

// captureCut captures a session that was just cut from a position. Its next turn then stores
// only new records, and a later move can check that the session still ends there.
func (tx *txn) captureCut(ctx context.Context, t segno.Transcript, src segno.Source, of segno.Position) (*segno.Position, error) {
	objects := tx.Store.Objects()
	batch := objects.Batch()
	defer batch.Close()
	at, err := t.CaptureCut(ctx, src, of, objects, batch)
	if err != nil {
		return nil, fmt.Errorf("read the session that was cut: %w", err)
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return nil, fmt.Errorf("stage the session that was cut: %w", err)
	}
	return &at, tx.keepStaged(ctx, staged)
}

// threadForSave returns the session of the thread that still stands at a position, in
// dir, or nil: the one it was recorded in, the head session, or one cut there.
func (tx *txn) endsThere(ctx context.Context, p segno.Position, head segno.Head, dir string) (*segno.Link, error) {
	t := tx.Transcripts[p.Agent]
	links := []segno.Link{{Session: p.Session, Path: p.Path, Dir: p.Dir}}
	if chains, ok := tx.Store.(segno.Chains); ok {
		for l, err := range chains.Chain(ctx, head.Thread) {
			if err != nil {
				return nil, err
			}
			if l.Position != nil && l.Position.Leaf == p.Leaf {
				links = append(links, l)
			}
		}
	}
	for _, l := range slices.Backward(links) {
		if l.Dir != dir {
			continue
		}
		at := p
		if l.Position != nil {
			at = *l.Position
		}
		if ok, err := t.EndsAt(ctx, segno.Source{Session: l.Session, Path: l.Path, Dir: l.Dir}, at); err == nil && ok {
			return &l, nil
		}
	}
	return nil, nil
}

// Resume returns the command that continues the conversation of a thread at one of its
// checkpoints or their ancestors, and the directory to run the command in. A session of
// another directory is relocated first.
func (tl *Timeline) Resume(ctx context.Context, thread segno.ThreadID, at segno.CommitID) (*segno.Link, []string, error) {
	tx, err := tl.lockForMove(ctx)
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
		return nil, nil, segno.Errorf(segno.KindNotFound, "resume", string(at), "before the first prompt there is no conversation").WithHint("start the agent again")
	}
	if at == head.Head && head.Link.Session != "" {
		return tx.resumeHead(ctx, head)
	}
	if c.Session == nil {
		return nil, nil, segno.Errorf(segno.KindNotFound, "resume", string(at), "no conversation was recorded then")
	}
	dir, err := tx.sessionDir(ctx, c, tx.Workspace.Root(), nil)
	if err != nil {
		return nil, nil, err
	}
	link, why, err := tx.sessionAt(ctx, *c.Session, head, dir, "resume")
	if err != nil {
		return nil, nil, err
	}
	if link == nil {
		return nil, nil, segno.Errorf(segno.KindNotFound, "resume", string(at), "%s", why)
	}
	link.At = at
	if known, err := tx.threadOf(ctx, link.Session); err != nil {
		return nil, nil, err
	} else if known == "" {
		// The head stays: the user has the command now, and may not run it.
		link.Detached = true
		if _, err := tx.commitRetryingCAS(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: head.Thread, Expect: head.Head, Epoch: head.Epoch, Link: link}); err != nil {
			return nil, nil, err
		}
	}
	return link, tx.Transcripts[link.Agent].Resume(segno.Source{Session: link.Session, Path: link.Path, Dir: link.Dir}), nil
}

// resumeHead continues the head session, which may have been made in another
// directory, or be gone from the agent's own files.
func (tx *txn) resumeHead(ctx context.Context, head segno.Head) (*segno.Link, []string, error) {
	l := head.Link
	t := tx.Transcripts[l.Agent]
	if t == nil {
		return nil, nil, segno.Errorf(segno.KindNotFound, "resume", l.Agent, "no transcripts of that agent can be read here")
	}
	src, err := t.Find(ctx, l.Session)
	if segno.KindOf(err) == segno.KindNotFound {
		return tx.resumeStored(ctx, head)
	}
	if err != nil {
		return nil, nil, err
	}
	c, err := tx.checkpoint(ctx, head.Head)
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
		if _, err := tx.commitRetryingCAS(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: head.Thread, Expect: head.Head, Epoch: head.Epoch, Link: &l}); err != nil {
			return nil, nil, err
		}
	}
	return &l, t.Resume(src), nil
}

// resumeStored brings a session back that the agent no longer has, from the
// store, under a new id.
func (tx *txn) resumeStored(ctx context.Context, head segno.Head) (*segno.Link, []string, error) {
	c, err := tx.checkpoint(ctx, head.Head)
	if err != nil {
		return nil, nil, err
	}
	if c.Session == nil || c.Session.Leaf == "" {
		return nil, nil, segno.Errorf(segno.KindNotFound, "resume", string(head.Link.Session), "the session is gone and had no recorded turn")
	}
	dir, err := tx.sessionDir(ctx, c, tx.Workspace.Root(), nil)
	if err != nil {
		return nil, nil, err
	}
	link, why, err := tx.sessionAt(ctx, *c.Session, head, dir, "resume")
	if err != nil {
		return nil, nil, err
	}
	if link == nil {
		return nil, nil, segno.Errorf(segno.KindNotFound, "resume", "", "%s", why)
	}
	link.At = c.ID
	if _, err := tx.commitRetryingCAS(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: head.Thread, Expect: head.Head, Epoch: head.Epoch, Link: link}); err != nil {
		return nil, nil, err
	}
	return link, tx.Transcripts[link.Agent].Resume(segno.Source{Session: link.Session, Path: link.Path, Dir: link.Dir}), nil
}

// RebuildSession writes the conversation of a checkpoint into a new session, for an agent
// that has lost its own session or refuses it. When the agent has accepted the new session,
// the caller adds it to the chain with [Timeline.JoinSession]. The error has
// [segno.KindNotFound] if the agent has no readable transcripts, or there is no
// conversation yet.
func (tl *Timeline) RebuildSession(ctx context.Context, at segno.CommitID, dir string) (*segno.Link, error) {
	tx, err := tl.lockForMove(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	c, err := tx.checkpoint(ctx, at)
	if err != nil {
		return nil, err
	}
	if c.Session == nil || c.Session.Leaf == "" || tx.Transcripts[c.Session.Agent] == nil {
		return nil, segno.Errorf(segno.KindNotFound, "rebuild session", string(at), "no transcript was recorded then")
	}
	t := tx.Transcripts[c.Session.Agent]
	src, err := t.Cut(ctx, *c.Session, segno.Target{Session: newSession(), Dir: dir}, tx.Store.Objects())
	if err != nil {
		return nil, err
	}
	link := &segno.Link{Agent: c.Session.Agent, Session: src.Session, Dir: src.Dir, Path: src.Path, Start: tx.Now(),
		Fidelity: segno.FidelityRebuilt, At: c.ID}
	link.Position, err = tx.captureCut(ctx, t, src, *c.Session)
	return link, err
}

// newSession returns a random UUID (RFC 9562, version 4), the form agents give
// their session ids.
func newSession() segno.SessionID {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return segno.SessionID(fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:]))
}
