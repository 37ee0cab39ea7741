package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/internal/preamble"
	"github.com/dalsegno/segno/timeline"
)

// attach returns the process that has a session loaded in which the thread's
// conversation stands where its head does. If there is none it climbs down the
// ladder: the session that stands there is resumed, or loaded; else its transcript is
// written anew at the head; else the agent forks there a session that went on; else a
// new session is told what happened.
func (s *session) attach(ctx context.Context, reason string) (*process, error) {
	if err := s.settle(); err != nil {
		return nil, err
	}
	proc, err := s.proxy.agent.running(ctx)
	if err != nil {
		return nil, err
	}
	if s.thread == "" {
		return proc, s.attachNew(ctx, proc)
	}
	if s.turn == nil || !s.turn.begun {
		if err := s.tidy(ctx); err != nil && (!s.proxy.BestEffort || segno.KindOf(err) == segno.KindCancelled) {
			return nil, err
		} else if err != nil {
			s.proxy.logf("%v", err)
		}
	}
	if reason == recovery && (s.turn == nil || !s.turn.begun) {
		reason = "resume" // no turn is left behind
	}
	h, err := s.footing(ctx)
	if err != nil {
		return nil, err
	}
	if s.on == proc && !s.broken && h.link != nil && h.link.Session == s.up {
		if s.has == h.turnID() {
			s.proxy.announce(s, s.up, nil) // another id of the same thread may have heard it last
			return proc, s.prefer(ctx, h)
		}
		// Somebody else went on in it: what this process holds of it is old.
		if !s.unload(ctx, proc) {
			h.link = nil
		}
	}
	if err := s.tellStory(ctx, h); err != nil {
		return nil, err
	}
	s.tell = nil // what waited to be said is of a session that is left
	before := s.up
	for deaths := 1; ; deaths++ {
		err := s.climb(ctx, proc, h, reason)
		if err == nil {
			s.has = h.turnID()
			return proc, nil
		}
		if !errors.Is(err, errGone) || deaths > maxDeaths {
			s.putBack(before)
			return proc, err
		}
		if deaths > 1 && h.link != nil {
			s.proxy.logf("%s: the agent dies of session %s", brief(s.id), h.link.Session)
			s.gone[h.link.Session], h.link = true, nil
		}
		if proc, err = s.proxy.agent.running(ctx); err != nil {
			return nil, err
		}
	}
}

// putBack forgets a session that was opened and is not the thread's yet: what was told
// of the turn is of the one before.
func (s *session) putBack(before segno.SessionID) {
	if s.on = nil; before != "" {
		s.proxy.announce(s, before, nil)
	}
}

// behind reports whether a process holds an old state of the session, because
// somebody went on in it elsewhere, and will not read it anew.
func (s *session) behind(ctx context.Context, proc *process) (bool, error) {
	if s.on != proc {
		return false, nil
	}
	h, err := s.footing(ctx)
	if err != nil || s.has == h.turnID() {
		return false, err
	}
	if s.turn != nil || !s.unload(ctx, proc) {
		return true, nil
	}
	s.on = nil
	return false, nil
}

// unload has the agent forget what it holds of the session, so that it reads it
// anew. It reports whether the agent did.
func (s *session) unload(ctx context.Context, proc *process) bool {
	if !s.proxy.agent.identity().Close {
		return false
	}
	_, err := s.proxy.agent.call(ctx, proc, "session/close", acp.Encode(map[string]any{"sessionId": s.up}), nil)
	return err == nil
}

// maxDeaths is how often an agent may die while it opens a session before the client
// is told. One that dies twice of the same session is not given it again.
const maxDeaths = 3

// prefer makes the session the thread's head session, should it be another one of
// its chain.
func (s *session) prefer(ctx context.Context, h foothold) error {
	if h.head.Link.Session == h.link.Session {
		return nil
	}
	link := *h.link
	link.Start, link.Reason, link.At = s.proxy.Place.Now(), string(segno.VerbSwitch), h.at.ID
	return s.join(ctx, link)
}

// attachNew has a session loaded that had no turn yet: there is nothing to lose.
func (s *session) attachNew(ctx context.Context, proc *process) error {
	live := s.on == proc && !s.broken
	hear := s.needsHistory() && s.proxy.agent.identity().Load
	if live && !hear {
		return nil
	}
	if hear {
		s.history, s.listens = new(history), true
	}
	var err error
	if s.page.Upstream != "" {
		err = s.reopen(ctx, proc, s.page.Upstream, nil)
		if s.heardAll(); err == nil {
			return nil
		}
		if s.history = nil; errors.Is(err, errGone) {
			return err
		}
		if live && isAnswer(err) {
			s.proxy.logf("%s: the agent does not show its earlier turns: %v", brief(s.id), err)
			return nil
		}
	}
	if s.page.Upstream != "" && s.page.Foreign {
		return fmt.Errorf("go on with session %s: %w", s.page.Upstream, err)
	}
	up, err := s.openNew(ctx, proc)
	if err != nil {
		return err
	}
	s.page.Upstream = up
	return s.proxy.book.write(s.page)
}

