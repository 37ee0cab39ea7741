package proxy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/testing/acptest"
)

// answers waits for n answers with an id, given as JSON.
func (r *rig) answers(c *acptest.Client, id string, n int) (all []acptest.Received) {
	r.Helper()
	from := 0
	for range n {
		m, err := c.Await(r.soon(r.T, time.Minute), from, func(m acptest.Received) bool { return m.IsResponse() && m.IDText() == id })
		if err != nil {
			r.Fatalf("%d of %d answers under %s: %v", len(all), n, id, err)
		}
		all, from = append(all, m), m.Place+1
	}
	return all
}

// TestReusedRequestID sends a second request with the id of an unanswered one. Both get an
// answer.
func TestReusedRequestID(t *testing.T) {
	r, c, s := startSession(t, none)
	for _, name := range []string{"one", "two", "three"} {
		r.send(c, fmt.Sprintf(`{"jsonrpc":"2.0","id":77,"method":"_%s","params":{"sessionId":%q}}`+"\n", name, s))
	}
	got := ""
	for _, m := range r.answers(c, "77", 3) {
		got += string(m.Line)
	}
	for _, name := range []string{"_one", "_two", "_three"} {
		if !strings.Contains(got, name) {
			t.Errorf("no answer to %s:\n%s", name, got)
		}
	}
	r.say(c, s, "alpha")
}

// TestInvalidRequestID checks that segno refuses the request and the agent does not receive
// it.
func TestInvalidRequestID(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c := r.client()
	for _, id := range []string{`{"a":1}`, `[1]`, `true`} {
		r.send(c, `{"jsonrpc":"2.0","id":`+id+`,"method":"session/list","params":{}}`+"\n")
		if e := r.answers(c, id, 1)[0].Err(); e == nil || e.Code != acp.CodeInvalidRequest {
			t.Errorf("%s: answered %v", id, e)
		}
	}
	s := r.open(c, "new", "")
	r.say(c, s, "alpha")
}

// script starts segno with an agent of three lines of shell. After initialize, at the
// client's session/new, the agent runs the commands of the test.
func (r *rig) script(then string) *acptest.Client {
	r.Helper()
	return r.scripted(then, acptest.ClientOptions{})
}

func (r *rig) scripted(then string, o acptest.ClientOptions) *acptest.Client {
	r.Helper()
	cmd := r.command()
	cmd.Args = []string{os.Args[0], "hasty", "sh", "-c", `
		read l; echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'
		read l; ` + then + `
		cat >/dev/null`}
	c := r.started(cmd, o, "")
	if _, err := c.Initialize(r.ctx, nil); err != nil {
		r.Fatal(err)
	}
	return c
}

// TestMalformedAnswer checks that no client waits forever: segno forwards readable messages
// and converts others to errors.
func TestMalformedAnswer(t *testing.T) {
	t.Parallel()
	const fine = `{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}`
	for name, tc := range map[string]struct{ say, session string }{
		"garbage without a newline": {`printf 'Loading... '; echo '` + fine + `'`, "s"},
		"garbage behind":            {`echo '` + fine + ` (took 3 s)'`, "s"},
		"two in a line":             {`echo '{"jsonrpc":"2.0","method":"_x"}` + fine + `'`, "s"},
		"an object as id":           {`echo '{"jsonrpc":"2.0","id":{"n":1},"result":{"sessionId":"s"}}'`, ""},
		"a reused id":               {`echo '{"jsonrpc":"2.0","id":0,"result":{"sessionId":"s"}}'`, ""},
		"no JSON":                   {`echo '{"jsonrpc":"2.0","id":1,"result":{"sessionId":s}}'`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, none)
			c := r.script(tc.say)
			id, err := c.Open(r.soon(t, time.Minute), "new", "", r.project)
			if tc.session != "" {
				if err != nil || id != tc.session {
					t.Errorf("the session is %q, %v", id, err)
				}
				return
			}
			if e := r.refused(err); !strings.HasPrefix(e.Message, "segno: the agent") {
				t.Errorf("refused with %v", e)
			}
		})
	}
}

