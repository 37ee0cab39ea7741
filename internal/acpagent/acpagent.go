// Package acpagent serves segno's own agent to editors, over the Agent Client
// Protocol. A session is a thread of the store under the same id, so that an agent
// that was started again loads any of them.
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

// Config says what to serve.
type Config struct {
	// Open opens a session in a directory for one request. answer is asked what
	// waits for leave. note is what the client should know of the session, "" if
	// nothing.
	Open func(ctx context.Context, session, dir string, answer Answer) (c *chat.Chat, note string, err error)
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
	s := &server{Config: c, ctx: ctx, dirs: map[acp.SessionId]string{}, announced: map[acp.SessionId]bool{}}
	var from *io.PipeReader
	s.prompts, from = newPromptQueue(ctx, out)
	s.conn = acp.NewAgentSideConnection(s, s.prompts, from)
	s.conn.SetLogger(slog.New(slog.DiscardHandler)) // an editor shows what stands on standard error as trouble
	go s.prompts.read(in)                           // ends with in, which the caller owns
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
	dirs      map[acp.SessionId]string // of the sessions that were opened
	announced map[acp.SessionId]bool   // the commands
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

// Cancel has nothing to do: the turn's context has ended where the client's word came in.
func (s *server) Cancel(context.Context, acp.CancelNotification) error { return nil }
