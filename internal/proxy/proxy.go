// Package proxy is a durable proxy between a client and an agent that speak the Agent
// Client Protocol. It forwards their messages byte for byte, records each turn as a
// checkpoint, and keeps the conversation alive when the agent loses its session.
//
// # Goroutines
//
// One goroutine reads the client and one reads the agent's process. The messages of a
// session go through the session's mailbox, which one goroutine empties: a session's
// messages keep their order in both directions, and a slow step of one session does not
// block the others until 8 MiB of messages wait for it. The reading goroutine makes a
// step that never blocks itself if the mailbox is idle, because waking the session's
// goroutine would take longer than the step. Messages of no session are forwarded by the
// goroutine that reads them. Each direction has one writer, which all sessions share.
//
// # Session ids
//
// The client keeps the first session id that a thread got. The agent's session id may
// change while the client's stays; the proxy then replaces the id in each message. The
// session index records which client id belongs to which thread.
//
// # Turns
//
// The proxy records a prompt, then writes it to the agent. The agent's answer is
// forwarded after the turn is committed with its files and transcript. A prompt counts as
// seen once it was written to the agent. Package failure decides how to handle a failure;
// turnrecovery.go does it.
package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/internal/proxy/acp"
)

// Config describes one run of the proxy.
type Config struct {
	Command []string // the agent's command line
	Env     []string // the agent's environment
	Dir     string   // the agent's working directory

	Stdin          io.Reader // messages from the client
	Stdout, Stderr io.Writer // messages to the client, and the log of both sides

	Place      local.Place
	NoPlace    error // why Place could not be opened; nil if it was
	BestEffort bool  // continue with a turn that cannot be recorded
	NoWatch    bool  // read every directory at each turn, instead of watching them

	// Store records the turns; nil means the store of Place. The session index is always at Place.
	Store     Store
	Continued *Continued // nil unless the client is a program that continues one thread

	cancelWait time.Duration // 0 means the constant cancelWait
	strayWait  time.Duration // 0 means the constant answerWait
}

// The longest waits of the proxy.
const (
	answerWait = 2 * time.Minute  // for the agent to answer a request of the proxy
	refuseWait = 3 * time.Second  // the proxy did not start an agent and waits for the client's first request
	cancelWait = 30 * time.Second // for a cancelled turn to end
	storeWait  = 2 * time.Second  // for the store's writer, while the client waits
)

// proxy is one run.
type proxy struct {
	Config
	ctx    context.Context
	client *acp.Writer
	agent  *agent
	store  Store
	index  sessionIndex
	owner  string // of leases: this process
	// machine is where this process can be seen, see [proc.Machine]. A process in another PID namespace, such as a container with
	// the same store, cannot tell whether the owner of a lease runs.
	machine string
	runner  runner
	work    sync.WaitGroup
	// releases has a channel for each owner of a lease whose release is late. It is closed after the release. The owner's next lease has
	// the same epoch if it is acquired before, so the release would end it.
	releases sync.Map

	ready   atomic.Bool // the agent answered initialize
	closing atomic.Bool
	notices atomic.Bool // the client supports the update "notice"

	mu        sync.Mutex
	sessions  map[segno.SessionID]*session // by the client's id
	upstream  map[segno.SessionID]*session // by the agent's id
	forgotten []*session                   // sessions that the agent does not have
	opening   int                          // requests under way that make a session
	held      []acp.Message                // updates of sessions that are not announced yet
	asked     map[string]*clientRequest    // the agent's requests to the client
}

// Run forwards messages until the client closes its side, then ends the agent. It returns an
// error if the agent's command cannot be started or the store cannot be opened.
func Run(ctx context.Context, c Config) error {
	c.Place.StoreWait, c.Place.Actor = cmp.Or(c.Place.StoreWait, storeWait), segno.ActorACP
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	p := &proxy{Config: c, ctx: inner, client: acp.NewWriter(c.Stdout), index: sessionIndex{dir: c.Place.Store, fs: c.Place.FS},
		sessions: map[segno.SessionID]*session{}, upstream: map[segno.SessionID]*session{}, asked: map[string]*clientRequest{},
		owner: fmt.Sprintf("acp %d %s", os.Getpid(), cmp.Or(proc.Start(os.Getpid()), "-")), machine: proc.Machine()}
	p.agent = &agent{proxy: p}
	if err := p.start(); err != nil {
		if c.BestEffort && p.store == nil {
			p.logf("nothing is recorded: %v", err)
			return p.relay(ctx)
		}
		p.refuse(ctx, err)
		return err
	}
	waitFor(ctx, p.fromClient)
	done := p.shutDown()
	p.logErr(p.runner.remove(p))
	if done {
		return p.store.Close()
	}
	return nil // a goroutine hangs; it ends with the process
}

