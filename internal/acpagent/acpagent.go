// Package acpagent serves segno's own agent to editors, over the Agent Client
// Protocol. A session is a thread of the store under the same id, so that an agent
// that was started anew loads any of them.
package acpagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	acp "github.com/coder/acp-go-sdk"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
)

// Config says what to serve.
type Config struct {
	// Open opens a session in a directory for one request. answer is asked what
	// waits for leave.
	Open func(ctx context.Context, session, dir string, answer Answer) (*chat.Chat, error)
	// List tells the sessions of a directory, or of all of them if it is "".
	List    func(ctx context.Context, dir string) ([]Info, error)
	Session string // the id of the first new session; "" is a fresh one
	Version string
}

// Answer is asked in mid-run; see [agent.Config].
type Answer = func(ctx context.Context, open []segno.Interrupt) ([]segno.Decision, error)

// Info is what a list tells of a session.
type Info struct {
	chat.Session
	Dir string
}

// Serve speaks the protocol on in and out until in ends or ctx does. It returns when
// no run is under way any more.
func Serve(ctx context.Context, c Config, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{Config: c, ctx: ctx, dirs: map[acp.SessionId]string{}, told: map[acp.SessionId]bool{}}
	ready := make(chan struct{})
	s.conn = acp.NewAgentSideConnection(s, out, gate{in, ready})
	s.conn.SetLogger(slog.New(slog.DiscardHandler)) // an editor shows what stands on standard error as trouble
	close(ready)
	var err error
	select {
	case <-s.conn.Done():
	case <-ctx.Done():
		err = &segno.Error{Op: "serve agent", Kind: segno.KindCancelled, Err: ctx.Err()}
	}
	cancel()
	s.end()
	return err
}

// gate lets nothing be read before it is open: a client may ask at once, and is
// answered when there is a way to.
type gate struct {
	io.Reader
	open <-chan struct{}
}

func (g gate) Read(p []byte) (int, error) {
	<-g.open
	return g.Reader.Read(p)
}

// server is the agent's side of one connection.
type server struct {
	Config
	ctx  context.Context // ends with the connection
	conn *acp.AgentSideConnection

	mu    sync.Mutex
	ended bool
	runs  sync.WaitGroup
	dirs  map[acp.SessionId]string // of the sessions that were opened
	told  map[acp.SessionId]bool   // the commands
}

// begin is called where a run begins, and done where it ends. It reports whether
// one may.
func (s *server) begin(ctx context.Context) (_ context.Context, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, nil, context.Canceled
	}
	s.runs.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel(); s.runs.Done() }, nil
}

func (s *server) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.runs.Wait()
}

func (s *server) Initialize(context.Context, acp.InitializeRequest) (acp.InitializeResponse, error) {
	return acp.InitializeResponse{
		ProtocolVersion: acp.ProtocolVersionNumber,
		AgentInfo:       &acp.Implementation{Name: chat.Name, Title: acp.Ptr("segno"), Version: s.Version},
		AuthMethods:     []acp.AuthMethod{},
		AgentCapabilities: acp.AgentCapabilities{LoadSession: true,
			PromptCapabilities: acp.PromptCapabilities{Image: true, EmbeddedContext: true},
			SessionCapabilities: acp.SessionCapabilities{Close: &acp.SessionCloseCapabilities{}, Fork: &acp.SessionForkCapabilities{},
				List: &acp.SessionListCapabilities{}, Resume: &acp.SessionResumeCapabilities{}}},
	}, nil
}

func (s *server) Authenticate(context.Context, acp.AuthenticateRequest) (acp.AuthenticateResponse, error) {
	return acp.AuthenticateResponse{}, nil
}

func (s *server) Logout(context.Context, acp.LogoutRequest) (acp.LogoutResponse, error) {
	return acp.LogoutResponse{}, nil
}

func (s *server) SetSessionMode(context.Context, acp.SetSessionModeRequest) (acp.SetSessionModeResponse, error) {
	return acp.SetSessionModeResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionSetMode)
}

func (s *server) SetSessionConfigOption(context.Context, acp.SetSessionConfigOptionRequest) (acp.SetSessionConfigOptionResponse, error) {
	return acp.SetSessionConfigOptionResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionSetConfigOption)
}

// Cancel has nothing to do: the connection ends the prompt's context.
func (s *server) Cancel(context.Context, acp.CancelNotification) error { return nil }

func (s *server) NewSession(ctx context.Context, p acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return acp.NewSessionResponse{}, err
	}
	defer done()
	s.mu.Lock()
	id := s.Session
	s.Session = ""
	s.mu.Unlock()
	if id == "" {
		id = segno.NewID()
	}
	c, err := s.Open(ctx, id, p.Cwd, nil)
	if err != nil {
		return acp.NewSessionResponse{}, failure(err)
	}
	defer c.Close()
	s.opened(acp.SessionId(id), p.Cwd)
	return acp.NewSessionResponse{SessionId: acp.SessionId(id)}, nil
}

