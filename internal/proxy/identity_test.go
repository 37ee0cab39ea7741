package proxy_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/testing/acptest"
)

// TestClientKeepsFirstID loses the agent's session twice. The client only ever receives the
// first id.
func TestClientKeepsFirstID(t *testing.T) {
	r, c, s := startSession(t, none)
	ask := func(line string) string {
		return line + " " + acptest.Directive(acptest.Step{Tool: "ledger", Line: line, Ask: true}, acptest.Say("said-"+line))
	}
	r.turn(c, s, ask("one"))
	r.killAgent()
	r.turn(c, s, ask("two"))
	r.killAgent()
	r.turn(c, s, ask("three"))
	r.turn(c, s, "evict "+acptest.Directive(acptest.Step{Evict: true, Times: 1}, acptest.Say("gone")))
	// The agent no longer has the session, and its error contains the session's id.
	_, err := c.Call(r.ctx, "session/set_mode", map[string]any{"sessionId": s, "modeId": "plan"})
	if err != nil && !strings.Contains(string(r.refused(err).Data), s) {
		t.Errorf("the error names another session: %v", err)
	}
	all, err := acptest.ReadRequests(r.agent.RequestsFile())
	if err != nil {
		t.Fatal(err)
	}
	ups := map[string]bool{}
	for _, q := range all {
		ups[q.Session] = true
	}
	if len(ups) < 3 || !ups[s] {
		t.Errorf("the agent had the sessions %v", ups)
	}
	delete(ups, s)
	for _, m := range c.Messages() {
		if id := m.SessionID(); id != "" && id != s {
			t.Errorf("the client received the id %s: %s", id, m.Line)
		}
		for up := range ups {
			if bytes.Contains(m.Line, []byte(up)) {
				t.Errorf("the client received the id %s: %s", up, m.Line)
			}
		}
	}
	if got := r.ledger(); got != "one two three" {
		t.Errorf("the ledger has %q", got)
	}
	if n := len(r.chain(s)); n < 3 {
		t.Errorf("the chain has %d sessions", n)
	}
}

// TestSessionTwiceInChain switches from one session to another and back. The chain has the
// first one twice.
func TestSessionTwiceInChain(t *testing.T) {
	r, c, s := startSession(t, acptest.Full)
	r.write(c, s, "alpha")
	r.write(c, s, "beta")
	r.order(c, s, "/undo")
	r.write(c, s, "gamma")
	r.wantSeen([]string{"alpha", "gamma"}, "beta")
	r.order(c, s, "/restore t2")
	r.write(c, s, "delta")
	r.wantSeen([]string{"alpha", "beta", "delta"}, "gamma")
	if got := r.sent().Session; got != s {
		t.Errorf("the turn went on in %s, not in the session that stood there, %s", got, s)
	}
	var chain []string
	for _, l := range r.chain(s) {
		if n := len(chain); n == 0 || chain[n-1] != string(l.Session) {
			chain = append(chain, string(l.Session))
		}
	}
	if len(chain) != 3 || chain[0] != s || chain[2] != s || chain[1] == s {
		t.Errorf("the chain is %v; want %s, another, %s", chain, s, s)
	}
	if got := r.logged(); got != "delta gamma beta alpha" {
		t.Errorf("the log has %q", got)
	}
	r.segno("check")
}

// TestUndoAndRedoKeepSession checks that segno makes no unnecessary new session.
func TestUndoAndRedoKeepSession(t *testing.T) {
	r, c, s := startSession(t, acptest.Full)
	r.say(c, s, "alpha")
	r.say(c, s, "beta")
	r.segno("undo", "-y")
	r.segno("redo", "-y")
	r.say(c, s, "gamma")
	r.wantSeen([]string{"alpha", "beta", "gamma"})
	if got := r.sent().Session; got != s {
		t.Errorf("the turn went on in %s, not in %s", got, s)
	}
}