// waitFor runs f and returns when f returns or ctx ends. If ctx ends first, f continues to
// run.
func waitFor(ctx context.Context, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// start opens the store and starts the agent, which warms up while the client initializes.
func (p *proxy) start() (err error) {
	if p.NoPlace != nil {
		return p.NoPlace
	}
	if p.store = p.Store; p.store == nil {
		opened, err := p.Place.Open(p.ctx)
		if err != nil {
			return err
		}
		p.store = opened
	}
	p.index.sealer = p.store
	if !p.NoWatch {
		p.store.Watch(p.ctx, p.logf)
	}
	if _, err = p.agent.start(); err != nil {
		return errors.Join(err, p.store.Close())
	}
	return nil
}

// relay copies bytes between the client and the agent and records nothing. It ends when
// either side ends. It is for users who chose to continue without a record if the store
// cannot be opened.
func (p *proxy) relay(ctx context.Context) error {
	proc, err := launch(p.ctx, 1, p.Config)
	if err != nil {
		p.refuse(ctx, err)
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p.work.Go(proc.reap)
	p.work.Go(func() {
		_, _ = io.Copy(p.Stdout, proc.out) // it ends with the agent, or with a client that stopped reading
		proc.end()
		stop()
	})
	waitFor(ctx, func() { _, _ = io.Copy(proc.stdin, p.Stdin) })
	p.endAgent(proc)
	p.work.Wait()
	return nil
}

// refuse answers the client's first request with the reason why the proxy cannot start.
func (p *proxy) refuse(ctx context.Context, why error) {
	ctx, cancel := context.WithTimeout(ctx, refuseWait)
	defer cancel()
	waitFor(ctx, func() {
		in := acp.NewReader(p.Stdin)
		for {
			line, err := in.Next()
			if err != nil && !errors.Is(err, acp.ErrTooLong) {
				return
			}
			if m, err := acp.Parse(line); err == nil && m.IsRequest() {
				p.fail(m, why)
				return
			}
		}
	})
}

// toClient writes one line to the client. It ignores a failed write: when the client closes
// the other direction, the run ends.
func (p *proxy) toClient(line []byte) { _ = p.client.Write(line) }

// fail answers a request of the client with an error of the proxy.
func (p *proxy) fail(m acp.Message, err error) { p.failWith(m, clientError(err)) }

// failWith answers a request of the client with an error. A notification gets no answer.
func (p *proxy) failWith(m acp.Message, err *acp.Error) {
	if m.IsRequest() {
		p.toClient(acp.Failure(m.IDText(), err))
	}
}

// result answers a request of the client.
func (p *proxy) result(m acp.Message, result any) {
	if m.IsRequest() {
		p.toClient(acp.Result(m.IDText(), acp.Encode(result)))
	}
}

// withAgent calls f with a process of the agent, in a goroutine. If the agent cannot be
// started, the request m is answered with the error.
func (p *proxy) withAgent(m acp.Message, f func(*process)) {
	p.work.Go(func() {
		proc, err := p.agent.running(p.ctx)
		if err != nil {
			p.fail(m, err)
			return
		}
		f(proc)
	})
}

// logf writes one line to the log. Parts of it come from the agent, and users read the log in a terminal.
func (p *proxy) logf(format string, args ...any) {
	fmt.Fprintf(p.Stderr, "segno acp: %s\n", printable.Inline(fmt.Sprintf(format, args...)))
}

// logErr logs an error, and ignores nil.
func (p *proxy) logErr(err error) {
	if err != nil {
		p.logf("%v", err)
	}
}

// clientError is the answer to a request that the proxy cannot serve.
func clientError(err error) *acp.Error {
	data := map[string]any{"kind": segno.KindOf(err)}
	if hint := segno.HintOf(err); hint != "" {
		data["hint"] = hint
	}
	code := acp.CodeOf(segno.KindOf(err))
	if answer, ok := errors.AsType[*acp.Error](err); ok && (answer.Code == acp.CodeAuthRequired || answer.Code == acp.CodeMethodNotFound) {
		code = answer.Code // clients act on these
	}
	return &acp.Error{Code: code, Message: "segno: " + err.Error(), Data: acp.Encode(map[string]any{"segno": data})}
}

// invalidRequest is the answer to a request that breaks the protocol.
func invalidRequest(why string) *acp.Error {
	return &acp.Error{Code: acp.CodeInvalidRequest, Message: "Invalid request: " + why}
}

// agentEnded is the answer to a request if the agent ended before it answered.
func agentEnded() *acp.Error {
	return &acp.Error{Code: acp.CodeInternal, Message: "segno: the agent's process ended before it answered; ask again",
		Data: acp.Encode(map[string]any{"segno": map[string]any{"kind": "io", "restartable": true}})}
}

// isAnswer reports whether an error is an answer of the agent.
func isAnswer(err error) bool {
	_, ok := errors.AsType[*acp.Error](err)
	return ok
}

// session returns the session of a client's id, nil if it is not open.
func (p *proxy) session(id segno.SessionID) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sessions[id]
}

// openSession returns the session of a client's id. If the session is not open, openSession
// starts its goroutine.
func (p *proxy) openSession(id segno.SessionID) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sessions[id]; s != nil {
		return s
	}
	s := newSession(p)
	s.id = id
	p.sessions[id] = s
	if p.closing.Load() {
		s.box.close()
	}
	p.work.Go(s.box.run)
	return s
}

