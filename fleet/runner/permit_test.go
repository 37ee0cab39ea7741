package runner

import (
	"fmt"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/store/memory"
)

// newAttempt returns an attempt at the prompt of a thread, on a worker that allows all calls. The attempt before it is lost.
func newAttempt(t *testing.T, store segno.Store) *client {
	t.Helper()
	calls, err := openAttempts(t.Context(), store, "t")
	if err == nil {
		err = calls.begin(t.Context(), attempt{Key: "k"})
	}
	if err != nil {
		t.Fatal(err)
	}
	return &client{run: &acpRun{ACP: &ACP{Permissions: Allow}, thread: "t", root: "/root", attempts: calls}}
}

// announces has the agent announce or update a call.
func (c *client) announces(t *testing.T, call string) {
	t.Helper()
	m, err := acp.Parse([]byte(`{"jsonrpc":"2.0","method":"session/update","params":{"update":` + call + `}}`))
	if err == nil {
		err = c.update(t.Context(), m)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// asks has the agent ask for permission for a call, and returns whether the user is asked.
func (c *client) asks(t *testing.T, call string) (isQuestion bool) {
	t.Helper()
	m, err := acp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"toolCall":` + call +
		`,"options":[{"optionId":"a","kind":"allow_once"},{"optionId":"r","kind":"reject_once"}]}}`))
	if err == nil {
		_, isQuestion, err = c.run.permit(t.Context(), m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return isQuestion
}

// TestALostCallIsRecognized allows a call whose end is lost. The next attempt must ask before it allows the call again, however the
// agent names its calls.
func TestALostCallIsRecognized(t *testing.T) {
	announced := `{"sessionUpdate":"tool_call","toolCallId":%q,"title":"Terminal","kind":"execute","rawInput":{"command":"pay"}}`
	for name, lost := range map[string]func(c *client){
		"the announcement has another title": func(c *client) {
			c.announces(t, fmt.Sprintf(announced, "1"))
			c.asks(t, `{"toolCallId":"1","title":"pay bob","rawInput":{"command":"pay"}}`)
		},
		"its id was that of a call that ended": func(c *client) {
			c.asks(t, `{"toolCallId":"1","title":"look","rawInput":{}}`)
			c.announces(t, `{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed"}`)
			c.asks(t, `{"toolCallId":"1","title":"pay bob","rawInput":{"command":"pay"}}`)
		},
		"a later call has its id": func(c *client) {
			c.asks(t, `{"toolCallId":"1","title":"pay bob","rawInput":{"command":"pay"}}`)
			c.asks(t, `{"toolCallId":"1","title":"look","rawInput":{}}`)
		},
		"an earlier call has its id and did not end": func(c *client) {
			c.asks(t, `{"toolCallId":"1","title":"look","rawInput":{}}`)
			c.asks(t, `{"toolCallId":"1","title":"pay bob","rawInput":{"command":"pay"}}`)
		},
		"an equal call at the same time ended": func(c *client) {
			c.asks(t, `{"toolCallId":"1","title":"pay bob","rawInput":{"command":"pay"}}`)
			c.asks(t, `{"toolCallId":"2","title":"pay bob","rawInput":{"command":"pay"}}`)
			c.announces(t, `{"sessionUpdate":"tool_call_update","toolCallId":"2","status":"completed"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := memory.New(time.Now)
			lost(newAttempt(t, store))
			if !newAttempt(t, store).asks(t, `{"toolCallId":"9","title":"pay bob","rawInput":{"command":"pay"}}`) {
				t.Error("the call is made again without a question")
			}
		})
	}
}

// TestAPermissionIsForWhatWasAnnounced asks for permission with no more than the id of a call, which ACP permits. The user must read
// what the call does, and the decision about it must not allow another call.
func TestAPermissionIsForWhatWasAnnounced(t *testing.T) {
	pay := `{"sessionUpdate":"tool_call","toolCallId":"1","title":"Terminal","rawInput":{"command":"pay bob"}}`
	for name, other := range map[string]string{
		"another input":           `{"sessionUpdate":"tool_call","toolCallId":"1","title":"Terminal","rawInput":{"command":"delete all"}}`,
		"another content":         `{"sessionUpdate":"tool_call","toolCallId":"1","title":"Terminal","content":[{"type":"text","text":"delete all"}]}`,
		"another title":           `{"sessionUpdate":"tool_call","toolCallId":"1","title":"Delete all","rawInput":{"command":"pay bob"}}`,
		"an update of the input":  `{"sessionUpdate":"tool_call_update","toolCallId":"1","rawInput":{"command":"delete all"}}`,
		"nothing was announced":   `{"sessionUpdate":"tool_call","toolCallId":"2","title":"Terminal"}`,
		"announced without words": `{"sessionUpdate":"tool_call","toolCallId":"1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := newAttempt(t, memory.New(time.Now))
			c.run.Permissions = Ask
			c.announces(t, pay)
			if !c.asks(t, `{"toolCallId":"1"}`) {
				t.Fatal("the user is not asked")
			}
			q := c.run.question
			if q.Tool != "Terminal" || string(q.Args) != `{"command":"pay bob"}` {
				t.Errorf("the user reads %q, %s", q.Tool, q.Args)
			}
			approved := func() *client {
				c := newAttempt(t, memory.New(time.Now))
				c.run.Permissions, c.run.answer = Ask, &answer{Question: *q, Decision: &segno.Decision{Interrupt: q.ID, Kind: segno.Approve}}
				return c
			}
			if c = approved(); !c.allows(t, pay, `{"toolCallId":"1"}`) {
				t.Error("the call that the user approved is not allowed")
			}
			if c = approved(); c.allows(t, other, `{"toolCallId":"1"}`) {
				t.Error("another call is allowed")
			}
		})
	}
}

// allows has the agent announce a call and ask for permission, and returns whether the call is allowed.
func (c *client) allows(t *testing.T, announced, asked string) bool {
	t.Helper()
	c.announces(t, announced)
	c.asks(t, asked)
	for _, made := range c.run.attempts.known {
		if made.allowed != nil {
			return true
		}
	}
	return false
}
