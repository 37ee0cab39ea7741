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
		return acp.NewSessionResponse{}, requestError(err)
	}
	defer c.Close()
	s.setOpen(acp.SessionId(id), p.Cwd)
	return acp.NewSessionResponse{SessionId: acp.SessionId(id)}, nil
}

func (s *server) setOpen(id acp.SessionId, dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirs[id] = dir
}

// openExisting opens a session that exists, and marks it as open.
func (s *server) openExisting(ctx context.Context, id acp.SessionId, dir string) (*chat.Chat, error) {
	c, _, err := s.Open(ctx, string(id), dir, nil)
	if err != nil {
		return nil, requestError(err)
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
		return nil, requestError(err)
	}
	s.setOpen(id, dir)
	return c, nil
}

// LoadSession opens a session and sends its conversation.
func (s *server) LoadSession(ctx context.Context, p acp.LoadSessionRequest) (acp.LoadSessionResponse, error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return acp.LoadSessionResponse{}, err
	}
	defer done()
	c, err := s.openExisting(ctx, p.SessionId, p.Cwd)
	if err != nil {
		return acp.LoadSessionResponse{}, err
	}
	defer c.Close()
	t := s.newUpdater(p.SessionId, c)
	messages, places, err := t.loadHistory(ctx)
	if err != nil {
		return acp.LoadSessionResponse{}, requestError(err)
	}
	for i := range messages {
		t.replay(&messages[i], places[messages[i].ID])
	}
	if at, err := c.Status(ctx); err == nil && len(at.TodoList) > 0 {
		t.send(planUpdate(at.TodoList))
	}
	return acp.LoadSessionResponse{}, t.err
}

func (s *server) ResumeSession(ctx context.Context, p acp.ResumeSessionRequest) (acp.ResumeSessionResponse, error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return acp.ResumeSessionResponse{}, err
	}
	defer done()
	c, err := s.openExisting(ctx, p.SessionId, p.Cwd)
	if err != nil {
		return acp.ResumeSessionResponse{}, err
	}
	return acp.ResumeSessionResponse{}, c.Close()
}

// UnstableForkSession creates a session at the head of another, or at the end of the turn of one
// of its messages.
func (s *server) UnstableForkSession(ctx context.Context, p acp.UnstableForkSessionRequest) (acp.UnstableForkSessionResponse, error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return acp.UnstableForkSessionResponse{}, err
	}
	defer done()
	c, err := s.openExisting(ctx, p.SessionId, p.Cwd)
	if err != nil {
		return acp.UnstableForkSessionResponse{}, err
	}
	defer c.Close()
	id := segno.NewID()
	if err := forkTo(ctx, c, forkPoint(p.Meta), id); err != nil {
		return acp.UnstableForkSessionResponse{}, requestError(err)
	}
	s.setOpen(acp.SessionId(id), p.Cwd)
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
		return acp.ListSessionsResponse{}, requestError(err)
	}
	r := acp.ListSessionsResponse{Sessions: []acp.SessionInfo{}}
	for _, x := range all {
		r.Sessions = append(r.Sessions, acp.SessionInfo{SessionId: acp.SessionId(x.Name), Cwd: x.Dir, Title: acp.Ptr(x.Title),
			UpdatedAt: acp.Ptr(x.Updated.UTC().Format(time.RFC3339))})
	}
	return r, nil
}