func (p *proxy) allSessions() []*session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.sessions))
}

// announce maps the agent's session id up to s: from now on, s receives the updates of that
// session. Callers call it whenever s gets another session of the agent, and again when s is
// opened, because another client id of the thread may have received the updates meanwhile.
// announce adds the held updates of the session to the mailbox of s, after the step first,
// which may be nil.
func (p *proxy) announce(s *session, up segno.SessionID, first func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.up != "" && p.upstream[s.up] == s && s.up != up {
		delete(p.upstream, s.up)
	}
	s.up = up
	p.upstream[up] = s
	if s.id != "" { // a fork has no id until it is made
		p.sessions[s.id] = s
	}
	// The mailbox gets the updates while mu is held: the reader must not add a newer one before.
	if first != nil {
		s.box.add(0, first)
	}
	p.held = slices.DeleteFunc(p.held, func(m acp.Message) bool {
		isIts := segno.SessionID(m.SessionID()) == up
		if isIts {
			s.box.addUpdate(0, func() { s.update(m) })
		}
		return isIts
	})
}

// forget removes a session that the agent does not have. The session still answers its
// requests under way.
func (p *proxy) forget(s *session) {
	if s.forgotten {
		return
	}
	s.forgotten = true
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions[s.id] == s {
		delete(p.sessions, s.id)
	}
	if p.upstream[s.up] == s {
		delete(p.upstream, s.up)
	}
	p.forgotten = append(p.forgotten, s)
}

// beginOpening marks that a request is making a session. The proxy holds the updates of
// unknown sessions until each such request has called the function that beginOpening
// returned.
func (p *proxy) beginOpening() (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opening++
	return func() {
		p.mu.Lock()
		var rest []acp.Message
		if p.opening--; p.opening == 0 {
			rest, p.held = p.held, nil
		}
		p.mu.Unlock()
		for _, m := range rest {
			p.toClient(m.Line) // the proxy did not make its session
		}
	}
}

// hasThread reports whether a thread has used a session of the agent.
func (p *proxy) hasThread(id segno.SessionID) bool { return p.hasOtherThread(id, "") }

// hasOtherThread is hasThread without one of the threads.
func (p *proxy) hasOtherThread(id segno.SessionID, except segno.ThreadID) bool {
	t, err := find(p.store.Threads(p.ctx, segno.ThreadQuery{Session: id}), func(t *segno.Thread) bool { return t.ID != except })
	return err == nil && t != nil
}
