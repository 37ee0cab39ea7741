package web

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web/wire"
)

// Fleet is the part of a fleet that the API uses: the mailboxes of its threads. [github.com/dalsegno/segno/client.Store] also
// implements it, through this API.
type Fleet interface {
	// Send puts a prompt into the mailbox of a thread. A second call with the same key returns the same prompt.
	Send(ctx context.Context, thread segno.ThreadID, key string, p wire.SendPrompt) (wire.Prompt, error)
	// Prompts returns a window of the prompts that a query selects.
	Prompts(ctx context.Context, q wire.PromptQuery) (wire.PromptList, error)
	// Retry lets a parked prompt run again, and Cancel takes a prompt back that has not ended.
	Retry(ctx context.Context, thread segno.ThreadID, key string) (wire.Prompt, error)
	Cancel(ctx context.Context, thread segno.ThreadID, key string) (wire.Prompt, error)
	// Decide answers questions of a thread, and wakes it.
	Decide(ctx context.Context, thread segno.ThreadID, d wire.Decisions) error
	// Signal sends a signal to a thread, once for each key, and wakes it.
	Signal(ctx context.Context, thread segno.ThreadID, key string, s wire.Signal) error
	// Inbox returns a window of the open questions of all threads.
	Inbox(ctx context.Context, after string, limit int) (wire.QuestionList, error)
	// FleetStatus returns the open prompts and the workers.
	FleetStatus(ctx context.Context) (wire.FleetStatus, error)
}

// fleetRoutes are the endpoints of a fleet.
func fleetRoutes() []endpoint {
	return []endpoint{
		handle(http.MethodPost, "/threads/{id}/prompts", "Send a prompt to a thread of a fleet", http.StatusCreated, (*Server).sendPrompt),
		get("/threads/{id}/prompts", "The prompts that were sent to a thread, newest first", (*Server).listThreadPrompts),
		get("/threads/{id}/prompts/{key}", "One prompt and its answer", (*Server).getPrompt),
		handle(http.MethodPost, "/threads/{id}/prompts/{key}/retry", "Run a parked prompt again", http.StatusOK, (*Server).retryPrompt),
		handle(http.MethodPost, "/threads/{id}/prompts/{key}/cancel", "Take a prompt back that has not ended", http.StatusOK, (*Server).cancelPrompt),
		handle(http.MethodPost, "/threads/{id}/decisions", "Answer questions of a thread, and wake it", http.StatusOK, (*Server).decideThread),
		handle(http.MethodPost, "/threads/{id}/signals", "Send a signal to a thread, and wake it", http.StatusOK, (*Server).signalThread),
		get("/fleet", "The open prompts and the workers of a fleet", (*Server).getFleet),
		get("/fleet/prompts", "The prompts of all threads, newest first", (*Server).listPrompts),
		get("/fleet/inbox", "The open questions of all threads", (*Server).listInbox),
	}
}

// fleet returns the fleet of the store, or an error if no workers run its threads.
func (s *Server) fleet() (Fleet, error) {
	if s.Fleet == nil {
		return nil, segno.Errorf(segno.KindInvalid, "find fleet", s.Name, "no workers run the threads of this store").
			WithHint("start 'segno serve' with --store postgres://… of a fleet")
	}
	return s.Fleet, nil
}

// sendParams are the parameters of a prompt.
type sendParams struct {
	ID   segno.ThreadID `path:"id" max:"1000"`
	Key  string         `header:"Idempotency-Key" required:"true" max:"200"`
	Body wire.SendPrompt
}

func (s *Server) sendPrompt(ctx context.Context, p *sendParams) (wire.Prompt, error) {
	f, err := s.fleet()
	if err != nil {
		return wire.Prompt{}, err
	}
	switch {
	case strings.TrimSpace(p.Body.Text) == "":
		return wire.Prompt{}, segno.Errorf(segno.KindInvalid, "send prompt", string(p.ID), "the prompt is empty")
	case strings.TrimSpace(p.Key) == "":
		return wire.Prompt{}, invalidParameter("Idempotency-Key", "empty")
	}
	p.Body.Actor = cmp.Or(p.Body.Actor, segno.ActorHTTP)
	return f.Send(ctx, p.ID, p.Key, p.Body)
}

type threadPromptsParams struct {
	ID segno.ThreadID `path:"id" max:"1000"`
	promptsParams
}

// promptsParams select prompts.
type promptsParams struct {
	State  string `query:"state" enum:"sent running waiting done parked cancelled"`
	Cursor int64  `query:"cursor" default:"0"`
	Limit  int    `query:"limit" default:"50" min:"1" max:"200"`
}

