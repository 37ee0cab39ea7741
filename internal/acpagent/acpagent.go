// Package acpagent serves segno's agent to editors over the Agent Client Protocol. A session is
// a thread of the store with the same id, so any process that serves the store can load it.
package acpagent

import (
	"context"
	"io"
	"log/slog"
	"sync"

	acp "github.com/coder/acp-go-sdk"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
)

// Config configures a server.
type Config struct {
	// Open opens a session in a directory for one request. answer decides about calls that
	// need approval. note is a message about the session for the client, or "".
	Open func(ctx context.Context, session, dir string, answer Answer) (c *chat.Chat, note string, err error)
	// List returns the sessions of a directory, or all sessions if dir is "".
	List    func(ctx context.Context, dir string) ([]Info, error)
	Session string // the id of the first new session; "" generates one
	Version string
}

// Answer decides about calls during a run; see [agent.Config].
type Answer = func(ctx context.Context, open []segno.Interrupt) ([]segno.Decision, error)

// Info describes a session in a list.
type Info struct {
	chat.Session
	Dir string
}

// Serve serves the protocol on in and out until in or ctx ends. It returns after the last run
// has ended.
func Serve(ctx context.Context, c Config, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{Config: c, ctx: ctx, dirs: map[acp.SessionId]string{}, announced: map[acp.SessionId]bool{}}
	var from *io.PipeReader
	s.prompts, from = newPromptQueue(ctx, out)
	s.conn = acp.NewAgentSideConnection(s, s.prompts, from)
	s.conn.SetLogger(slog.New(slog.DiscardHandler)) // editors show standard error as an error
	go s.prompts.read(in)                           // ends when the caller closes in
	var err error
	select {
	case <-s.conn.Done():
	case <-ctx.Done():
		err = segno.NewError(segno.KindCancelled, "serve agent", "", ctx.Err())
	}
	cancel()
	s.wait()
	from.Close()
	return err
}

// server is the agent's side of one connection.
type server struct {
	Config
	ctx     context.Context // ends with the connection
	conn    *acp.AgentSideConnection
	prompts *promptQueue

	mu        sync.Mutex
	ended     bool
	runs      sync.WaitGroup
	dirs      map[acp.SessionId]string // of open sessions
	announced map[acp.SessionId]bool   // sessions whose commands were announced
}

// begin begins a request that may run the agent; the caller calls done at its end. After the
// server has ended it returns an error.
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

func (s *server) wait() {
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

// Cancel does nothing: the prompt queue cancelled the turn when the message arrived.
func (s *server) Cancel(context.Context, acp.CancelNotification) error { return nil }
