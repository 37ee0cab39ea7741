package acptest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/dalsegno/segno/internal/acp"
)

// Call is a request that was sent.
type Call struct {
	client *Client
	ID     string // as JSON
	From   int    // the place of the first message that came behind it
}

// Go sends a request and does not wait for its answer.
func (c *Client) Go(method string, params any) (*Call, error) {
	c.mu.Lock()
	id := strconv.Itoa(c.next)
	c.next++
	c.open[id]++
	call := &Call{c, id, len(c.received)}
	c.mu.Unlock()
	return call, c.out.Write(acp.Request(id, method, encode(params)))
}

// Answer waits for the answer, which may be an error: see [acp.Message.Err].
func (c *Call) Answer(ctx context.Context) (Received, error) {
	return c.client.Await(ctx, c.From, func(r Received) bool { return r.IsResponse() && r.IDText() == c.ID })
}

// Call sends a request and returns the message that answers it; the error is the
// agent's, an [*acp.Error], or says why there is no answer.
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

// Initialize begins. caps are the client's capabilities; nil is none.
func (c *Client) Initialize(ctx context.Context, caps map[string]any) (Received, error) {
	if caps == nil {
		caps = map[string]any{}
	}
	return c.Call(ctx, "initialize", map[string]any{"protocolVersion": acp.Version, "clientCapabilities": caps,
		"clientInfo": map[string]string{"name": "acptest", "version": "1.0.0"}})
}

// Open sends session/METHOD, of those that open a session, and returns its id. from
// is the id it opens or forks, "" for new.
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

// List is session/list; cwd may be "".
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

// Cancel is session/cancel.
func (c *Client) Cancel(session string) error {
	return c.Notify("session/cancel", map[string]string{"sessionId": session})
}

// Turn is a prompt that was sent.
type Turn struct {
	*Call
	Session string
}

// Prompt sends a prompt.
func (c *Client) Prompt(session, text string) (*Turn, error) {
	call, err := c.Go("session/prompt", map[string]any{"sessionId": session,
		"prompt": []any{map[string]string{"type": "text", "text": text}}})
	return &Turn{call, session}, err
}

// Stop is how a turn ended.
type Stop struct {
	Reason string
	Usage  json.RawMessage
	Answer Received
}

// Stop waits for the turn's end. The error is the agent's, an [*acp.Error], or says
// why there is none.
func (t *Turn) Stop(ctx context.Context) (Stop, error) {
	r, err := t.answer(ctx, "session/prompt")
	return Stop{Reason: r.Text(r.Find(r.Result, "stopReason")), Usage: r.Find(r.Result, "usage").Of(r.Line), Answer: r}, err
}

// Updates are the session's that came since the prompt was sent and before it was
// answered.
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

// Said is all the agent's text among the updates.
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