// TestListCloseDelete uses the three methods with agents that support them and agents that
// do not.
func TestListCloseDelete(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		c, s := r.session()
		r.say(c, s, "alpha")
		other := r.open(c, "new", "")
		r.say(c, other, "beta")
		ids := func(cwd string) []string {
			list, err := c.List(r.ctx, cwd)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, l := range list {
				ids = append(ids, l.SessionID)
			}
			return ids
		}
		for _, cwd := range []string{"", r.project} {
			if got := ids(cwd); len(got) != 2 || !slices.Contains(got, s) || !slices.Contains(got, other) {
				t.Errorf("listed in %q: %v; want %s and %s", cwd, got, s, other)
			}
		}
		if got := ids(r.home); len(got) != 0 {
			t.Errorf("listed in another directory: %v", got)
		}
		if _, err := c.Call(r.ctx, "session/close", map[string]string{"sessionId": s}); err != nil {
			t.Errorf("close: %v", err)
		}
		if got := ids(""); !slices.Contains(got, s) {
			t.Errorf("a closed session is not listed: %v", got)
		}
		r.open(c, "resume", s)
		r.say(c, s, "gamma")
		r.wantSeen([]string{"alpha", "gamma"}, "beta")
		if _, err := c.Call(r.ctx, "session/delete", map[string]string{"sessionId": s}); err != nil {
			t.Errorf("delete: %v", err)
		}
		if got := ids(""); slices.Contains(got, s) || !slices.Contains(got, other) {
			t.Errorf("listed after a delete: %v", got)
		}
		if got := r.segno("threads"); !strings.Contains(got, "alpha") {
			t.Errorf("the thread is gone:\n%s", got)
		}
	})
}

// TestListHasNoReplacedSessions checks that the list has only the session that the client
// knows.
func TestListHasNoReplacedSessions(t *testing.T) {
	r, c, s := startSession(t, acptest.Full)
	r.say(c, s, "alpha")
	r.say(c, s, "beta")
	r.order(c, s, "/undo")
	r.say(c, s, "gamma")
	list, err := c.List(r.ctx, "")
	if err != nil || len(list) != 1 || list[0].SessionID != s {
		t.Errorf("listed: %v, %v; want %s", list, err, s)
	}
}

// TestResumeUnpromptedSession resumes a session that the agent forgot with its process.
func TestResumeUnpromptedSession(t *testing.T) {
	eachMethod(t, kinds(), []string{"load", "resume"}, func(t *testing.T, r *rig, method string) {
		c, s := r.session()
		c = r.comeBack(c, method, s)
		r.say(c, s, "alpha")
		c = r.comeBack(c, method, s)
		r.say(c, s, "beta")
		r.wantSeen([]string{"alpha", "beta"})
		if got := r.logged(); got != "beta alpha" {
			t.Errorf("the log has %q", got)
		}
		if out := r.segno("threads", "--json"); strings.Count(out, `"head"`) != 1 {
			t.Errorf("there is more than one thread:\n%s", out)
		}
	})
}

// TestPromptWithoutLoad prompts a session of an earlier run without loading it. The
// conversation continues.
func TestPromptWithoutLoad(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		c, s := r.session()
		r.write(c, s, "alpha")
		r.leave(c)
		c = r.client()
		r.write(c, s, "beta")
		r.wantSeen([]string{"alpha", "said-alpha", "beta"})
		if got := r.logged(); got != "beta alpha" {
			t.Errorf("the log has %q", got)
		}
	})
}

// TestLoadReplaysInOrder loads a session. segno replays from the record if the agent cannot
// replay, and if the session is a new one. The client never receives a preamble.
func TestLoadReplaysInOrder(t *testing.T) {
	t.Parallel()
	for name, agent := range kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, agent)
			c, s := r.session()
			first := "alpha " + acptest.Directive(acptest.Say("before"), acptest.Do("one"), acptest.Say("after"))
			second := "beta " + acptest.Directive(acptest.Do("two"), acptest.Say("end"))
			r.turn(c, s, first)
			r.killAgent()
			if name == "full" { // the agent loses the session with its file
				r.agent.Dir += "-other"
			}
			c = r.comeBack(c, "resume", s)
			r.turn(c, s, second)
			r.leave(c)
			c = r.client()
			from := c.Place()
			r.open(c, "load", s)
			want := []string{
				"user_message_chunk " + first, "agent_message_chunk before",
				"tool_call append onepending", "tool_call_update completed", "agent_message_chunk after",
				"user_message_chunk " + second, "tool_call append twopending", "tool_call_update completed", "agent_message_chunk end",
			}
			if got := shown(c, from); !slices.Equal(got, want) {
				t.Errorf("shown:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			for _, m := range c.Messages()[from:] {
				if m.Update() != "" && m.SessionID() != s {
					t.Errorf("an update of %s", m.SessionID())
				}
			}
			last := c.Messages()
			answered := slices.IndexFunc(last, func(m acptest.Received) bool { return m.IsResponse() && m.IDText() == "1" })
			for _, m := range last[answered:] {
				if k := m.Update(); !strings.HasPrefix(m.Content(), "segno: ") && (strings.HasSuffix(k, "_chunk") || strings.HasPrefix(k, "tool_")) {
					t.Errorf("replayed behind the answer: %s", m.Line)
				}
			}
		})
	}
}

