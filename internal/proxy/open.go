package proxy

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
)

// open serves session/load and session/resume. A session that stands where its
// thread does, and holds all of it, is left to the agent; else the ladder gives one,
// and what the client wants replayed comes from our log.
func (s *session) open(m acp.Message) {
	if err := s.settle(); err != nil {
		s.fail(m, err)
		return
	}
	if s.turn != nil {
		s.openUnderWay(m)
		return
	}
	from := s.page.Dir
	s.opened, s.page.Deleted = withoutOurs(m), false
	if dir := s.dirOf(m); dir != "" {
		s.page.Dir = dir
	}
	ctx, done := s.waiting()
	defer done()
	load := m.MethodName() == "session/load"
	if held, err := s.heldElsewhere(ctx); err != nil {
		s.fail(m, err)
		return
	} else if held {
		s.openLater(ctx, m, load)
		return
	}
	if err := s.moveTo(ctx, from); err != nil {
		s.fail(m, err)
		return
	}
	if s.thread != "" {
		if err := s.tidy(ctx); err != nil {
			s.proxy.logf("%s: %v", brief(s.id), err) // the first prompt will have to
		}
	}
	if native, err := s.native(ctx, load); err != nil {
		s.fail(m, err)
		return
	} else if native {
		s.openNative(ctx, m, load)
		return
	}
	s.openOurs(ctx, m, load)
}

// openLater opens a thread on which another client's turn is under way: the client
// sees what is recorded, and the agent's session is left alone until it prompts.
func (s *session) openLater(ctx context.Context, m acp.Message, load bool) {
	s.on = nil
	if load {
		if err := s.replay(ctx, nil); err != nil {
			s.fail(m, err)
			return
		}
	}
	s.reply(m, struct{}{})
	s.report("another client's turn is under way on this conversation; prompts are refused until it ends")
	s.announceCommands()
}

// native reports whether the agent can serve the request itself: it can load or
// resume, and its session has the whole conversation.
func (s *session) native(ctx context.Context, load bool) (bool, error) {
	s.rest = nil
	id := s.proxy.agent.identity()
	if (load && !id.Load) || (!load && !id.Resume) {
		return false, nil
	}
	if s.thread == "" {
		s.up = s.page.Upstream
		return true, nil
	}
	h, err := s.footing(ctx)
	if err != nil || h.link == nil {
		return false, err
	}
	if load {
		for l, err := range s.proxy.store.Chain(ctx, s.thread) {
			if err != nil || l.Fidelity == segno.FidelityPreamble || l.Fidelity == segno.FidelityNone {
				return false, err
			}
		}
	}
	if whole, err := s.wouldHold(ctx, h, load); err != nil || !whole {
		return false, err
	}
	if proc := s.proxy.agent.current(); s.on != nil && s.on == proc && s.up == h.link.Session && s.has != h.turnID() && !s.unload(ctx, proc) {
		return false, nil // somebody else went on in it, and the agent would not look
	}
	s.proxy.announce(s, h.link.Session, nil)
	s.has, s.heir = h.turnID(), h.link.Fidelity == segno.FidelityPreamble
	if load && h.turn != nil && h.turn.Interrupted {
		s.rest = &rest{turn: h.turn}
	}
	return true, nil
}

// wouldHold reports whether the agent's session can be trusted to have the thread's
// newest turn: its transcript has it, or what the agent replays will show.
func (s *session) wouldHold(ctx context.Context, h foothold, load bool) (bool, error) {
	if h.turn == nil || h.turn.Session.Session != h.link.Session {
		return true, nil
	}
	readable, err := s.holds(ctx, h.link.Session, h.turn)
	if err == errShort {
		return false, nil
	}
	if s.shown = nil; !readable && load {
		if s.shown, err = s.witnesses(ctx, h.link.Session, h.turn); err != nil {
			return false, err
		}
	}
	return readable || load || !s.proxy.agent.identity().Load, err
}

// openNative passes the request on. Should the agent refuse, it is served from what
// we have.
func (s *session) openNative(ctx context.Context, m acp.Message, load bool) {
	proc, err := s.proxy.agent.running(ctx)
	if err != nil {
		s.fail(m, err)
		return
	}
	if s.history = nil; load && s.needsHistory() {
		s.history, s.listens = new(history), true
	}
	s.proxy.announce(s, s.up, nil)
	proc.sendFrom(s.box, m.IDText(), m.Splice(s.inward(m)...), pending{
		answer: func(a acp.Message) {
			if !s.box.put(len(a.Line), func() { s.openedNative(proc, m, a, load) }) {
				s.proxy.toClient(a.Line) // the lane turned out to be of no session
			}
		},
		gone: func() {
			if !s.box.put(0, func() { s.openLost(m, load, errGone) }) {
				s.proxy.toClient(acp.Failure(m.IDText(), agentEnded()))
			}
		},
	})
}