// query returns the query of the parameters.
func (p *promptsParams) query(thread segno.ThreadID) wire.PromptQuery {
	q := wire.PromptQuery{Thread: thread, Before: p.Cursor, Limit: p.Limit}
	if p.State != "" {
		q.States = []string{p.State}
	}
	return q
}

func (s *Server) listThreadPrompts(ctx context.Context, p *threadPromptsParams) (wire.PromptList, error) {
	return s.prompts(ctx, p.query(p.ID))
}

func (s *Server) listPrompts(ctx context.Context, p *promptsParams) (wire.PromptList, error) {
	return s.prompts(ctx, p.query(""))
}

func (s *Server) prompts(ctx context.Context, q wire.PromptQuery) (wire.PromptList, error) {
	f, err := s.fleet()
	if err != nil {
		return wire.PromptList{}, err
	}
	list, err := f.Prompts(ctx, q)
	if list.Prompts == nil {
		list.Prompts = []wire.Prompt{}
	}
	return list, err
}

// promptParams name a prompt.
type promptParams struct {
	ID  segno.ThreadID `path:"id" max:"1000"`
	Key string         `path:"key" max:"200"`
}

func (s *Server) getPrompt(ctx context.Context, p *promptParams) (wire.Prompt, error) {
	list, err := s.prompts(ctx, wire.PromptQuery{Thread: p.ID, Key: p.Key, Limit: 1})
	if err == nil && len(list.Prompts) == 0 {
		err = segno.Errorf(segno.KindNotFound, "find prompt", p.Key, "thread %s has no such prompt", p.ID)
	}
	if err != nil {
		return wire.Prompt{}, err
	}
	return list.Prompts[0], nil
}

func (s *Server) retryPrompt(ctx context.Context, p *promptParams) (wire.Prompt, error) {
	f, err := s.fleet()
	if err != nil {
		return wire.Prompt{}, err
	}
	return f.Retry(ctx, p.ID, p.Key)
}

func (s *Server) cancelPrompt(ctx context.Context, p *promptParams) (wire.Prompt, error) {
	f, err := s.fleet()
	if err != nil {
		return wire.Prompt{}, err
	}
	return f.Cancel(ctx, p.ID, p.Key)
}

type decideParams struct {
	ID   segno.ThreadID `path:"id" max:"1000"`
	Body wire.Decisions
}

// recorded is the result of a request that has none but its effect.
type recorded struct {
	Recorded bool `json:"recorded"`
}

func (s *Server) decideThread(ctx context.Context, p *decideParams) (recorded, error) {
	f, err := s.fleet()
	if err == nil && len(p.Body.Decisions) == 0 {
		err = segno.Errorf(segno.KindInvalid, "decide", string(p.ID), "no decision")
	}
	for i := range p.Body.Decisions {
		d := &p.Body.Decisions[i]
		d.Actor = cmp.Or(d.Actor, segno.ActorHTTP)
	}
	if err == nil {
		err = f.Decide(ctx, p.ID, p.Body)
	}
	return recorded{err == nil}, err
}

type signalParams struct {
	ID   segno.ThreadID `path:"id" max:"1000"`
	Key  string         `header:"Idempotency-Key" required:"true" max:"200"`
	Body wire.Signal
}

func (s *Server) signalThread(ctx context.Context, p *signalParams) (recorded, error) {
	f, err := s.fleet()
	if err == nil && p.Body.Name == "" {
		err = segno.Errorf(segno.KindInvalid, "send signal", string(p.ID), "the signal has no name")
	}
	if err == nil {
		err = f.Signal(ctx, p.ID, p.Key, p.Body)
	}
	return recorded{err == nil}, err
}

func (s *Server) getFleet(ctx context.Context, _ *struct{}) (wire.FleetStatus, error) {
	f, err := s.fleet()
	if err != nil {
		return wire.FleetStatus{}, err
	}
	return f.FleetStatus(ctx)
}

type inboxParams struct {
	After string `query:"after" max:"1000"`
	Limit int    `query:"limit" default:"50" min:"1" max:"200"`
}

func (s *Server) listInbox(ctx context.Context, p *inboxParams) (wire.QuestionList, error) {
	f, err := s.fleet()
	if err != nil {
		return wire.QuestionList{}, err
	}
	list, err := f.Inbox(ctx, p.After, p.Limit)
	if list.Questions == nil {
		list.Questions = []wire.Question{}
	}
	return list, err
}
