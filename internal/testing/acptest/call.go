package acptest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/dalsegno/segno/internal/proxy/acp"
)

// Call is a request that the client has sent.
type Call struct {
	client *Client
	ID     string // as JSON
	From   int    // the place of the first message received after it
}

// Go sends a request without waiting for its answer.
func (c *Client) Go(method string, params any) (*Call, error) {
	c.mu.Lock()
	id := strconv.Itoa(c.next)
	c.next++
	c.open[id]++
	call := &Call{c, id, len(c.received)}
	c.mu.Unlock()
	return call, c.out.Write(acp.Request(id, method, encode(params)))
}

// Answer waits for the answer, which may be an error, see [acp.Message.Err].
func (c *Call) Answer(ctx context.Context) (Received, error) {
	return c.client.Await(ctx, c.From, func(r Received) bool { return r.IsResponse() && r.IDText() == c.ID })
}

// Call sends a request and returns the answer. The error is an [*acp.Error] if the agent
// answered with one; otherwise it is the reason why there is no answer.
func (c *Client) Call(ctx context.Context, method string, params any) (Received, error) {
	call, err := c.Go(method, params)
	if err != nil {
		return Received{}, err
	}
	return call.answer(ctx, method)
}

func (c *Call) answer(ctx context.Context, method string) (Received, error) {
	r, err := c.Answer(ctx)
	if err != nil {
		return r, fmt.Errorf("waiting for the answer to %s: %w", method, err)
	}
	if e := r.Err(); e != nil {
		return r, e
	}
	return r, nil
}

// Initialize sends initialize. caps are the client's capabilities; nil means none.
func (c *Client) Initialize(ctx context.Context, caps map[string]any) (Received, error) {
	if caps == nil {
		caps = map[string]any{}
	}
	return c.Call(ctx, "initialize", map[string]any{"protocolVersion": acp.Version, "clientCapabilities": caps,
		"clientInfo": map[string]string{"name": "acptest", "version": "1.0.0"}})
}

// Open sends session/METHOD, which must be a method that opens a session, and returns the
// session's id. from is the id of the session to open or to fork, "" for new.
func (c *Client) Open(ctx context.Context, method, from, cwd string) (string, error) {
	params := map[string]any{"cwd": cwd, "mcpServers": []any{}}
	if from != "" {
		params["sessionId"] = from
	}
	r, err := c.Call(ctx, "session/"+method, params)
	if err != nil {
		return "", err
	}
	if id := r.Text(r.Find(r.Result, "sessionId")); id != "" {
		return id, nil
	}
	return from, nil
}

// Listed is one row of session/list.
type Listed = listed

// List sends session/list. If cwd is "", the list has the sessions of all directories.
func (c *Client) List(ctx context.Context, cwd string) ([]Listed, error) {
	params := map[string]any{}
	if cwd != "" {
		params["cwd"] = cwd
	}
	r, err := c.Call(ctx, "session/list", params)
	if err != nil {
		return nil, err
	}
	var list struct {
		Sessions []Listed `json:"sessions"`
	}
	return list.Sessions, r.Decode(r.Result, &list)
}

// Cancel sends session/cancel. It has no answer.
func (c *Client) Cancel(session string) error {
	return c.Notify("session/cancel", map[string]string{"sessionId": session})
}

// Turn is a prompt that the client has sent.
type Turn struct {
	*Call
	Session string
}

// Prompt sends a prompt without waiting for its answer.
func (c *Client) Prompt(session, text string) (*Turn, error) {
	call, err := c.Go("session/prompt", map[string]any{"sessionId": session,
		"prompt": []any{map[string]string{"type": "text", "text": text}}})
	return &Turn{call, session}, err
}

// Stop is the end of a turn.
type Stop struct {
	Reason string
	Usage  json.RawMessage
	Answer Received
}

// Stop waits for the turn's end. The error is an [*acp.Error] if the agent answered with
// one; otherwise it is the reason why there is no answer.
func (t *Turn) Stop(ctx context.Context) (Stop, error) {
	r, err := t.answer(ctx, "session/prompt")
	return Stop{Reason: r.Text(r.Find(r.Result, "stopReason")), Usage: r.Find(r.Result, "usage").Of(r.Line), Answer: r}, err
}

// Updates returns the session's updates between the prompt and its answer.
func (t *Turn) Updates() []Received {
	var all []Received
	for _, r := range t.client.Messages()[t.From:] {
		if r.IsResponse() && r.IDText() == t.ID {
			break
		}
		if r.MethodName() == "session/update" && r.SessionID() == t.Session {
			all = append(all, r)
		}
	}
	return all
}

// Said returns the agent's text in the updates.
func (t *Turn) Said() string {
	said := ""
	for _, u := range t.Updates() {
		if u.Update() == "agent_message_chunk" {
			said += u.Content()
		}
	}
	return said
}

// Await waits for an update of the turn's session.
func (t *Turn) Await(ctx context.Context, want func(Received) bool) (Received, error) {
	return t.client.Await(ctx, t.From, func(r Received) bool {
		return r.Update() != "" && r.SessionID() == t.Session && want(r)
	})
}