// TestInitializeAddsMissingCapabilities checks that initialize adds the missing
// capabilities and changes nothing else.
func TestInitializeAddsMissingCapabilities(t *testing.T) {
	t.Parallel()
	whole := `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1, "agentInfo":{"name":"x","version":"1"},"agentCapabilities":` +
		`{"loadSession":true,"x":1.50,"sessionCapabilities":{"list":{},"resume":{"a":1},"fork":{},"close":{},"delete":{}}},"authMethods":[]}}`
	for name, c := range map[string]struct{ answer, want string }{
		"everything": {whole, whole},
		"nothing":    {`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}`, ""},
		"null":       {`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":false,"sessionCapabilities":null,"y":[1e400]}}}`, ""},
		"no object":  {`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":null}}`, ""},
		"empty":      {`{"jsonrpc":"2.0","id":0,"result":{"agentCapabilities": { } }}`, ""},
		"some":       {`{"jsonrpc":"2.0","id":0,"result":{"agentCapabilities":{"sessionCapabilities":{"list":{},"fork":null}}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, none)
			s := r.start(acptest.ClientOptions{}, "", "sh", "-c", `read l; printf '%s\n' "$0"; cat >/dev/null`, c.answer)
			m, err := s.Initialize(r.ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.want != "" && strings.TrimSpace(string(m.Line)) != c.want {
				t.Errorf("got\n%s\nwant\n%s", m.Line, c.want)
			}
			var got struct {
				Result struct {
					Caps struct {
						Load     bool                       `json:"loadSession"`
						Sessions map[string]json.RawMessage `json:"sessionCapabilities"`
					} `json:"agentCapabilities"`
				} `json:"result"`
			}
			if err := json.Unmarshal(m.Line, &got); err != nil {
				t.Fatalf("%v: %s", err, m.Line)
			}
			if !got.Result.Caps.Load {
				t.Errorf("it cannot load: %s", m.Line)
			}
			for _, name := range []string{"list", "resume", "fork", "close", "delete"} {
				if v := string(got.Result.Caps.Sessions[name]); !strings.HasPrefix(v, "{") {
					t.Errorf("%s is %q: %s", name, v, m.Line)
				}
			}
			if name == "null" && !bytes.Contains(m.Line, []byte("[1e400]")) {
				t.Errorf("a number was changed: %s", m.Line)
			}
		})
	}
}

// TestClientOfVersionTwo checks that the version is set to 1 and that the log has a line
// about it.
func TestClientOfVersionTwo(t *testing.T) {
	t.Parallel()
	r := newRig(t, acptest.Full)
	c := r.start(acptest.ClientOptions{}, "", "sh", "-c", `read l; printf '%s\n' "$l" >&2; printf '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}\n'; cat >/dev/null`)
	params := map[string]any{"protocolVersion": 2, "info": map[string]string{"name": "x"}, "capabilities": map[string]any{}}
	m, err := c.Call(r.ctx, "initialize", params)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(m.Find(m.Result, "protocolVersion").Of(m.Line)); got != "1" {
		t.Errorf("the client was answered version %s", got)
	}
	r.leave(c)
	if err := c.Stderr(); !strings.Contains(err, `"protocolVersion":1`) || strings.Contains(err, `"protocolVersion":2`) || !strings.Contains(err, "version 2") {
		t.Errorf("segno and the agent say\n%s", err)
	}
}

// TestNewProcessIsAuthenticated checks that a new process receives the client's
// authentication.
func TestNewProcessIsAuthenticated(t *testing.T) {
	t.Parallel()
	r := newRig(t, changed(acptest.Full, func(c *acptest.Config) { c.Auth = true }))
	c := r.client()
	_, err := c.Open(r.ctx, "new", "", r.project)
	if e := r.refused(err); e.Code != acp.CodeAuthRequired {
		t.Errorf("refused with %d", e.Code)
	}
	if _, err := c.Call(r.ctx, "authenticate", map[string]string{"methodId": "key"}); err != nil {
		t.Fatal(err)
	}
	s := r.open(c, "new", "")
	r.say(c, s, "alpha")
	r.killAgent()
	r.say(c, s, "beta")
	r.wantSeen([]string{"alpha", "beta"})
}

// TestForeignSession opens a session that the agent had before segno. Its turns stay, and
// later turns are recorded.
func TestForeignSession(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"load", "resume", "fork"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, acptest.Full)
			s := r.withoutSegno(func(c *acptest.Client, s string) { r.say(c, s, "alpha") })
			c := r.client()
			list, err := c.List(r.ctx, r.project)
			if err != nil || len(list) != 1 || list[0].SessionID != s {
				t.Fatalf("listed: %v, %v", list, err)
			}
			from := c.Place()
			id := r.open(c, method, s)
			if (id == s) != (method != "fork") {
				t.Errorf("%s of %s is %s", method, s, id)
			}
			if got := strings.Join(shown(c, from), "\n"); method == "load" && !strings.Contains(got, "said-alpha") {
				t.Errorf("shown:\n%s", got)
			}
			r.say(c, id, "beta")
			r.wantSeen([]string{"alpha", "beta"})
			c = r.comeBack(c, "resume", id)
			r.say(c, id, "gamma")
			r.wantSeen([]string{"alpha", "beta", "gamma"})
			if got := r.logged(); !strings.HasPrefix(got, "gamma beta") {
				t.Errorf("the log has %q", got)
			}
		})
	}
}

// TestAuthRequired checks that the agent's request for a login is forwarded, and that an
// expired token does not replace the session.
func TestAuthRequired(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"load", "resume", "prompt"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, acptest.Full)
			c, s := r.session()
			r.say(c, s, "alpha")
			r.leave(c)
			r.agent.Auth = true
			c = r.client()
			try := func() error {
				if method == "prompt" {
					_, err := r.prompt(c, s, "beta "+acptest.Directive(acptest.Say("said-beta"))).Stop(r.ctx)
					return err
				}
				_, err := c.Open(r.ctx, method, s, r.project)
				return err
			}
			if e := r.refused(try()); e.Code != acp.CodeAuthRequired {
				t.Errorf("refused with %v", e)
			}
			if _, err := c.Call(r.ctx, "authenticate", map[string]string{"methodId": "key"}); err != nil {
				t.Fatal(err)
			}
			if err := try(); err != nil {
				t.Fatal(err)
			}
			r.say(c, s, "gamma")
			r.wantSeen([]string{"alpha", "gamma"})
			if got := r.sent().Session; got != s {
				t.Errorf("the session was given up for %s", got)
			}
			if n := len(r.chain(s)); n != 1 {
				t.Errorf("the chain has %d sessions", n)
			}
		})
	}
}

// TestForkOfForeignSession forks a session that the client loaded and did not prompt.
func TestForkOfForeignSession(t *testing.T) {
	t.Parallel()
	r := newRig(t, acptest.Full)
	s := r.withoutSegno(func(c *acptest.Client, s string) { r.say(c, s, "alpha") })
	c := r.client()
	r.open(c, "load", s)
	fork := r.open(c, "fork", s)
	r.say(c, fork, "one")
	r.wantSeen([]string{"alpha", "one"})
	r.say(c, s, "beta")
	r.wantSeen([]string{"alpha", "beta"}, "one")
	if got := r.logged(); got != "beta alpha" && got != "one alpha" {
		t.Errorf("the log has %q", got)
	}
}

// claudeAgent configures an agent that keeps its sessions where Claude Code does.
func claudeAgent(dir string) acptest.Config {
	c := acptest.Full(dir)
	c.Name, c.Version, c.Claude = "@agentclientprotocol/claude-agent-acp", "0.101.0", filepath.Join(filepath.Dir(dir), "home", ".claude")
	return c
}

// TestDoctor asks doctor about a store that only has turns of Claude Code behind the proxy. They need no hooks.
func TestDoctor(t *testing.T) {
	r, c, s := startSession(t, claudeAgent)
	r.say(c, s, "alpha")
	if out := r.segno("doctor"); !strings.Contains(out, "turns of claude that needed no hooks") {
		t.Errorf("doctor says\n%s", out)
	}
}

// TestMoveBesideClient undoes turns on the command line while a client is open. The command says that the client continues there, also if
// the agent's sessions cannot be read, and not that the user should end the agent.
func TestMoveBesideClient(t *testing.T) {
	eachAgent(t, map[string]func(string) acptest.Config{"full": acptest.Full, "claude": claudeAgent}, func(t *testing.T, r *rig) {
		c, s := r.session()
		r.say(c, s, "alpha")
		r.say(c, s, "beta")
		out := r.segno("undo", "-y")
		if !strings.Contains(out, "the next prompt in the client of 'segno acp' (pid ") {
			t.Errorf("undo says\n%s", out)
		}
		r.say(c, s, "gamma")
		r.wantSeen([]string{"alpha", "gamma"})
	})
}
