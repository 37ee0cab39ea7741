package timeline

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
)

const opMoveSession = "move session"

// MovedSession names both places of a session that [Timeline.MoveSession] copied.
type MovedSession struct {
	Kept
	From segno.Source // From.Path is "" if the agent no longer had the session
	To   segno.Source
	Run  []string // the command that continues the session there
	Same bool     // the session was already there
}

// remover is the ability of a [segno.Transcript] to remove the source of a moved session, once the
// agent has continued the session in its new place.
type remover interface {
	// RemoveMoved removes the transcript at the path source, if the transcript at the path copied begins
	// with the same bytes and has a message after them. It reports whether it removed the source.
	RemoveMoved(ctx context.Context, source, copied string) (bool, error)
}

// MoveSession makes a session continue in another directory, which must exist. It first stores the
// session. Then it copies the agent's files of the session to the place where the agent looks for
// them in dir. The source stays until the agent has continued the session there, see
// [Timeline.RemoveMoved]. A session that the agent no longer has comes from the store. MoveSession
// refuses a session that a process has open. An error means that nothing was moved.
func (tl *Timeline) MoveSession(ctx context.Context, r KeepRequest, dir string) (m MovedSession, err error) {
	tx, err := tl.lockSessions(ctx)
	if err != nil {
		return m, err
	}
	defer tx.unlock()
	if err := tx.checkIdle(ctx, opMoveSession, r); err != nil {
		return m, err
	}
	t := tx.Transcripts[r.Agent]
	if t == nil {
		return m, segno.Errorf(segno.KindNotFound, opMoveSession, r.Agent, "no transcripts of that agent can be read here")
	}
	if r.Source.Path == "" {
		m.To, m.Thread, err = tx.restoreTo(ctx, r, dir)
	} else {
		m, err = tx.moveTo(ctx, r, dir)
	}
	if err != nil {
		return MovedSession{}, err
	}
	m.Run = t.Resume(m.To)
	return m, nil
}

// ResumeSession returns the command that continues a session in a directory, and the new location of
// the session. It copies a session of another directory there, as MoveSession does. It restores a
// session that the agent no longer has from the store: with the same bytes, and under the same id if
// that is free, else under a new id. ResumeSession first stores the session.
func (tl *Timeline) ResumeSession(ctx context.Context, r KeepRequest, dir string) (m MovedSession, err error) {
	tx, err := tl.lockSessions(ctx)
	if err != nil {
		return m, err
	}
	defer tx.unlock()
	t := tx.Transcripts[r.Agent]
	if t == nil {
		return m, segno.Errorf(segno.KindNotFound, "resume", r.Agent, "no transcripts of that agent can be read here")
	}
	if r.Source.Path == "" {
		m.To, m.Thread, err = tx.restoreTo(ctx, r, dir)
		if segno.KindOf(err) == segno.KindConflict {
			m.To, m.Thread, err = tx.cutTo(ctx, r, dir)
		}
	} else {
		m, err = tx.moveTo(ctx, r, dir)
	}
	if err != nil {
		return MovedSession{}, err
	}
	m.Run = t.Resume(m.To)
	return m, nil
}

// cutTo writes a stored session under a new id.
func (tx *txn) cutTo(ctx context.Context, r KeepRequest, dir string) (to segno.Source, thread segno.ThreadID, err error) {
	k := &keeping{KeepRequest: r}
	if err := tx.findKept(ctx, k); err != nil {
		return to, "", err
	}
	link, err := tx.cutSession(ctx, *k.prev, dir, "resume", false)
	if err != nil {
		return to, "", err
	}
	s, err := tx.threadState(ctx, k.thread)
	if err != nil {
		return to, "", err
	}
	if link.Detached = true; k.last != nil {
		link.At = k.last.ID
	}
	return segno.Source{Session: link.Session, Path: link.Path, Dir: link.Dir}, k.thread, tx.commitLink(ctx, s.head, link)
}

// checkIdle returns [segno.KindRefused] if a process has a session open or one of its turns is open.
func (tx *txn) checkIdle(ctx context.Context, op string, r KeepRequest) error {
	session := r.Source.Session
	if d, ok := tx.Transcripts[r.Agent].(transcript.Discovery); ok {
		switch pid := d.Running(ctx)[session]; {
		case pid > 0:
			return segno.Errorf(segno.KindRefused, op, string(session), "process %d has the session open", pid).WithHint("end it first")
		case pid < 0:
			return segno.Errorf(segno.KindRefused, op, string(session), "a process has the session open").WithHint("end it first")
		}
	}
	if err := tx.loadTurns(ctx); err != nil {
		return err
	}
	for _, t := range tx.turns {
		if t.Source.Session == session && t.Ended == "" && !tx.isGone(t) {
			return segno.Errorf(segno.KindRefused, op, string(session), "a turn of it is open").WithHint("wait until the turn ends")
		}
	}
	return nil
}

