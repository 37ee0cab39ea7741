package proxy

import (
	"os"
	"slices"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/proc"
)

// runner publishes this process to other processes, so that 'segno generations pause' can end it.
type runner struct {
	mu   sync.Mutex
	last spool.Runner
}

// announce records that this process runs a thread with its current agent. The thread then no longer counts
// as paused.
func (r *runner) announce(p *proxy, thread segno.ThreadID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var agent spool.Process
	if now := p.agent.current(); now != nil {
		agent = spool.Process{PID: now.cmd.Process.Pid, Start: now.start}
	}
	known := slices.Contains(r.last.Threads, thread)
	if known && agent == r.last.Agent {
		return nil
	}
	next := spool.Runner{Process: spool.Process{PID: os.Getpid(), Start: proc.Start(os.Getpid())}, Verb: "acp", Agent: agent,
		Threads: r.last.Threads, Command: p.Command, Dir: p.Dir}
	if !known {
		next.Threads = append(slices.Clip(next.Threads), thread)
	}
	s := p.store.Spool()
	if err := s.KeepRunner(next); err != nil {
		return err
	}
	r.last = next
	return s.ClearPaused(thread)
}

// remove deletes the record that this process runs an agent.
func (r *runner) remove(p *proxy) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.last.Threads) == 0 {
		return nil
	}
	return p.store.Spool().RemoveRunner(r.last.Process)
}
