package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
)

// errGone is the answer of a process that ended first.
var errGone = errors.New("the agent's process ended")

// agent is the agent's command: the process that runs it now, and what every new
// one must be told.
type agent struct {
	proxy *proxy

	starting sync.Mutex // held while a process is started
	starts   int

	known sync.Mutex
	now   *process
	fails int             // starts in a row that did no work
	hello json.RawMessage // the client's initialize, as it was sent
	auth  json.RawMessage // its newest authenticate that succeeded
	info  identity
	calls int
}

// identity is what an agent says of itself.
type identity struct {
	Name, Version                     string
	Load                              bool
	Resume, Fork, List, Close, Delete bool
}

// ownAgent is what segno's agent calls itself.
const ownAgent = "segno"

// ours reports whether it is segno's own agent. Its log has every step before anybody
// hears of it, and it tells what we say before a prompt from what the user says.
func (id identity) ours() bool { return id.Name == ownAgent }

func newAgent(p *proxy) *agent { return &agent{proxy: p} }

// backoff is how long to wait before the agent is started for the n-th time in a
// row without having done any work.
func backoff(n int) time.Duration {
	if n == 0 {
		return 0
	}
	return min(250*time.Millisecond<<(n-1), 8*time.Second)
}

// maxFails is how many starts in a row may fail before the client is told.
const maxFails = 5

// start starts a process without a word.
func (a *agent) start() (*process, error) {
	proc, err := launch(a.proxy.ctx, a.starts+1, a.proxy.Config)
	if err != nil {
		return nil, err
	}
	a.starts++
	a.known.Lock()
	a.now = proc
	a.known.Unlock()
	a.proxy.work.Go(proc.reap)
	a.proxy.work.Go(func() { a.proxy.fromAgent(proc) })
	return proc, nil
}

// running returns a process that is ready for work: the one there is, or a new one
// that was told what the client told the first.
func (a *agent) running(ctx context.Context) (*process, error) {
	a.starting.Lock()
	defer a.starting.Unlock()
	if proc := a.current(); proc != nil {
		return proc, nil
	}
	for {
		fails := a.failed()
		if fails >= maxFails {
			a.worked() // the next request may try again
			return nil, segno.Errorf(segno.KindIO, "start agent", a.proxy.Command[0], "it ended %d times in a row", maxFails).WithHint("run the agent's command by hand to see what is wrong")
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(backoff(fails)):
		}
		proc, err := a.start()
		if err != nil {
			return nil, err
		}
		err = a.introduce(ctx, proc)
		if err == nil {
			a.proxy.logf("the agent was started again (start %d)", proc.n)
			return proc, nil
		}
		proc.kill()
		if !errors.Is(err, errGone) {
			return nil, fmt.Errorf("start agent: %w", err)
		}
	}
}

// introduce tells a new process what the client told the first.
func (a *agent) introduce(ctx context.Context, proc *process) error {
	a.known.Lock()
	hello, auth := a.hello, a.auth
	a.known.Unlock()
	if hello == nil {
		return nil
	}
	if _, err := a.call(ctx, proc, "initialize", hello, nil); err != nil || auth == nil {
		return err
	}
	_, err := a.call(ctx, proc, "authenticate", auth, nil)
	return err
}

// worked says that the process is of use: should it end, a new one is started at
// once. What a turn may cost is limited by the turn.
func (a *agent) worked() {
	a.known.Lock()
	defer a.known.Unlock()
	a.fails = 0
}

// failed counts one more start that has done no work yet, and returns how many
// there were before.
func (a *agent) failed() int {
	a.known.Lock()
	defer a.known.Unlock()
	a.fails++
	return a.fails - 1
}

// current returns the process there is, nil if it has ended.
func (a *agent) current() *process {
	a.known.Lock()
	defer a.known.Unlock()
	if a.now == nil || a.now.isGone() {
		return nil
	}
	return a.now
}

// call sends a request of our own. The error is an [*acp.Error] if the agent
// answered with one or took too long, [errGone] if it ended first. then, if not nil, is called where
// the agent is read, before anything that comes after the answer.
func (a *agent) call(ctx context.Context, proc *process, method string, params json.RawMessage, then func()) (acp.Message, error) {
	id := a.ownID()
	late := time.NewTimer(answerWait)
	defer late.Stop()
	answers := make(chan acp.Message, 1)
	gone := make(chan struct{})
	proc.send(id, acp.Request(id, method, params), pending{
		answer: func(m acp.Message) {
			if then != nil {
				then()
			}
			answers <- m
		},
		gone: func() { close(gone) },
	})
	select {
	case m := <-answers:
		if e := m.Err(); e != nil {
			return m, e
		}
		return m, nil
	case <-gone:
		return acp.Message{}, errGone
	case <-ctx.Done():
		proc.take(id)
		return acp.Message{}, fmt.Errorf("%s: %w", method, ctx.Err())
	case <-late.C:
		proc.take(id)
		return acp.Message{}, &acp.Error{Code: acp.CodeInternal, Message: fmt.Sprintf("%s: the agent did not answer in %v", method, answerWait)}
	}
}

// ownID is the id of a request of ours: a string no client of ours would think of.
func (a *agent) ownID() string {
	a.known.Lock()
	defer a.known.Unlock()
	a.calls++
	return fmt.Sprintf("%q", fmt.Sprintf("segno:%d", a.calls))
}

// learn keeps the client's initialize, and what the agent's answer to it says.
func (a *agent) learn(hello, m acp.Message) {
	caps := m.Find(m.Result, "agentCapabilities")
	session := func(name string) bool {
		at := m.Find(caps, "sessionCapabilities", name)
		return !at.IsZero() && string(at.Of(m.Line)) != "null"
	}
	a.known.Lock()
	defer a.known.Unlock()
	a.hello = append(json.RawMessage(nil), hello.Params.Of(hello.Line)...)
	a.info = identity{
		Name:    m.Text(m.Find(m.Result, "agentInfo", "name")),
		Version: m.Text(m.Find(m.Result, "agentInfo", "version")),
		Load:    string(m.Find(caps, "loadSession").Of(m.Line)) == "true",
		Resume:  session("resume"), Fork: session("fork"), List: session("list"), Close: session("close"), Delete: session("delete"),
	}
}

func (a *agent) identity() identity {
	a.known.Lock()
	defer a.known.Unlock()
	return a.info
}

// name is what links and checkpoints call the agent. Those whose transcripts can be
// read go by the transcripts' name.
func (a *agent) name() string {
	name := a.identity().Name
	switch {
	case strings.Contains(name, "claude-agent-acp"), strings.Contains(name, "claude-code-acp"):
		return "claude"
	case strings.Contains(name, "codex-acp"):
		return "codex"
	case name == "":
		return filepath.Base(a.proxy.Command[0])
	}
	return name
}