// moveTo copies a session that the agent has.
func (tx *txn) moveTo(ctx context.Context, r KeepRequest, dir string) (m MovedSession, err error) {
	m.From = r.Source
	if m.Kept, err = tx.keep(ctx, r); err != nil {
		return m, err
	}
	m.To, err = tx.Transcripts[r.Agent].Relocate(ctx, r.Source, dir)
	switch {
	case segno.KindOf(err) == segno.KindConflict && err != nil:
		return m, segno.Errorf(segno.KindConflict, opMoveSession, string(r.Source.Session), "the agent has another session of this id in %s", dir).
			WithHint("resume that one, or move it away first")
	case err != nil:
		return m, fmt.Errorf("copy session: %w", err)
	}
	m.Same = m.To.Path == m.From.Path && m.To.Dir == m.From.Dir
	return m, tx.linkMoved(ctx, m.Thread, r.Agent, m.To)
}

// restoreTo writes a session that the agent no longer has to another directory.
func (tx *txn) restoreTo(ctx context.Context, r KeepRequest, dir string) (to segno.Source, thread segno.ThreadID, err error) {
	k := &keeping{KeepRequest: r}
	if err := tx.findKept(ctx, k); err != nil {
		return to, "", err
	}
	restorer, ok := tx.Transcripts[r.Agent].(transcript.Restorer)
	if k.prev == nil || !ok {
		return to, "", segno.NewError(segno.KindNotFound, opMoveSession, string(r.Source.Session), nil)
	}
	if to, err = restorer.Restore(ctx, *k.prev, dir, tx.Store.Objects()); err != nil {
		return to, "", fmt.Errorf("write session: %w", err)
	}
	return to, k.thread, tx.linkMoved(ctx, k.thread, r.Agent, to)
}

// linkMoved records the new location of a session. A session that is not the thread's head session
// stays an additional session.
func (tx *txn) linkMoved(ctx context.Context, thread segno.ThreadID, agent string, to segno.Source) error {
	if thread == "" {
		return nil
	}
	s, err := tx.threadState(ctx, thread)
	if err != nil {
		return err
	}
	_, l, err := tx.linksOf(ctx, s.head, to.Session)
	if err != nil || l != nil && l.Dir == to.Dir && l.Path == to.Path {
		return err
	}
	link := segno.Link{Agent: agent, Session: to.Session, Dir: to.Dir, Path: to.Path, Start: tx.Now(), Reason: "move",
		Fidelity: segno.FidelityNative, Detached: s.head.Link.Session != to.Session}
	if l != nil {
		link.At, link.Position, link.Note = l.At, l.Position, l.Note
	}
	return tx.commitLink(ctx, s.head, &link)
}

// RemoveMoved removes the source of a moved session once the agent has continued the session in its
// new place: the thread's chain records the move, and the transcript there begins with all bytes of
// the source and is longer. The other files of the source stay, because the conversation may name
// their paths. RemoveMoved reports whether it removed the source.
func (tl *Timeline) RemoveMoved(ctx context.Context, agent string, session segno.SessionID, paths []string) (removed []string, err error) {
	tx, err := tl.lockSessions(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	t, ok := tx.Transcripts[agent].(remover)
	if !ok {
		return nil, nil
	}
	thread, err := tx.threadOf(ctx, session)
	if err != nil || thread == "" || tx.checkIdle(ctx, opMoveSession, KeepRequest{Agent: agent, Source: segno.Source{Session: session}}) != nil {
		return nil, err
	}
	to, places, err := tx.placesOf(ctx, thread, session)
	if err != nil {
		return nil, err
	}
	for _, from := range paths {
		if to == "" || from == to || !places[filepath.Clean(from)] {
			continue
		}
		gone, err := t.RemoveMoved(ctx, from, to)
		if err != nil {
			return removed, err
		}
		if gone {
			removed = append(removed, from)
		}
	}
	return removed, nil
}

// placesOf returns the paths of a session's file in the chain of a thread, and the path to which the
// session was moved last, or "".
func (tx *txn) placesOf(ctx context.Context, thread segno.ThreadID, session segno.SessionID) (to string, places map[string]bool, err error) {
	places = map[string]bool{}
	for l, err := range tx.chain(ctx, thread) {
		if err != nil {
			return "", nil, err
		}
		if l.Session != session {
			continue
		}
		if places[filepath.Clean(l.Path)] = true; l.Reason == "move" {
			to = filepath.Clean(l.Path)
		}
	}
	return to, places, nil
}