// TestLateAnswerAfterDuplicate checks that a duplicate answer does not fail a request
// whose answer is late.
func TestLateAnswerAfterDuplicate(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c := r.script(`echo '{"jsonrpc":"2.0","id":0,"result":{}}'; echo '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}'`)
	if id, err := c.Open(r.ctx, "new", "", r.project); err != nil || id != "s" {
		t.Errorf("the session is %q, %v", id, err)
	}
}

// TestTurnAfterDuplicateAnswer checks that a turn survives a duplicate answer if the agent
// continues the turn, even after a long silence. Otherwise the turn fails.
func TestTurnAfterDuplicateAnswer(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	t.Parallel()
	update := func(text string) string {
		return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":` + text + `}}`
	}
	// write is one write of several lines. A busy machine may stop the shell between two writes for longer than the doubt lasts.
	write := func(lines ...string) string { return "printf '%s\\n' '" + strings.Join(lines, "' '") + "'; " }
	const (
		again  = `{"jsonrpc":"2.0","id":1,"result":{}}`
		silent = `sleep 1; `
		end    = `{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}`
		ask    = `{"jsonrpc":"2.0","id":9,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c"},"options":[{"optionId":"a","kind":"allow_once"}]}}`
	)
	begin := write(`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}`) + "read l; "
	call := update(`{"sessionUpdate":"tool_call","toolCallId":"c","title":"make","status":"in_progress"}`)
	done := update(`{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}`)
	said := update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"on it"}}`)
	titled := update(`{"sessionUpdate":"session_info_update","title":"make"}`)
	for name, tc := range map[string]struct{ say, want string }{
		"in a call":           {write(call, again) + silent + write(done, end), "end_turn"},
		"before a call":       {write(again, call) + silent + write(done, end), "end_turn"},
		"between its words":   {write(again, said) + silent + write(end), "end_turn"},
		"behind its words":    {write(said, again), ""},
		"before a title":      {write(said, again, titled), ""},
		"behind a call":       {write(call, done, again), ""},
		"before a question":   {write(again, ask) + "read l; " + write(end), "end_turn"},
		"under what is no id": {write(said, `{"jsonrpc":"2.0","id":{},"result":{}}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, none)
			c := r.scripted(begin+tc.say, acptest.ClientOptions{Permit: func(acptest.Received) string {
				<-time.After(time.Second) // the user is away
				return "a"
			}})
			s := r.open(c, "new", "")
			stop, err := r.prompt(c, s, "alpha").Stop(r.soon(t, time.Minute))
			if tc.want != "" {
				if err != nil || stop.Reason != tc.want {
					t.Errorf("the turn ended with %q, %v", stop.Reason, err)
				}
				return
			}
			if e := r.refused(err); !strings.HasPrefix(e.Message, "segno: the agent answered with") {
				t.Errorf("refused with %v", e)
			}
		})
	}
}

// TestAgentRequestWithInvalidID checks that the agent gets the answer with the id that it
// wrote.
func TestAgentRequestWithInvalidID(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c := r.script(`echo '{"jsonrpc":"2.0","id":{"n":7},"method":"session/request_permission","params":{"options":[{"optionId":"a","kind":"allow_once"}]}}'
		read l; case "$l" in *'"id":{"n":7}'*) echo '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}';; esac`)
	if id, err := c.Open(r.soon(t, time.Minute), "new", "", r.project); err != nil || id != "s" {
		t.Errorf("the session is %q, %v", id, err)
	}
}

// TestJoinedClientLines checks that each request in a line gets an answer.
func TestJoinedClientLines(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c := r.start(acptest.ClientOptions{}, "an answer too many", r.agentCommand()...) // it expects one request per line
	if _, err := c.Initialize(r.ctx, nil); err != nil {
		t.Fatal(err)
	}
	line := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/list","params":{}}`, id)
	}
	r.send(c, "garbage "+line(901)+"\n"+line(902)+line(903)+"\n"+line(904)+" garbage\n")
	r.send(c, `{"jsonrpc":"2.0","id":905,"method":"session/list","params":{x}}`+"\n")
	for _, id := range []string{"901", "902", "903", "904", "905"} {
		if e := r.answers(c, id, 1)[0].Err(); (e != nil) != (id == "905") {
			t.Errorf("%s: answered %v", id, e)
		}
	}
}

