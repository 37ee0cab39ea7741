// Package acpagent serves segno's agent to editors over the Agent Client Protocol. A session is
// a thread of the store with the same id, so any process that serves the store can load it.
package acpagent

import (
	"context"
	"io"
	"sync"

	acp "github.com/coder/acp-go-sdk"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
	wire "github.com/dalsegno/segno/internal/proxy/acp"
)

// Config configures a server.
type Config struct {
	// Open opens a session in a directory for one request. answer decides about calls that
	// need approval. note is a message about the session to show to the user, or "".
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
// has ended. The goroutine that reads in ends when the caller closes in.
func Serve(ctx context.Context, c Config, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{Config: c, dirs: map[acp.SessionId]string{}, announced: map[acp.SessionId]bool{},
		conn: &connection{ctx: ctx, out: wire.NewWriter(out), asked: map[string]chan wire.Message{}}}
	s.conn.handlers = s.handlers()
	inputEnded := make(chan struct{})
	go func() {
		defer close(inputEnded)
		s.conn.read(in)
	}()
	var err error
	select {
	case <-inputEnded:
	case <-ctx.Done():
		err = segno.NewError(segno.KindCancelled, "serve agent", "", ctx.Err())
	}
	cancel()
	s.conn.end()
	return err
}

// server serves the requests of one connection.
type server struct {
	Config
	conn *connection

	mu        sync.Mutex
	dirs      map[acp.SessionId]string // of open sessions
	announced map[acp.SessionId]bool   // sessions whose commands were announced
}

// handlers are the methods that the agent serves. Cancellations are in [connection.handle].
func (s *server) handlers() map[string]handler {
	nothing := func(context.Context, wire.Message) (any, error) { return struct{}{}, nil }
	return map[string]handler{
		acp.AgentMethodInitialize:    handle(s.initialize),
		acp.AgentMethodAuthenticate:  nothing,
		acp.AgentMethodLogout:        nothing,
		acp.AgentMethodSessionNew:    handle(s.newSession),
		acp.AgentMethodSessionLoad:   handle(s.loadSession),
		acp.AgentMethodSessionResume: handle(s.resumeSession),
		acp.AgentMethodSessionFork:   handle(s.forkSession),
		acp.AgentMethodSessionClose:  handle(s.closeSession),
		acp.AgentMethodSessionList:   handle(s.listSessions),
		acp.AgentMethodSessionPrompt: handle(s.prompt),
	}
}

// initialize answers with the version and the capabilities, which are the same for every
// client.
func (s *server) initialize(context.Context, acp.InitializeRequest) (acp.InitializeResponse, error) {
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
