package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/internal/proc"
)

// process is one start of the agent, with everything it started: its process group
// ends when it does.
type process struct {
	n     int // which start this is
	cmd   *exec.Cmd
	start string // when it started, see [process.Start]
	in    *acp.Writer
	stdin *os.File
	out   *os.File
	gone  chan struct{} // closed when its last message was read and its group ended
	told  atomic.Bool   // to end
	heard atomic.Int64  // how many lines it has written
	how   atomic.Value  // a string: how it ended
	ctx   context.Context

	mu      sync.Mutex
	pending map[string]pending // requests it owes an answer, by the id's text
	asked   int                // requests so far
	left    bool               // gone: nothing more is owed
}

// pending is a request the agent was sent. One of answer and gone is called, once, by the
// goroutine that reads the agent; neither may block.
type pending struct {
	id     string // as it was written
	n      int    // which request it is
	answer func(acp.Message)
	gone   func()

	// doubted is called if the answer may have come under another id. It calls fail once
	// it is sure of that. If it is nil, the request fails when the agent falls silent.
	doubted func(fail func())
}

// launch starts the agent's command in a process group of its own.
func launch(ctx context.Context, n int, c Config) (*process, error) {
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "start agent", "", err)
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		in.Close()
		stdin.Close()
		return nil, segno.NewError(segno.KindIO, "start agent", "", err)
	}
	defer in.Close()
	defer stdout.Close()
	cmd := exec.Command(c.Command[0], c.Command[1:]...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second // a child may hold the log open
	if err := cmd.Start(); err != nil {
		stdin.Close()
		out.Close()
		kind := segno.KindIO
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			kind = segno.KindNotFound
		}
		return nil, segno.NewError(kind, "start agent", c.Command[0], cause(err)).WithHint("give the agent's command after --, with its whole path if the editor has a PATH of its own")
	}
	return &process{n: n, cmd: cmd, start: proc.Start(cmd.Process.Pid), in: acp.NewWriter(stdin), stdin: stdin, out: out,
		gone: make(chan struct{}), ctx: ctx, pending: map[string]pending{}}, nil
}

// cause strips the command's name, which the error above it has.
func cause(err error) error {
	var e *exec.Error
	if errors.As(err, &e) {
		return e.Err
	}
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// reap waits for the process and ends what it leaves behind; its output then ends.
// What is left of an agent that died would go on with its turn alone. What is left of
// one that was told to end is given the time to do so.
func (p *process) reap() {
	_ = p.cmd.Wait() // it is gone, however
	p.how.Store(p.cmd.ProcessState.String())
	if p.told.Load() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), agentGrace)
		defer cancel()
		waitGroup(ctx, p.cmd.Process.Pid)
	}
	p.kill()
	// What escaped may hold the output open. What was written is still read.
	_ = p.out.SetReadDeadline(time.Now().Add(time.Second))
}

// kill ends the whole group at once, and what its members started in groups of
// their own: an agent's shell tool does. Once the group is gone its number may be
// somebody else's.
func (p *process) kill() {
	if !p.isGone() {
		killGroup(p.cmd.Process.Pid)
	}
}

// group is the process group, and when the process that leads it started.
func (p *process) group() (int, string) { return p.cmd.Process.Pid, p.start }

// terminate asks the whole group to end.
func (p *process) terminate() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM) }

// send writes a request and keeps who waits for its answer.
func (p *process) send(id string, line []byte, w pending) {
	if line, ok := p.expect(id, line, w); ok {
		_ = p.in.Write(line) // a broken pipe is an agent that goes; the reader tells
	}
}

// sendFrom is send for a lane, see write.
func (p *process) sendFrom(box *mailbox, id string, line []byte, w pending) {
	if line, ok := p.expect(id, line, w); ok {
		p.write(box, line)
	}
}

// expect registers the handler of the answer to a request, and returns the request as it is to
// be written: a client may use an id again while it still waits for an answer under it.
// A process that has ended sends no answer.
func (p *process) expect(id string, line []byte, w pending) ([]byte, bool) {
	p.mu.Lock()
	if p.left {
		p.mu.Unlock()
		w.gone()
		return nil, false
	}
	defer p.mu.Unlock()
	p.asked++
	w.id, w.n = id, p.asked
	if _, taken := p.pending[acp.CanonicalID(id)]; taken {
		if m, err := acp.Parse(line); err == nil {
			id = fmt.Sprintf("%q", fmt.Sprintf("segno:again:%d", p.asked))
			line = m.WithID(id).Line
		}
	}
	p.pending[acp.CanonicalID(id)] = w
	return line, true
}

// write writes a line for a lane. An agent that does not read before somebody has
// read what it writes must find room for that.
func (p *process) write(box *mailbox, line []byte) {
	defer box.widen()()
	_ = p.in.Write(line) // a broken pipe is an agent that goes; the reader tells
}

// expects reports whether a request has no answer yet.
func (p *process) expects(id string) bool {
	_, ok := p.owed(id)
	return ok
}

// owed returns what happens when a request that has no answer yet gets it.
func (p *process) owed(id string) (pending, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.pending[acp.CanonicalID(id)]
	return w, ok
}

// take returns who waits for an answer.
func (p *process) take(id string) (pending, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.pending[acp.CanonicalID(id)]
	delete(p.pending, acp.CanonicalID(id))
	return w, ok
}

// waiting returns the ids of the requests that have no answer, oldest first.
func (p *process) waiting() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(maps.Keys(p.pending), func(a, b string) int { return p.pending[a].n - p.pending[b].n })
}

// fail answers a request that the agent will not answer. Any goroutine may call it.
func (p *process) fail(id, why string) {
	if w, ok := p.take(id); ok {
		if m, err := acp.Parse(acp.Failure(w.id, &acp.Error{Code: acp.CodeInternal, Message: "segno: " + why})); err == nil {
			w.answer(m)
		}
	}
}

// leave tells everybody who still waits that no answer comes.
func (p *process) leave() {
	p.mu.Lock()
	p.left = true
	waiting := p.pending
	p.pending = nil
	p.mu.Unlock()
	close(p.gone)
	for _, w := range waiting {
		w.gone()
	}
}

// isGone reports whether the process has ended.
func (p *process) isGone() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}