// TestRelativeDirectory checks that segno refuses a relative directory and names it.
func TestRelativeDirectory(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		c, s := r.session()
		r.say(c, s, "alpha")
		for _, method := range []string{"new", "load", "resume", "fork", "list"} {
			for _, cwd := range []any{"project", "./x", "", 5} {
				_, err := c.Call(r.ctx, "session/"+method, map[string]any{"sessionId": s, "cwd": cwd, "mcpServers": []any{}})
				if e := r.refused(err); e.Code != acp.CodeInvalidParams || !strings.Contains(e.Message, "cwd") {
					t.Errorf("%s in %v: refused with %v", method, cwd, e)
				}
			}
		}
		r.say(c, s, "beta")
	})
}

// TestNoticesAreMessages checks that each notice has an id, so that clients do not join it
// to the agent's text.
func TestNoticesAreMessages(t *testing.T) {
	r, c, s := startSession(t, none)
	r.say(c, s, "alpha")
	r.killAgent()
	r.say(c, s, "beta") // a notice reports that the conversation continues in another session
	r.order(c, s, "/checkpoints")
	r.order(c, s, "/undo 9")
	ids := map[string]bool{}
	for _, m := range c.Messages() {
		if m.Update() == "agent_message_chunk" && !strings.HasPrefix(m.Content(), "said-") {
			id := m.Text(m.Find(m.Params, "update", "messageId"))
			if id == "" || ids[id] {
				t.Errorf("the id %q is of %s", id, m.Line)
			}
			ids[id] = true
		}
	}
	if len(ids) < 3 {
		t.Errorf("only %d notices", len(ids))
	}
}

// TestInvalidArguments checks that the error names the invalid argument.
func TestInvalidArguments(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c, s := r.three()
	for _, tc := range []struct{ method, params, want string }{
		{"undo", `{"turns":"two"}`, `turns must be a whole number, not "two"`},
		{"undo", `{"turns":1.5}`, `turns must be a whole number, not 1.5`},
		{"undo", `{"turns":0}`, `turns must be at least 1, not 0`},
		{"redo", `{"turns":-3}`, `turns must be at least 1, not -3`},
		{"undo", `{"force":"yes"}`, `force must be true or false, not "yes"`},
		{"restore", `{"to":3}`, `to must be a string, not 3`},
		{"restore", `{}`, `to must name a checkpoint`},
		{"edit", `{}`, `turn must be the number of a turn, not 0`},
		{"fork", `{"name":["x"]}`, `name must be a string, not ["x"]`},
	} {
		params := map[string]any{}
		if err := json.Unmarshal([]byte(tc.params), &params); err != nil {
			t.Fatal(err)
		}
		params["sessionId"] = s
		_, err := c.Call(r.ctx, "_segno/"+tc.method, params)
		if e := r.refused(err); e.Code != acp.CodeInvalidParams || !strings.HasSuffix(e.Message, tc.want) {
			t.Errorf("%s %s: refused with %v; want %q", tc.method, tc.params, e, tc.want)
		}
	}
	r.files(map[string]string{"ledger": "alpha-line\nbeta-line\ngamma-line\n"})
}

// TestUndoWithForce overwrites the files in conflict, as the reply to /undo suggests.
func TestUndoWithForce(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c, s := r.three()
	r.put("ledger", "mine\n")
	if said := r.order(c, s, "/undo"); !strings.Contains(said, "/undo --force") {
		t.Errorf("the user sees %q", said)
	}
	r.files(map[string]string{"ledger": "mine\n"})
	r.order(c, s, "/undo --force")
	r.files(map[string]string{"ledger": "alpha-line\nbeta-line\n"})
	r.order(c, s, "/undo --force 1")
	r.files(map[string]string{"ledger": "alpha-line\n"})
	if data, err := os.ReadFile(filepath.Join(r.project, "ledger")); err != nil || string(data) == "mine\n" {
		t.Errorf("the ledger has %q, %v", data, err)
	}
}
