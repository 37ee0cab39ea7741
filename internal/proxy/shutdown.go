package proxy

import (
	"time"

	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/internal/failure"
)

// How long each step of the way out may take. Together they stay below ten seconds:
// editors kill what takes longer.
const (
	turnsGrace = 3 * time.Second         // for turns that are cancelled to end
	exitGrace  = 9 * time.Second         // for all of it
	inputGrace = 2500 * time.Millisecond // for the agent to end once its input is closed; codex takes two seconds
	agentGrace = time.Second             // and once it is told to
)

// shutDown ends everything when the client has closed its side: turns under way are
// cancelled and recorded, the agent and all it started is ended, and every lane.
// It reports whether all did end.
func (p *proxy) shutDown() bool {
	late := time.After(exitGrace)
	p.mu.Lock()
	p.closing = true
	lanes := make([]*session, 0, len(p.lanes))
	for _, s := range p.lanes {
		lanes = append(lanes, s)
	}
	p.mu.Unlock()

	ended := make(chan struct{}, len(lanes))
	for _, s := range lanes {
		s.cancelSoon()
		s.box.put(0, func() {
			s.queue = nil
			if s.turn == nil {
				ended <- struct{}{}
				return
			}
			s.turn.onEnd = func() { ended <- struct{}{} }
			s.cancelTurn()
		})
	}
	enough := time.After(turnsGrace)
wait:
	for range lanes {
		select {
		case <-ended:
		case <-enough:
			break wait
		}
	}
	proc := p.agent.current()
	if proc != nil {
		p.endAgent(proc)
	}
	for _, s := range lanes {
		s.box.put(0, func() {
			if s.turn != nil {
				s.finish(acp.Failure(s.turn.m.IDText(), agentEnded()), failure.Meaning{Name: "client gone", Turn: failure.Failed})
			}
		})
		s.box.close()
	}
	p.mu.Lock()
	for _, s := range p.left {
		s.box.close()
	}
	p.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.work.Wait()
	}()
	select {
	case <-done:
		return true
	case <-late:
		return false
	}
}

// endAgent closes the agent's input, then asks its group to end, then ends it.
func (p *proxy) endAgent(proc *process) {
	proc.told.Store(true)
	proc.stdin.Close()
	grace := inputGrace
	for _, step := range []func(){proc.terminate, proc.kill} {
		select {
		case <-proc.gone:
			return
		case <-time.After(grace):
			step()
			grace = agentGrace
		}
	}
	select {
	case <-proc.gone:
	case <-time.After(agentGrace):
	}
}
