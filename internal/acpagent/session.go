package acpagent

import (
	"context"
	"time"

	acp "github.com/coder/acp-go-sdk"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
)

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
	c, _, err := s.Open(ctx, id, p.Cwd, nil)
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
	c, _, err := s.Open(ctx, string(id), dir, nil)
	if err != nil {
		return nil, failure(err)
	}
	at, err := c.Status(ctx)
	s.mu.Lock()
	_, known := s.dirs[id]
	s.mu.Unlock()
	if err == nil && at.New && !known {
		err = segno.NewError(segno.KindNotFound, "load session", string(id), nil)
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
	places, err := t.learn(ctx, messages)
	if err != nil {
		return acp.LoadSessionResponse{}, failure(err)
	}
	for i := range messages {
		t.replay(&messages[i], places[messages[i].ID])
	}
	if at, err := c.Status(ctx); err == nil && len(at.Todos) > 0 {
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

// UnstableForkSession begins a session where another stands, or at the end of the turn
// that a message of it belongs to.
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
	if err := forkTo(ctx, c, forkPoint(p.Meta), id); err != nil {
		return acp.UnstableForkSessionResponse{}, failure(err)
	}
	s.opened(acp.SessionId(id), p.Cwd)
	return acp.UnstableForkSessionResponse{SessionId: acp.SessionId(id)}, nil
}

func forkTo(ctx context.Context, c *chat.Chat, message, id string) error {
	if message == "" {
		_, err := c.Fork(ctx, id)
		return err
	}
	at, err := turnOf(ctx, c, message)
	if err == nil {
		_, err = c.ForkAt(ctx, at, id)
	}
	return err
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