// climb tries the rungs of the ladder, best first.
func (s *session) climb(ctx context.Context, proc *process, h foothold, reason string) error {
	lost := ""
	if h.link != nil {
		err := s.reopen(ctx, proc, h.link.Session, h.turn)
		if err == nil {
			s.heir = h.link.Fidelity == segno.FidelityPreamble
			s.note(segno.Entry{Kind: segno.EntryNote, Name: "session", Body: acp.Encode(map[string]any{"reason": reason, "fidelity": segno.FidelityNative})})
			if err := s.tellInterrupted(ctx, h); err != nil {
				return err
			}
			return s.prefer(ctx, h)
		}
		if !isAnswer(err) || s.refused(err) {
			return err
		}
		if err == errShort {
			s.gone[h.link.Session] = true
		}
		lost = err.Error()
		s.proxy.logf("%s: session %s is lost: %v", brief(s.id), h.link.Session, err)
	}
	if err := s.rebuild(ctx, proc, h, reason); !errors.Is(err, errNoRung) {
		return err
	}
	if err := s.branch(ctx, proc, h, reason); !errors.Is(err, errNoRung) {
		return err
	}
	return s.startOver(ctx, proc, h, reason, lost)
}

// errNoRung says that this way to go on is not to be had.
var errNoRung = errors.New("no such way")

// isAnswer reports whether an error is what the agent answered.
func isAnswer(err error) bool {
	var answer *acp.Error
	return errors.As(err, &answer)
}

// rebuild writes the conversation up to the head into a new session of the agent's.
func (s *session) rebuild(ctx context.Context, proc *process, h foothold, reason string) error {
	if h.at.Session == nil || h.at.Session.Agent != s.page.Agent {
		return errNoRung
	}
	site, err := s.site(ctx)
	if err != nil {
		return err
	}
	link, err := site.RebuildSession(ctx, h.at.ID, s.page.Dir)
	if err != nil {
		if segno.KindOf(err) == segno.KindCancelled {
			return err
		}
		s.proxy.logf("%s: the transcript cannot be written anew: %v", brief(s.id), err)
		return errNoRung
	}
	if err := s.reopen(ctx, proc, link.Session, nil); err != nil {
		if isAnswer(err) {
			s.proxy.logf("%s: the agent does not take the session that was written: %v", brief(s.id), err)
			return errNoRung
		}
		return err
	}
	link.Reason = reason
	s.gained, s.heir = segno.FidelityRebuilt, false
	if s.turn != nil && s.turn.proc != nil {
		s.report("the agent's session was lost in this turn; it was written anew as it stood before it")
	}
	return s.join(ctx, *link)
}

// startOver makes a new session, which is told what happened with its first prompt.
func (s *session) startOver(ctx context.Context, proc *process, h foothold, reason, lost string) error {
	up, err := s.openNew(ctx, proc)
	if err != nil {
		return err
	}
	link := segno.Link{Agent: s.page.Agent, Session: up, Dir: s.page.Dir, Start: s.proxy.Place.Now(), Reason: reason,
		Fidelity: segno.FidelityPreamble, At: h.at.ID}
	s.gained, s.heir = segno.FidelityPreamble, true
	text := s.story.Text(preamble.Options{Open: s.unfinished})
	if text == "" || h.turn == nil && s.unfinished == nil {
		if s.page.Unheard {
			s.report("the conversation goes on in a new session; the turns from before segno are not on record")
		}
		link.Fidelity, s.gained, s.heir = segno.FidelityNative, segno.FidelityNative, false // there was nothing to tell
		return s.join(ctx, link)
	}
	if s.turn != nil && (s.turn.begun || s.turn.unrecorded) {
		s.tell = append([]string{text}, s.tell...)
		s.note(segno.Entry{Kind: segno.EntryNote, Name: "segno", Body: clipText(text)})
	} else {
		link.Note = text // told at the beginning of the session's first turn, whoever runs that
		if s.from != "" && s.from != s.page.Dir {
			link.Note += "\n\n" + timeline.ForkNote(s.from, s.page.Dir)
		}
	}
	if reason != string(segno.VerbFork) {
		if lost == "" {
			lost = "the agent has no session that stands there"
		}
		if h.link != nil {
			lost = strings.ReplaceAll(lost, string(h.link.Session), string(s.id)) // the id that the user knows
		}
		if s.page.Unheard {
			lost += "; the turns from before segno are not on record"
		}
		s.report("the conversation goes on in a new session, which was told what happened (%s)", lost)
	}
	return s.join(ctx, link)
}

// openNew has the agent make a session for this one.
func (s *session) openNew(ctx context.Context, proc *process) (segno.SessionID, error) {
	s.proxy.begin()
	defer s.proxy.done()
	m, err := s.openCall(ctx, proc, "session/new", "", nil)
	if err != nil {
		return "", fmt.Errorf("make a new session: %w", err)
	}
	up := segno.SessionID(m.SessionID())
	if up == "" {
		return "", segno.Errorf(segno.KindInvalid, "make a new session", "", "the agent gave no session id")
	}
	s.proxy.announce(s, up, nil)
	s.opens(proc, m)
	s.announceCommands()
	return up, s.replaySettings(context.WithoutCancel(ctx), proc)
}

// opens keeps what the agent said when it opened the session.
func (s *session) opens(proc *process, m acp.Message) {
	s.on, s.broken, s.fresh, s.result = proc, false, true, m
	s.proxy.agent.worked()
}

// params are the client's params of opening the session, for one of the agent's.
func (s *session) params(up segno.SessionID, more map[string]any) json.RawMessage {
	params := map[string]any{"mcpServers": []any{}}
	var given map[string]json.RawMessage
	if json.Unmarshal(s.opened, &given) == nil {
		for k, v := range given {
			params[k] = v
		}
	}
	delete(params, "sessionId")
	params["cwd"] = s.page.Dir
	if up != "" {
		params["sessionId"] = up
	}
	maps.Copy(params, more)
	return acp.Encode(params)
}
