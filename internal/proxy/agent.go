package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/proxy/acp"
)

// errAgentEnded is the error of a request if the process ended before it answered.
var errAgentEnded = errors.New("the agent's process ended")

// agent runs the agent's command. It keeps the current process, and the messages that the
// proxy sends to each new process first.
type agent struct {
	proxy *proxy

	starting sync.Mutex // held while a process is started
	starts   int
	fails    atomic.Int32 // starts in a row that did no work; an answer to a prompt resets it
	calls    atomic.Int64 // requests of the proxy so far

	mu      sync.Mutex
	process *process
	hello   json.RawMessage // the params of the client's initialize
	auth    json.RawMessage // the params of the newest authenticate that succeeded; kept in memory only
	info    identity
}

// identity is an agent's name, version and capabilities.
type identity struct {
	Name, Version                     string
	Load                              bool
	Resume, Fork, List, Close, Delete bool
}

// segnoAgent is the name that segno's agent reports in its answer to initialize.
const segnoAgent = "segno"

// isSegno reports whether the agent is segno's. That agent commits each step before it sends
// the step to the client, and it distinguishes the proxy's preface of a prompt from the user's
// words.
func (id identity) isSegno() bool { return id.Name == segnoAgent }

// serves reports whether the agent can load or resume a session.
func (id identity) serves(isLoad bool) bool {
	if isLoad {
		return id.Load
	}
	return id.Resume
}

// maxFails is the number of starts in a row that may fail before a request fails.
const maxFails = 5

// backoff is the delay before the next start after n starts in a row that did no work.
func backoff(n int) time.Duration {
	if n == 0 {
		return 0
	}
	return min(250*time.Millisecond<<(n-1), 8*time.Second)
}

// start starts a process. It does not send initialize; introduce does.
func (a *agent) start() (*process, error) {
	proc, err := launch(a.proxy.ctx, a.starts+1, a.proxy.Config)
	if err != nil {
		return nil, err
	}
	a.starts++
	a.mu.Lock()
	a.process = proc
	a.mu.Unlock()
	a.proxy.work.Go(proc.reap)
	a.proxy.work.Go(func() { a.proxy.fromAgent(proc) })
	return proc, nil
}

// running returns a process that has received the client's initialize and authenticate. If the
// last process has ended, running starts another one and sends it both.
func (a *agent) running(ctx context.Context) (*process, error) {
	a.starting.Lock()
	defer a.starting.Unlock()
	if proc := a.current(); proc != nil {
		return proc, nil
	}
	for {
		fails := int(a.fails.Add(1)) - 1 // this start has done no work yet
		if fails >= maxFails {
			a.fails.Store(0) // the next request may try again
			return nil, segno.Errorf(segno.KindIO, "start agent", a.proxy.Command[0], "it ended %d times in a row", maxFails).
				WithHint("run the agent's command by hand to see what is wrong")
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
		if err = a.introduce(ctx, proc); err == nil {
			a.proxy.logf("the agent was started again (start %d)", proc.n)
			return proc, nil
		}
		proc.kill()
		if !errors.Is(err, errAgentEnded) {
			return nil, fmt.Errorf("start agent: %w", err)
		}
	}
}

// introduce sends a new process the client's initialize and authenticate.
func (a *agent) introduce(ctx context.Context, proc *process) error {
	a.mu.Lock()
	hello, auth := a.hello, a.auth
	a.mu.Unlock()
	if hello == nil {
		return nil
	}
	if _, err := a.call(ctx, proc, "initialize", hello, nil); err != nil || auth == nil {
		return err
	}
	_, err := a.call(ctx, proc, "authenticate", auth, nil)
	return err
}

// current returns the newest process, or nil if it has ended.
func (a *agent) current() *process {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.process == nil || a.process.isGone() {
		return nil
	}
	return a.process
}

// call sends a request in the proxy's name and waits for the answer. The error is an
// [*acp.Error] if the agent answered with one or took too long, and [errAgentEnded] if it
// ended first. onAnswer, if not nil, is called by the goroutine that reads the agent, before
// it reads the next message. It is also called if the answer comes, or the agent ends, after call has returned because ctx ended.
func (a *agent) call(ctx context.Context, proc *process, method string, params json.RawMessage, onAnswer func()) (acp.Message, error) {
	id := a.newID()
	ctx, cancel := context.WithTimeoutCause(ctx, answerWait, &acp.Error{Code: acp.CodeInternal,
		Message: fmt.Sprintf("%s: the agent did not answer in %v", method, answerWait)})
	defer cancel()
	answers := make(chan acp.Message, 1)
	ended := make(chan struct{})
	proc.send(nil, id, acp.Request(id, method, params), pending{ended: func() { close(ended) }, answer: func(m acp.Message) {
		if onAnswer != nil {
			onAnswer()
		}
		answers <- m
	}})
	select {
	case m := <-answers:
		if e := m.Err(); e != nil {
			return m, e
		}
		return m, nil
	case <-ended:
		return acp.Message{}, errAgentEnded
	case <-ctx.Done():
		proc.abandon(id, onAnswer)
		if cause := context.Cause(ctx); isAnswer(cause) {
			return acp.Message{}, cause
		}
		return acp.Message{}, fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// newID returns an id for a request that the proxy itself sends. The prefix keeps it apart
// from the ids of the client's requests.
func (a *agent) newID() string { return fmt.Sprintf(`"segno:%d"`, a.calls.Add(1)) }

// learn stores the client's initialize for later processes, and the identity from the agent's
// answer.
func (a *agent) learn(hello, m acp.Message) {
	caps := m.Find(m.Result, "agentCapabilities")
	can := func(name string) bool {
		at := m.Find(caps, "sessionCapabilities", name)
		return !at.IsZero() && string(at.Of(m.Line)) != "null"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hello = bytes.Clone(hello.Params.Of(hello.Line))
	a.info = identity{
		Name:    m.Text(m.Find(m.Result, "agentInfo", "name")),
		Version: m.Text(m.Find(m.Result, "agentInfo", "version")),
		Load:    string(m.Find(caps, "loadSession").Of(m.Line)) == "true",
		Resume:  can("resume"), Fork: can("fork"), List: can("list"), Close: can("close"), Delete: can("delete"),
	}
}

func (a *agent) identity() identity {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.info
}

// name is the agent's name in links and checkpoints. For an agent whose transcripts segno can
// read, it is the name of the transcript format.
func (a *agent) name() string {
	name := a.identity().Name
	if name == "" {
		return filepath.Base(a.proxy.Command[0])
	}
	for _, p := range agents.All() {
		if slices.ContainsFunc(p.Adapters, func(part string) bool { return strings.Contains(name, part) }) {
			return p.Name
		}
	}
	return name
}
