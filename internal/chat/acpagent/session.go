package acpagent

import (
	"cmp"
	"context"
	"time"

	acp "github.com/coder/acp-go-sdk"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
)

// newSession makes a session with a new id. The store has no thread for it before its first
// prompt.
func (s *server) newSession(ctx context.Context, p acp.NewSessionRequest) (r acp.NewSessionResponse, err error) {
	s.mu.Lock()
	id := cmp.Or(s.Session, segno.NewID())
	s.Session = ""
	s.mu.Unlock()
	c, _, err := s.Open(ctx, id, p.Cwd, nil)
	if err != nil {
		return r, err
	}
	r.SessionId = acp.SessionId(id)
	s.setOpen(r.SessionId, p.Cwd)
	return r, c.Close()
}

// setOpen records that the client has a session open, and in which directory. The client
// chooses the directory at each opening; the store does not record it.
func (s *server) setOpen(id acp.SessionId, dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirs[id] = dir
}

// openExisting opens a session that exists, and marks it as open. A session that the client
// made also exists before its first prompt, when the store has no thread for it yet.
func (s *server) openExisting(ctx context.Context, id acp.SessionId, dir string) (*chat.Chat, error) {
	c, _, err := s.Open(ctx, string(id), dir, nil)
	if err != nil {
		return nil, err
	}
	at, err := c.Status(ctx)
	s.mu.Lock()
	_, known := s.dirs[id]
	s.mu.Unlock()
	if err == nil && at.New && !known {
		err = segno.NewError(segno.KindNotFound, "load session", string(id), nil)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	s.setOpen(id, dir)
	return c, nil
}

// loadSession opens a session and sends its conversation.
func (s *server) loadSession(ctx context.Context, p acp.LoadSessionRequest) (r acp.LoadSessionResponse, err error) {
	c, err := s.openExisting(ctx, p.SessionId, p.Cwd)
	if err != nil {
		return r, err
	}
	defer func() { _ = c.Close() }()
	t := s.newUpdater(p.SessionId, c)
	messages, places, err := t.loadHistory(ctx)
	if err != nil {
		return r, err
	}
	for i := range messages {
		t.replay(&messages[i], places[messages[i].ID])
	}
	if at, err := c.Status(ctx); err == nil && len(at.TodoList) > 0 {
		t.send(planUpdate(at.TodoList))
	}
	return r, t.err
}

// resumeSession opens a session without sending its conversation.
func (s *server) resumeSession(ctx context.Context, p acp.ResumeSessionRequest) (r acp.ResumeSessionResponse, err error) {
	c, err := s.openExisting(ctx, p.SessionId, p.Cwd)
	if err != nil {
		return r, err
	}
	return r, c.Close()
}

// forkSession creates a session at the head of another, or at the end of the turn of one of its
// messages.
func (s *server) forkSession(ctx context.Context, p acp.UnstableForkSessionRequest) (r acp.UnstableForkSessionResponse, err error) {
	c, err := s.openExisting(ctx, p.SessionId, p.Cwd)
	if err != nil {
		return r, err
	}
	defer func() { _ = c.Close() }()
	id := segno.NewID()
	if message := forkPoint(p.Meta); message == "" {
		_, err = c.Fork(ctx, id)
	} else {
		var at segno.CommitID
		if at, err = turnOf(ctx, c, message); err == nil {
			_, err = c.ForkAt(ctx, at, id)
		}
	}
	if err != nil {
		return r, err
	}
	r.SessionId = acp.SessionId(id)
	s.setOpen(r.SessionId, p.Cwd)
	return r, nil
}

// closeSession forgets that a session is open. [connection.handle] has cancelled its prompts.
func (s *server) closeSession(_ context.Context, p acp.CloseSessionRequest) (r acp.CloseSessionResponse, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.dirs, p.SessionId)
	return r, nil
}

// listSessions lists the sessions of a directory, or all. They fit on one page.
func (s *server) listSessions(ctx context.Context, p acp.ListSessionsRequest) (r acp.ListSessionsResponse, err error) {
	dir := ""
	if p.Cwd != nil {
		dir = *p.Cwd
	}
	all, err := s.List(ctx, dir)
	r.Sessions = []acp.SessionInfo{}
	for _, x := range all {
		r.Sessions = append(r.Sessions, acp.SessionInfo{SessionId: acp.SessionId(x.Name), Cwd: x.Dir, Title: acp.Ptr(x.Title),
			UpdatedAt: acp.Ptr(x.Updated.UTC().Format(time.RFC3339))})
	}
	return r, err
}
