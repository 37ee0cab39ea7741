package proxy

import (
	"context"
	"syscall"
	"time"

	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/proxy/failure"
)

// How long each step of shutting down may take. Together they take less than ten seconds:
// editors kill a process that takes longer.
const (
	turnsGrace = 3 * time.Second         // for cancelled turns to end
	exitGrace  = 9 * time.Second         // for everything
	inputGrace = 2500 * time.Millisecond // for the agent to end after its input is closed; codex takes two seconds
	agentGrace = time.Second             // for the agent to end after SIGTERM
)

// shutDown ends everything after the client has closed its side: it interrupts and records
// the turns under way, ends the agent and the processes that the agent started, and ends
// every session. It reports whether all goroutines ended in time.
func (p *proxy) shutDown() bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), exitGrace)
	defer cancel()
	p.closing.Store(true)
	sessions := p.allSessions()
	p.cancelTurns(sessions)
	if proc := p.agent.current(); proc != nil {
		p.endAgent(proc)
	}
	for _, s := range sessions {
		s.box.add(0, func() {
			if s.turn != nil {
				s.turn.finish(acp.Failure(s.turn.m.IDText(), agentEnded()), failure.Meaning{Name: "client gone", Turn: failure.Failed})
			}
			p.logErr(s.writeUnsaved()) // the next command records the end of that turn
		})
		s.box.close()
	}
	p.mu.Lock()
	for _, s := range p.forgotten {
		s.box.close()
	}
	p.mu.Unlock()
	waitFor(ctx, p.work.Wait)
	return ctx.Err() == nil
}

// cancelTurns cancels the turns under way and waits for their ends, for turnsGrace at most.
func (p *proxy) cancelTurns(sessions []*session) {
	ended := make(chan struct{}, len(sessions))
	for _, s := range sessions {
		s.setCancel(true)
		s.box.add(0, func() {
			if s.turn == nil {
				ended <- struct{}{}
				return
			}
			s.turn.onEnd = func() { ended <- struct{}{} }
			s.disconnect()
		})
	}
	timeout := time.After(turnsGrace)
	for range sessions {
		select {
		case <-ended:
		case <-timeout:
			return
		}
	}
}

// endAgent closes the agent's input. If the agent does not end in time, its group gets
// SIGTERM, then SIGKILL.
func (p *proxy) endAgent(proc *process) {
	proc.ending.Store(true)
	proc.stdin.Close()
	grace := inputGrace
	for _, next := range []func(){func() { _ = syscall.Kill(-proc.cmd.Process.Pid, syscall.SIGTERM) }, proc.kill, func() {}} {
		select {
		case <-proc.gone:
			return
		case <-time.After(grace):
			next()
			grace = agentGrace
		}
	}
}
