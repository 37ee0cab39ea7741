package proxy

import (
	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
)

// newSession passes on the client's wish for a session, a new one or a fork of one
// that is not ours. The agent's id becomes the one the client keeps.
func (p *proxy) newSession(m acp.Message) {
	defer p.done()
	proc, err := p.agent.running(p.ctx)
	if err != nil {
		p.toClient(acp.Failure(m.IDText(), refusal(err)))
		return
	}
	answered := make(chan struct{})
	proc.send(m.IDText(), m.Line, pending{
		answer: func(a acp.Message) {
			defer close(answered)
			up := segno.SessionID(a.SessionID())
			if a.Err() != nil || up == "" {
				p.toClient(a.Line)
				return
			}
			id := up
			if p.book.has(up) || p.knows(up) {
				p.logf("the agent gave a session the id of an earlier one; the client knows it by another")
				id = segno.SessionID(segno.NewID())
			}
			s := p.newLane(id)
			p.announce(s, up, func() { s.announced(proc, m, a) })
		},
		gone: func() {
			defer close(answered)
			p.toClient(acp.Failure(m.IDText(), agentEnded()))
		},
	})
	<-answered
}

// announced is a lane's first step: the agent made the session. It is remembered
// before the client hears of it.
func (s *session) announced(proc *process, m, a acp.Message) {
	s.begunAs(m, segno.SessionID(a.SessionID()))
	s.page.Foreign = m.MethodName() == "session/fork"
	s.opens(proc, a)
	s.fresh = false
	if err := s.proxy.book.write(s.page); err != nil && !s.proxy.BestEffort {
		s.fail(m, err)
		return
	}
	s.proxy.toClient(a.Splice(s.outward(a)...))
	s.announceCommands()
}