func (s *session) openedNative(proc *process, m, a acp.Message, load bool) {
	s.heardAll()
	rest := s.rest
	s.rest = nil
	if e := a.Err(); e != nil {
		s.history = nil
		if s.page.Foreign && s.thread == "" {
			line := a.Splice(s.outward(a)...) // it is the agent's session and the agent's word
			s.forget()
			s.proxy.toClient(line)
			return
		}
		s.openLost(m, load, e)
		return
	}
	s.opens(proc, a)
	if s.shown != nil && !s.shown.whole() {
		s.proxy.logf("%s: session %s no longer has all of its turns", brief(s.id), s.up)
		s.broken, s.gone[s.up] = true, true // the next prompt goes on elsewhere
		if err := s.replay(s.proxy.ctx, s.shown); err != nil {
			s.proxy.logf("%s: show the turns that the agent has lost: %v", brief(s.id), err)
		}
		if rest != nil && !rest.found {
			rest = nil // it was shown with the others
		}
	}
	s.shown = nil
	s.remember()
	if rest != nil {
		if err := s.showRest(s.proxy.ctx, rest); err != nil {
			s.proxy.logf("%s: show the interrupted turn: %v", brief(s.id), err)
		}
	}
	s.closeCalls()
	s.proxy.toClient(a.Splice(s.outward(a)...))
	s.afterOpening(proc)
}

// afterOpening tells the agent the client's choices again, and the client what they
// are: the answer it got has the agent's own.
func (s *session) afterOpening(proc *process) {
	ctx, done := s.waiting()
	defer done()
	if err := s.replaySettings(context.WithoutCancel(ctx), proc); err != nil {
		s.proxy.logf("%v", err)
	}
	if s.tell = nil; s.thread != "" {
		h, err := s.footing(ctx)
		if err == nil {
			err = s.tellInterrupted(ctx, h)
		}
		if err != nil {
			s.proxy.logf("%v", err)
		}
	}
	s.tellSettings()
	s.announceCommands()
}

// openUnderWay serves a client that opens a session whose turn it runs already. The
// agent is not asked: what it would replay would be taken for the turn's.
func (s *session) openUnderWay(m acp.Message) {
	if dir := s.dirOf(m); dir != "" && dir != s.page.Dir {
		s.fail(m, segno.Errorf(segno.KindBusy, "open session", string(s.id), "%s", "a turn is under way in "+s.page.Dir).WithHint("wait for its end, or cancel it"))
		return
	}
	ctx, done := s.waiting()
	defer done()
	s.openOurs(ctx, m, m.MethodName() == "session/load")
}

// openLost serves a request that the agent would not, or did not live to.
func (s *session) openLost(m acp.Message, load bool, why error) {
	s.broken, s.history, s.listens, s.rest = true, nil, false, nil
	if errors.Is(why, errGone) {
		s.on = nil
	}
	ctx, done := s.waiting()
	defer done()
	s.openOurs(ctx, m, load)
}

// openOurs gives the client a session by the ladder, and replays the thread from
// our log if it wants that.
func (s *session) openOurs(ctx context.Context, m acp.Message, load bool) {
	defer s.reportLater()()
	if _, err := s.attach(ctx, "resume"); err != nil {
		if s.page.Foreign && s.thread == "" {
			s.forget()
		}
		s.fail(m, err)
		return
	}
	if load && s.thread != "" {
		if err := s.replay(ctx, nil); err != nil {
			s.fail(m, err)
			return
		}
	}
	s.remember()
	s.proxy.toClient(acp.Result(m.IDText(), s.openResult(nil)))
	s.tellSettings()
	s.announceCommands()
}

// openResult is what the agent answered when it opened the session below, for the
// client, with what we have to say of it.
func (s *session) openResult(ours map[string]any) json.RawMessage {
	result := map[string]json.RawMessage{}
	_ = s.result.Decode(s.result.Result, &result) // null is a result, too
	if result == nil {
		result = map[string]json.RawMessage{}
	}
	delete(result, "sessionId")
	if ours != nil {
		meta := map[string]json.RawMessage{}
		_ = json.Unmarshal(result["_meta"], &meta)
		if meta == nil {
			meta = map[string]json.RawMessage{}
		}
		meta["segno"] = acp.Encode(ours)
		result["_meta"] = acp.Encode(meta)
		result["sessionId"] = acp.Encode(string(s.id))
	}
	return acp.Encode(result)
}
