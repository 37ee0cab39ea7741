package proxy

import (
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
)

// close ends the session in the agent; its thread stays.
func (s *session) close(m acp.Message) {
	s.end(m, s.proxy.agent.identity().Close)
}

// delete ends the session, in the agent too if that can, and takes it off the
// lists. Its thread stays in 'segno threads': nothing is truncated.
func (s *session) delete(m acp.Message) {
	if err := s.settle(); err != nil {
		s.fail(m, err)
		return
	}
	s.page.Deleted = true
	s.remember()
	if s.turn != nil {
		s.cancelTurn()
	}
	if s.proxy.agent.identity().Delete {
		s.deleteSessions()
	}
	s.on = nil
	s.reply(m, struct{}{})
}

// deleteSessions has the agent delete every session that the thread has held. What
// it does not have is deleted.
func (s *session) deleteSessions() {
	ctx, done := s.waiting()
	defer done()
	proc, err := s.proxy.agent.running(ctx)
	if err != nil {
		s.proxy.logf("%s: delete: %v", brief(s.id), err)
		return
	}
	ids := []segno.SessionID{s.page.Upstream}
	if s.thread != "" {
		ids = nil
		for l, err := range s.proxy.store.Chain(ctx, s.thread) {
			if err == nil && l.Agent == s.page.Agent && !slices.Contains(ids, l.Session) {
				ids = append(ids, l.Session)
			}
		}
	}
	for _, id := range ids {
		if _, err := s.proxy.agent.call(ctx, proc, "session/delete", acp.Encode(map[string]any{"sessionId": id}), nil); err != nil && !isAnswer(err) {
			s.proxy.logf("%s: delete: %v", brief(s.id), err)
			return
		}
	}
}

func (s *session) end(m acp.Message, agentCan bool) {
	if s.turn != nil {
		s.cancelTurn()
	}
	s.history = nil // the agent shows it again if the session goes on
	if proc := s.proxy.agent.current(); agentCan && proc != nil && s.on == proc && !s.broken {
		// That the agent has lost the session, or is gone, is no reason to keep it open.
		ended := func() { s.reply(m, struct{}{}) }
		proc.sendFrom(s.box, m.IDText(), m.Splice(s.inward(m)...), pending{gone: ended, answer: func(a acp.Message) {
			if a.Err() != nil {
				ended()
				return
			}
			s.box.put(0, func() { s.proxy.toClient(a.Splice(s.outward(a)...)) })
		}})
		s.on = nil
		return
	}
	s.reply(m, struct{}{}) // an agent that cannot close it keeps it
}

// forget drops a lane that turned out to be of no session.
// What is under way there is still answered.
func (s *session) forget() {
	if s.forgotten {
		return
	}
	s.forgotten = true
	s.proxy.mu.Lock()
	if s.proxy.lanes[s.id] == s {
		delete(s.proxy.lanes, s.id)
	}
	if s.proxy.upstream[s.up] == s {
		delete(s.proxy.upstream, s.up)
	}
	s.proxy.left = append(s.proxy.left, s)
	s.proxy.mu.Unlock()
}
