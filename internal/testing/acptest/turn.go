package acptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dalsegno/segno/internal/proxy/acp"
)

// turn is the execution of one prompt.
type turn struct {
	*agent
	ctx     context.Context
	session *session
	prompt  acp.Message
	script  *script
	usage   json.RawMessage // the usage from a step; nil for the default
}

// errEnded is the error of a step that ends the turn. It is the stop reason.
type errEnded string

func (e errEnded) Error() string { return string(e) }

func (a *agent) startTurn(ctx context.Context, m acp.Message) {
	s := a.session(m.SessionID())
	if s == nil {
		a.answer(m.IDText(), nil, a.wire(a.missing("session/prompt", m.SessionID())))
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	a.turns.Go(func() {
		defer cancel()
		s.turn.Lock()
		defer s.turn.Unlock()
		s.running(cancel)
		defer s.running(nil)
		t := &turn{agent: a, ctx: ctx, session: s, prompt: m}
		t.end(t.run())
	})
}

// end answers the prompt.
func (t *turn) end(err error) {
	reason := "end_turn"
	var ended errEnded
	switch {
	case errors.Is(err, context.Canceled):
		reason = "cancelled"
		err = t.session.add(record{Type: "note", Text: "interrupted by the user"})
	case errors.As(err, &ended):
		reason, err = string(ended), nil
	}
	if err != nil {
		t.answer(t.prompt.IDText(), nil, t.wire(err))
		return
	}
	usage := t.usage
	if usage == nil {
		usage = json.RawMessage(`{"inputTokens":50,"outputTokens":10,"totalTokens":60}`)
	}
	t.answer(t.prompt.IDText(), encode(map[string]any{"stopReason": reason, "usage": usage}), nil)
	if t.Title {
		t.update(t.session, map[string]any{"sessionUpdate": "session_info_update", "title": t.session.titleText(), "updatedAt": "2026-01-01T00:00:00.000Z"})
	}
}

// run executes the rest of the script.
func (t *turn) run() error {
	text, err := promptText(t.prompt)
	if err != nil {
		return err
	}
	if err := t.session.add(record{Type: "user", ID: newID(), Text: text}); err != nil {
		return err
	}
	view, err := t.think(true)
	if err != nil {
		return err
	}
	if view.script == nil {
		return t.say("ok", -1)
	}
	t.script = view.script
	for i, step := range t.script.steps {
		if err := t.ctx.Err(); err != nil {
			return err
		}
		if step.Tool != "" && view.done(step.Line) || step.Text != "" && view.said(i) {
			continue
		}
		if err := t.do(i, step, view); err != nil {
			return err
		}
		if step.Tool != "" {
			if view, err = t.think(false); err != nil {
				return err
			}
		}
	}
	return nil
}

// think sends the model the whole session and logs the request.
func (t *turn) think(first bool) (modelView, error) {
	records := t.session.all()
	view, err := viewOf(records)
	if err != nil {
		return view, &acp.Error{Code: acp.CodeInvalidParams, Message: err.Error()}
	}
	return view, t.sent(t.session, records, view, first)
}

// say sends one message of the agent and records it.
func (t *turn) say(text string, step int) error {
	r := record{Type: "agent", ID: "msg_" + newID()[:13], Text: text, Step: step}
	if t.script != nil {
		r.Script = t.script.key
	}
	if err := t.session.add(r); err != nil {
		return err
	}
	t.update(t.session, chunk("agent_message_chunk", text, r.ID))
	return nil
}

func (t *turn) do(i int, s Step, view modelView) error {
	if s.Tool != "" {
		return t.call(i, s, view)
	}
	if s.fault() {
		strikes, err := t.takeFault(i, s)
		if err != nil || !strikes {
			return err
		}
		return t.fault(s)
	}
	switch {
	case s.Text != "":
		return t.say(s.Text, i)
	case s.Thought != "":
		t.update(t.session, chunk("agent_thought_chunk", s.Thought, ""))
	case s.Wait != "":
		return t.waitFor(s.Wait)
	case s.Pause > 0:
		return t.pause(time.Duration(s.Pause) * time.Millisecond)
	case s.Flood > 0:
		return t.flood(s.Flood)
	case s.Raw != nil:
		t.rawUpdate(s.Raw)
	case s.Junk != "":
		t.send([]byte(s.Junk + "\n"))
	case s.Request != nil:
		return t.request(i, s.Request)
	case s.Echo:
		t.rawUpdate([]byte(`{"sessionUpdate":"session_info_update","_meta":{"echo":` + string(t.prompt.Params.Of(t.prompt.Line)) + `}}`))
	case s.End != "" || s.Usage != nil:
		t.usage = s.Usage
		return errEnded(or(s.End, "end_turn"))
	}
	return nil
}

// rawUpdate sends an update with its bytes unchanged.
func (t *turn) rawUpdate(raw []byte) {
	line := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":` + string(encode(t.session.id)) + `,"update":` + string(raw) + "}}\n"
	t.send([]byte(line))
}

// flood sends thoughts as fast as the client reads them.
func (t *turn) flood(n int) error {
	const kilobyte = 1 << 10
	for i := range n {
		if err := t.ctx.Err(); err != nil {
			return err
		}
		t.update(t.session, chunk("agent_thought_chunk", fmt.Sprintf("%0*d", kilobyte, i), ""))
	}
	return nil
}

// request sends the client a request and returns its answer as text.
func (t *turn) request(i int, raw json.RawMessage) error {
	var r struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	m, err := t.ask(t.ctx, r.Method, r.Params)
	if err != nil {
		return err
	}
	return t.say("answered "+strings.TrimSpace(string(m.Line)), i)
}

// waitFor waits until a file exists.
func (t *turn) waitFor(name string) error {
	for {
		if _, err := os.Stat(name); err == nil {
			return nil
		}
		if err := t.pause(2 * time.Millisecond); err != nil {
			return err
		}
	}
}

func (t *turn) pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.ctx.Done():
		return t.ctx.Err()
	}
}

// promptText returns the text of all blocks of a prompt.
func promptText(m acp.Message) (string, error) {
	var p struct {
		Prompt []struct {
			Text     string `json:"text"`
			Resource struct {
				Text string `json:"text"`
			} `json:"resource"`
		} `json:"prompt"`
	}
	if err := m.Decode(m.Params, &p); err != nil {
		return "", &acp.Error{Code: acp.CodeInvalidParams, Message: fmt.Sprintf("Invalid params: %v", err)}
	}
	var all []string
	for _, b := range p.Prompt {
		all = append(all, b.Text+b.Resource.Text)
	}
	return strings.Join(all, "\n"), nil
}

// hangUp closes stdout in the middle of a message.
func (t *turn) hangUp() {
	fmt.Fprintf(t.stdout, `{"jsonrpc":"2.0","method":"session/update","params":{"sess`)
	if c, ok := t.stdout.(io.Closer); ok {
		c.Close()
	}
}