func (s *server) opened(id acp.SessionId, dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirs[id] = dir
}

// existing opens a session that there is, and remembers it.
func (s *server) existing(ctx context.Context, id acp.SessionId, dir string) (*chat.Chat, error) {
	c, err := s.Open(ctx, string(id), dir, nil)
	if err != nil {
		return nil, failure(err)
	}
	at, err := c.Standing(ctx)
	s.mu.Lock()
	_, known := s.dirs[id]
	s.mu.Unlock()
	if err == nil && at.New && !known {
		err = &segno.Error{Op: "load session", Name: string(id), Kind: segno.KindNotFound}
	}
	if err != nil {
		c.Close()
		return nil, failure(err)
	}
	s.opened(id, dir)
	return c, nil
}

// LoadSession replays the session's conversation.
func (s *server) LoadSession(ctx context.Context, p acp.LoadSessionRequest) (acp.LoadSessionResponse, error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return acp.LoadSessionResponse{}, err
	}
	defer done()
	c, err := s.existing(ctx, p.SessionId, p.Cwd)
	if err != nil {
		return acp.LoadSessionResponse{}, err
	}
	defer c.Close()
	messages, err := c.Messages(ctx)
	if err != nil {
		return acp.LoadSessionResponse{}, failure(err)
	}
	t := s.teller(p.SessionId, c)
	for i := range messages {
		t.replay(&messages[i])
	}
	if at, err := c.Standing(ctx); err == nil && len(at.Todos) > 0 {
		t.send(plan(at.Todos))
	}
	return acp.LoadSessionResponse{}, t.err
}

func (s *server) ResumeSession(ctx context.Context, p acp.ResumeSessionRequest) (acp.ResumeSessionResponse, error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return acp.ResumeSessionResponse{}, err
	}
	defer done()
	c, err := s.existing(ctx, p.SessionId, p.Cwd)
	if err != nil {
		return acp.ResumeSessionResponse{}, err
	}
	return acp.ResumeSessionResponse{}, c.Close()
}

// UnstableForkSession begins a session where another stands.
func (s *server) UnstableForkSession(ctx context.Context, p acp.UnstableForkSessionRequest) (acp.UnstableForkSessionResponse, error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return acp.UnstableForkSessionResponse{}, err
	}
	defer done()
	c, err := s.existing(ctx, p.SessionId, p.Cwd)
	if err != nil {
		return acp.UnstableForkSessionResponse{}, err
	}
	defer c.Close()
	id := segno.NewID()
	if _, err := c.Fork(ctx, id); err != nil {
		return acp.UnstableForkSessionResponse{}, failure(err)
	}
	s.opened(acp.SessionId(id), p.Cwd)
	return acp.UnstableForkSessionResponse{SessionId: acp.SessionId(id)}, nil
}

func (s *server) CloseSession(_ context.Context, p acp.CloseSessionRequest) (acp.CloseSessionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.dirs, p.SessionId)
	return acp.CloseSessionResponse{}, nil
}

func (s *server) ListSessions(ctx context.Context, p acp.ListSessionsRequest) (acp.ListSessionsResponse, error) {
	dir := ""
	if p.Cwd != nil {
		dir = *p.Cwd
	}
	all, err := s.List(ctx, dir)
	if err != nil {
		return acp.ListSessionsResponse{}, failure(err)
	}
	r := acp.ListSessionsResponse{Sessions: []acp.SessionInfo{}}
	for _, x := range all {
		r.Sessions = append(r.Sessions, acp.SessionInfo{SessionId: acp.SessionId(x.Name), Cwd: x.Dir, Title: acp.Ptr(x.Title),
			UpdatedAt: acp.Ptr(x.Updated.UTC().Format(time.RFC3339))})
	}
	return r, nil
}

// failure is an error as the protocol has it.
func failure(err error) error {
	if err == nil {
		return nil
	}
	e := &acp.RequestError{Code: codeInternal, Message: err.Error(), Data: map[string]any{"kind": segno.KindOf(err), "hint": segno.HintOf(err)}}
	switch segno.KindOf(err) {
	case segno.KindNotFound:
		e.Code = codeNotFound
	case segno.KindInvalid:
		e.Code = codeInvalid
	case segno.KindCancelled:
		e.Code = codeCancelled
	}
	var model *agent.ModelError
	if errors.As(err, &model) && model.Status != 0 {
		e.Message = fmt.Sprintf("%s (status %d)", e.Message, model.Status)
	}
	return e
}

// JSON-RPC's error codes, and the protocol's own.
const (
	codeInternal  = -32603
	codeInvalid   = -32602
	codeNotFound  = -32002
	codeCancelled = -32800
)
