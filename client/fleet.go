package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web/wire"
)

// The records of a fleet; see [Store.Send].
type (
	SendPrompt   = wire.SendPrompt
	Prompt       = wire.Prompt
	PromptQuery  = wire.PromptQuery
	PromptList   = wire.PromptList
	Decisions    = wire.Decisions
	Signal       = wire.Signal
	Question     = wire.Question
	QuestionList = wire.QuestionList
	FleetStatus  = wire.FleetStatus
	FleetCount   = wire.FleetCount
	FleetWorker  = wire.FleetWorker
)

// threadPath returns the path of a thread, or of something below it.
func threadPath(thread segno.ThreadID, below ...string) string {
	path := "/threads/" + url.PathEscape(string(thread))
	for _, name := range below {
		path += "/" + url.PathEscape(name)
	}
	return path
}

// Send sends a prompt to a thread whose turns workers run. It is durable when Send returns. A second call with the same key
// returns the same prompt, so a caller that did not receive the answer can repeat the call. The error is a [segno.KindConflict]
// if the key was used for another prompt, and a [segno.KindInvalid] if no workers run the threads of the store.
func (s *Store) Send(ctx context.Context, thread segno.ThreadID, key string, p SendPrompt) (Prompt, error) {
	var sent Prompt
	err := s.call(ctx, "send prompt", string(thread), http.MethodPost, threadPath(thread, "prompts"), nil, p, &sent, "Idempotency-Key", key)
	return sent, err
}

// Prompts returns a window of the prompts that a query selects, the newest first. A query has one state or none.
func (s *Store) Prompts(ctx context.Context, q PromptQuery) (PromptList, error) {
	const op = "list prompts"
	if q.Thread != "" && q.Key != "" {
		var p Prompt
		err := s.read(ctx, op, q.Key, threadPath(q.Thread, "prompts", q.Key), nil, &p)
		if segno.KindOf(err) == segno.KindNotFound && err != nil {
			return PromptList{}, nil
		}
		return PromptList{Prompts: []Prompt{p}}, err
	}
	path := "/fleet/prompts"
	if q.Thread != "" {
		path = threadPath(q.Thread, "prompts")
	}
	if len(q.States) > 1 {
		return PromptList{}, segno.Errorf(segno.KindInvalid, op, string(q.Thread), "a list has one state, or all")
	}
	v := url.Values{}
	if len(q.States) > 0 {
		v.Set("state", q.States[0])
	}
	if q.Before > 0 {
		v.Set("cursor", decimal(q.Before))
	}
	if q.Limit > 0 {
		v.Set("limit", decimal(int64(q.Limit)))
	}
	var list PromptList
	err := s.read(ctx, op, string(q.Thread), path, v, &list)
	return list, err
}

// Retry lets a parked prompt run again.
func (s *Store) Retry(ctx context.Context, thread segno.ThreadID, key string) (Prompt, error) {
	return s.change(ctx, "retry prompt", thread, key, "retry")
}

// Cancel takes a prompt back that has not ended.
func (s *Store) Cancel(ctx context.Context, thread segno.ThreadID, key string) (Prompt, error) {
	return s.change(ctx, "cancel prompt", thread, key, "cancel")
}

func (s *Store) change(ctx context.Context, op string, thread segno.ThreadID, key, verb string) (Prompt, error) {
	var p Prompt
	err := s.call(ctx, op, key, http.MethodPost, threadPath(thread, "prompts", key, verb), nil, nil, &p)
	return p, err
}

// Decide answers questions of a thread of a fleet, and wakes it. Repeating a recorded decision is not an error. The error is a
// [segno.KindConflict] if another decision was first.
func (s *Store) Decide(ctx context.Context, thread segno.ThreadID, d Decisions) error {
	return s.call(ctx, "decide", string(thread), http.MethodPost, threadPath(thread, "decisions"), nil, d, new(struct{}))
}

// Signal sends a signal to a thread of a fleet, once for each key, and wakes it.
func (s *Store) Signal(ctx context.Context, thread segno.ThreadID, key string, v Signal) error {
	return s.call(ctx, "send signal", string(thread), http.MethodPost, threadPath(thread, "signals"), nil, v, new(struct{}), "Idempotency-Key", key)
}

// Inbox returns a window of the open questions of all threads.
func (s *Store) Inbox(ctx context.Context, after string, limit int) (QuestionList, error) {
	var list QuestionList
	q := url.Values{}
	if after != "" {
		q.Set("after", after)
	}
	if limit > 0 {
		q.Set("limit", decimal(int64(limit)))
	}
	err := s.read(ctx, "list questions", "", "/fleet/inbox", q, &list)
	return list, err
}

// FleetStatus returns the open prompts and the workers of a fleet.
func (s *Store) FleetStatus(ctx context.Context) (FleetStatus, error) {
	var status FleetStatus
	err := s.read(ctx, "read fleet", "", "/fleet", nil, &status)
	return status, err
}
