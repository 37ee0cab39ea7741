package proxy

import (
	"cmp"
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
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/internal/proxy/acp"
)

// process is one start of the agent. When it ends, the proxy kills its process group.
type process struct {
	n       int // the number of the start, from 1
	cmd     *exec.Cmd
	start   string // when it started, see [proc.Start]
	in      *acp.Writer
	stdin   *os.File
	out     *os.File
	gone    chan struct{} // closed after its last message was read and its group was killed
	ending  atomic.Bool   // the proxy asked it to end
	lines   atomic.Int64  // lines that it has written
	outcome atomic.Value  // a string: its exit status
	ctx     context.Context

	mu      sync.Mutex
	pending map[string]pending // requests without an answer, by [acp.CanonicalID]
	sent    int                // requests so far
	left    bool               // no answer will come any more
}

// pending is a request that the agent has not answered. Exactly one of answer and ended is
// called, once, by the goroutine that reads the agent; neither may block.
type pending struct {
	id     string // in the sender's form
	answer func(acp.Message)
	ended  func() // the process ended before it answered

	// doubted is called if the answer may have arrived under another id. It calls fail once
	// it is certain. If doubted is nil, the request fails when the agent falls silent.
	doubted func(fail func())
}

// launch starts the agent's command in a separate process group.
func launch(ctx context.Context, n int, c Config) (*process, error) {
	in, stdin, err := os.Pipe()
	out, stdout, outErr := os.Pipe()
	defer in.Close()
	defer stdout.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), c.Command[0], c.Command[1:]...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second // a child process may hold the log open
	if err = errors.Join(err, outErr); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		stdin.Close()
		out.Close()
		kind := segno.KindIO
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			kind = segno.KindNotFound
		}
		cause := cmp.Or(errors.Unwrap(err), err) // without the command's name
		return nil, segno.NewError(kind, "start agent", c.Command[0], cause).
			WithHint("give the agent's command after --, with its whole path if the editor has a different PATH")
	}
	return &process{n: n, cmd: cmd, start: proc.Start(cmd.Process.Pid), in: acp.NewWriter(stdin), stdin: stdin, out: out,
		gone: make(chan struct{}), ctx: ctx, pending: map[string]pending{}}, nil
}

// reap waits for the process and kills the rest of its group; its output then ends. If the
// proxy did not ask the agent to end, reap kills the rest at once, because it would continue
// the turn alone. Otherwise the rest gets time to end.
func (p *process) reap() {
	_ = p.cmd.Wait() // the exit status is in ProcessState
	p.outcome.Store(p.cmd.ProcessState.String())
	if p.ending.Load() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), agentGrace)
		defer cancel()
		waitGroup(ctx, p.cmd.Process.Pid)
	}
	p.kill()
	// A process that left the group may hold the output open. The reader still gets the
	// output written so far.
	_ = p.out.SetReadDeadline(time.Now().Add(time.Second))
}

// end is called once, by the goroutine that reads the output, after the last message. It
// releases a process whose output has ended: no answer comes any more.
func (p *process) end() {
	p.kill()
	p.stdin.Close()
	p.out.Close()
	p.mu.Lock()
	p.left = true
	waiting := p.pending
	p.pending = nil
	p.mu.Unlock()
	close(p.gone)
	for _, w := range waiting {
		w.ended()
	}
}

// kill kills the whole group and the groups that its members started: an agent's shell tool
// starts such groups. It does nothing once the process is gone, because the system may then
// give the group id to another group.
func (p *process) kill() {
	if !p.isGone() {
		killGroup(p.cmd.Process.Pid)
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

// send writes a request and registers w for its answer. A session's goroutine passes its
// mailbox, see write.
func (p *process) send(box *mailbox, id string, line []byte, w pending) {
	if line, ok := p.expect(id, line, w); ok {
		p.write(box, line)
	}
}

// write writes a line. A session's goroutine passes its mailbox, others pass nil. While the
// write waits for the agent to read, the mailbox accepts any number of messages, because the
// agent may not read before the proxy has read its output.
func (p *process) write(box *mailbox, line []byte) {
	if box != nil {
		defer box.liftLimit()()
	}
	_ = p.in.Write(line) // the reader notices a broken pipe
}

// expect registers w for the answer to a request and returns the line to write. If an
// earlier request with the same id has no answer yet, the line gets another id, and the
// answer gets the original id back. If the process has ended, expect calls w.ended and
// returns false. It calls w.ended without the lock, because w.ended may send another
// request.
func (p *process) expect(id string, line []byte, w pending) ([]byte, bool) {
	p.mu.Lock()
	if p.left {
		p.mu.Unlock()
		w.ended()
		return nil, false
	}
	defer p.mu.Unlock()
	p.sent++
	w.id = id
	if _, taken := p.pending[acp.CanonicalID(id)]; taken {
		if m, err := acp.Parse(line); err == nil {
			id = fmt.Sprintf("%q", fmt.Sprintf("segno:again:%d", p.sent))
			line = m.WithID(id).Line
		}
	}
	p.pending[acp.CanonicalID(id)] = w
	return line, true
}

// lookup returns the request with an id, if it has no answer yet.
func (p *process) lookup(id string) (pending, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.pending[acp.CanonicalID(id)]
	return w, ok
}

// take is lookup, and removes the request.
func (p *process) take(id string) (pending, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.pending[acp.CanonicalID(id)]
	delete(p.pending, acp.CanonicalID(id))
	return w, ok
}

// abandon makes a request call only done when its answer comes or the process ends. It does nothing if the answer has come.
func (p *process) abandon(id string, done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := acp.CanonicalID(id)
	w, ok := p.pending[key]
	switch {
	case !ok:
	case done == nil:
		delete(p.pending, key)
	default:
		p.pending[key] = pending{id: w.id, answer: func(acp.Message) { done() }, ended: done}
	}
}

// unanswered returns the keys of the requests that have no answer.
func (p *process) unanswered() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.pending))
}

// fail answers a request in the agent's place. Any goroutine may call it.
func (p *process) fail(id, why string) {
	if w, ok := p.take(id); ok {
		if m, err := acp.Parse(acp.Failure(w.id, &acp.Error{Code: acp.CodeInternal, Message: "segno: " + why})); err == nil {
			w.answer(m)
		}
	}
}
