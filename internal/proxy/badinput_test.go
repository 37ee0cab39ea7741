package proxy_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/testing/acptest"
)

// complaint waits for an error without the id of a request.
func (r *rig) complaint(c *acptest.Client, from int) *acp.Error {
	r.Helper()
	m, err := c.Await(r.ctx, from, func(m acptest.Received) bool { return m.IsResponse() && m.IDText() == "null" })
	if err != nil {
		r.Fatalf("no complaint: %v", err)
	}
	return m.Err()
}

// send writes bytes unchanged.
func (r *rig) send(c *acptest.Client, raw string) {
	r.Helper()
	if err := c.Send(raw); err != nil {
		r.Fatal(err)
	}
}

// TestMalformedLines sends lines that are not messages. The proxy answers them as the
// protocol demands, and continues.
func TestMalformedLines(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c := r.client()
	for raw, code := range map[string]int{
		"hello\n": acp.CodeParse, "{\n": acp.CodeParse, "{\"jsonrpc\":\"2.0\",\"id\":\n": acp.CodeParse, "\x00\xff\n": acp.CodeParse,
		`[{"jsonrpc":"2.0","id":5,"method":"session/list"}]` + "\n": acp.CodeInvalidRequest, "[]\n": acp.CodeInvalidRequest,
	} {
		from := c.Place()
		r.send(c, raw)
		if e := r.complaint(c, from); e.Code != code {
			t.Errorf("%q: answered %v; want %d", raw, e, code)
		}
	}
	for _, raw := range []string{"\n", "\r\n", "   \n", "42\n", "null\n", `"x"` + "\n", "{}\n", `{"jsonrpc":"2.0","id":99,"result":{}}` + "\n",
		`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}` + "\n", `{"jsonrpc":"2.0","method":"session/update"}` + "\n",
		`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":7}}` + "\n", `{"jsonrpc":"2.0","method":"$/cancel_request"}` + "\n",
		`{"jsonrpc":"2.0","method":"session/cancel","params":[1]}` + "\n"} {
		r.send(c, raw)
	}
	s := r.open(c, "new", "")
	r.say(c, s, "alpha")
}

// TestMalformedParams sends requests with malformed params. Each gets one answer.
func TestMalformedParams(t *testing.T) {
	r, c, s := startSession(t, none)
	for i, method := range []string{"session/new", "session/load", "session/resume", "session/fork", "session/list", "session/close", "session/delete",
		"session/prompt", "session/set_mode", "authenticate", "_segno/undo", "_segno/checkpoints"} {
		for j, params := range []string{``, `,"params":null`, `,"params":[1,2]`, `,"params":{}`, `,"params":{"sessionId":7}`, `,"params":{"sessionId":""}`,
			`,"params":{"sessionId":{"a":1},"cwd":5,"prompt":"x"}`} {
			id := 1000 + 10*i + j
			r.send(c, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q%s}`+"\n", id, method, params))
			if _, err := c.Await(r.soon(t, time.Minute), 0, func(m acptest.Received) bool { return m.IsResponse() && m.IDText() == fmt.Sprint(id) }); err != nil {
				t.Fatalf("%s %s: no answer: %v", method, params, err)
			}
		}
	}
	for i, prompt := range []string{`[]`, `null`, `"x"`, `[1]`, `{}`, `[{"type":"text"}]`, `[{"type":"image","data":"aGk=","mimeType":"image/png"}]`} {
		id := 2000 + i
		r.send(c, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":%q,"prompt":%s}}`+"\n", id, s, prompt))
		if _, err := c.Await(r.soon(t, time.Minute), 0, func(m acptest.Received) bool { return m.IsResponse() && m.IDText() == fmt.Sprint(id) }); err != nil {
			t.Fatalf("the prompt %s: no answer: %v", prompt, err)
		}
	}
	r.say(c, s, "alpha")
	r.segno("check")
}

// TestCRLF checks that a line's end is forwarded unchanged.
func TestCRLF(t *testing.T) {
	r, c, s := startSession(t, changed(none, func(c *acptest.Config) { c.CRLF = true }))
	request := fmt.Sprintf(`{"jsonrpc":"2.0", "id":"x","method":"_mine","params":{"sessionId":%q,"n":1e400,"t":"<&>\u00e9"}}`+"\r\n", s)
	r.send(c, request)
	m, err := c.Await(r.ctx, 0, func(m acptest.Received) bool { return m.IDText() == `"x"` })
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Text(m.Find(m.Result, "line")); strings.TrimRight(got, "\r\n") != strings.TrimRight(request, "\r\n") {
		t.Errorf("the agent got %q; want %q", got, request)
	}
	r.say(c, s, "alpha")
}

// TestTooLongClientLine sends a line of 100 MiB. The proxy drops it while it reads it, and
// serves the next lines.
func TestTooLongClientLine(t *testing.T) {
	r, c, s := startSession(t, none)
	from := c.Place()
	r.send(c, `{"jsonrpc":"2.0","id":77,"method":"session/prompt","params":{"x":"`+strings.Repeat("x", 100<<20)+"\"}}\n")
	m, err := c.Await(r.ctx, from, func(m acptest.Received) bool { return m.IsResponse() && m.IDText() == "77" })
	if err != nil || m.Err() == nil || m.Err().Code != acp.CodeInvalidRequest {
		t.Fatalf("answered %s, %v", m.Line, err)
	}
	if peak := r.peak(c.PID()); peak > 400<<10 {
		t.Errorf("it took %d KiB of memory", peak)
	}
	r.say(c, s, "alpha")
}

// peak returns the peak of a process's memory, in KiB.
func (r *rig) peak(pid int) (kib int) {
	r.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		r.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		r.Fatal(err)
	}
	return kib
}

// TestTooLongAgentLine makes the agent send a line of 100 MiB. The proxy drops it.
func TestTooLongAgentLine(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c := r.start(acptest.ClientOptions{}, "", "sh", "-c", `
		read l; echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'
		read l; printf '{"x":"'; head -c 104857600 /dev/zero | tr '\0' x; echo '"}'
		echo '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"late"}}'
		cat >/dev/null`)
	if _, err := c.Initialize(r.ctx, nil); err != nil {
		t.Fatal(err)
	}
	if s := r.open(c, "new", ""); s != "late" {
		t.Errorf("the session is %s", s)
	}
	if peak := r.peak(c.PID()); peak > 400<<10 {
		t.Errorf("it took %d KiB of memory", peak)
	}
}

// TestBeforeInitialize checks that requests before initialize are refused and other
// messages ignored.
func TestBeforeInitialize(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c := r.start(acptest.ClientOptions{}, "", r.agentCommand()...)
	for _, method := range []string{"session/new", "session/prompt", "session/list", "authenticate", "_x", "_segno/undo"} {
		_, err := c.Call(r.ctx, method, map[string]any{"sessionId": "x", "cwd": r.project})
		if e := r.refused(err); e.Code != acp.CodeInvalidRequest {
			t.Errorf("%s: refused with %v", method, e)
		}
	}
	if err := c.Cancel("x"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Initialize(r.ctx, nil); err != nil {
		t.Fatal(err)
	}
	s := r.open(c, "new", "")
	r.say(c, s, "alpha")
}

// TestUnknownSessions sends requests for unknown sessions. Each gets one answer and makes
// no thread.
func TestUnknownSessions(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		c := r.client()
		for _, method := range []string{"load", "resume", "fork", "prompt", "set_mode"} {
			_, err := c.Call(r.ctx, "session/"+method, map[string]any{"sessionId": "unknown", "cwd": r.project, "mcpServers": []any{}, "modeId": "plan",
				"prompt": []any{map[string]string{"type": "text", "text": "x"}}})
			if e := r.refused(err); e.Message == "" {
				t.Errorf("%s: refused with %v", method, e)
			}
		}
		if err := c.Cancel("unknown"); err != nil {
			t.Fatal(err)
		}
		s := r.open(c, "new", "")
		r.say(c, s, "alpha")
		if out := r.segno("threads", "--json"); strings.Count(out, `"head"`) != 1 {
			t.Errorf("threads:\n%s", out)
		}
		list, err := c.List(r.ctx, "")
		if err != nil || len(list) != 1 {
			t.Errorf("listed: %v, %v", list, err)
		}
	})
}

// TestConcurrentRequestsForUnknownSession sends many requests for an unknown session at
// once. Each gets an answer.
func TestConcurrentRequestsForUnknownSession(t *testing.T) {
	t.Parallel()
	r := newRig(t, acptest.Full)
	c := r.client()
	var calls []*acptest.Call
	for i := range 300 {
		method := []string{"session/load", "session/resume", "session/prompt", "session/close"}[i%4]
		call, err := c.Go(method, map[string]any{"sessionId": "unknown", "cwd": r.project, "mcpServers": []any{}, "prompt": []any{}})
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, call)
	}
	ctx := r.soon(t, time.Minute)
	for i, call := range calls {
		if m, err := call.Answer(ctx); err != nil || m.Err() == nil && i%4 != 3 {
			t.Fatalf("request %d: %v, %s", i, err, m.Line)
		}
	}
	if out := r.segno("threads", "--json"); strings.Contains(out, `"head"`) {
		t.Errorf("threads:\n%s", out)
	}
}

// TestSilentAgent checks that an agent that never answers does not delay the exit.
func TestSilentAgent(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"initialize", "session/new"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, changed(none, func(c *acptest.Config) { c.Deaf = []string{method} }))
			c := r.start(acptest.ClientOptions{}, "", r.agentCommand()...)
			if method != "initialize" {
				if _, err := c.Initialize(r.ctx, nil); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := c.Go(method, map[string]any{"protocolVersion": 1, "cwd": r.project, "mcpServers": []any{}}); err != nil {
				t.Fatal(err)
			}
			r.until("the agent", func() bool { return len(r.starts()) == 1 })
			c.CloseStdin()
			if code, err := c.Wait(r.soon(t, time.Minute)); err != nil || code != 0 {
				t.Errorf("segno ended with %d, %v", code, err)
			}
			if got := r.living(); len(got) != 0 {
				t.Errorf("the agent lives: %v", got)
			}
		})
	}
}

// TestMalformedAgentOutput checks that malformed lines of the agent go to the log and not
// to the client.
func TestMalformedAgentOutput(t *testing.T) {
	r, c, s := startSession(t, changed(none, func(c *acptest.Config) { c.Greeting = "Welcome to the agent!" }))
	r.turn(c, s, "alpha "+acptest.Directive(acptest.Step{Junk: "DEBUG: 1"}, acptest.Step{Junk: `{"foo":1}`}, acptest.Step{Junk: `[1]`}, acptest.Step{Junk: ""}, acptest.Step{Junk: "42"}, acptest.Say("ok")))
	r.leave(c)
	for _, m := range c.Messages() {
		for _, junk := range []string{"Welcome", "DEBUG", "foo", "[1]"} {
			if bytes.Contains(m.Line, []byte(junk)) && !bytes.Contains(m.Line, []byte("<<acp")) {
				t.Errorf("the client got %s", m.Line)
			}
		}
	}
	for _, junk := range []string{"Welcome", "DEBUG", "foo"} {
		if !strings.Contains(c.Stderr(), junk) {
			t.Errorf("%q is not in the log:\n%s", junk, c.Stderr())
		}
	}
}

// TestMissingAgentCommand checks the error, the line and the exit code for an agent's
// command that does not exist.
func TestMissingAgentCommand(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"no-such-agent", "/nonexistent/agent"} {
		r := newRig(t, none)
		c := r.start(acptest.ClientOptions{}, "", command)
		_, err := c.Initialize(r.ctx, nil)
		if e := r.refused(err); !strings.Contains(e.Message, command) {
			t.Errorf("refused with %v", e)
		}
		code, err := c.Wait(r.soon(t, time.Minute))
		if err != nil || code != 3 {
			t.Errorf("segno ended with %d, %v; want 3", code, err)
		}
		if got := c.Stderr(); !strings.Contains(got, command) || strings.Count(strings.TrimSpace(got), "\n") > 1 {
			t.Errorf("segno says\n%s", got)
		}
	}
}

// TestAgentExitsAtStart checks that each request gets an answer, and that segno runs until
// the client disconnects.
func TestAgentExitsAtStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c := r.start(acptest.ClientOptions{}, "", "sh", "-c", "echo no licence >&2; exit 7")
	_, err := c.Initialize(r.ctx, nil)
	r.refused(err)
	c.CloseStdin()
	if _, err := c.Wait(r.soon(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(c.Stderr(), "no licence") {
		t.Errorf("segno says\n%s", c.Stderr())
	}
}

// TestAgentDiesAtEachPrompt checks that the agent is restarted a limited number of times,
// that the prompt fails, and that a later prompt starts the agent again.
func TestAgentDiesAtEachPrompt(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	r, c, s := startSession(t, none)
	for range 2 {
		_, err := r.prompt(c, s, "alpha "+acptest.Directive(acptest.Step{Kill: true})).Stop(r.ctx)
		if e := r.refused(err); e.Message == "" {
			t.Errorf("refused with %v", e)
		}
	}
	if n := len(r.starts()); n > 12 {
		t.Errorf("it was started %d times", n)
	}
	r.say(c, s, "beta")
	if got := r.log(); len(got) != 3 || got[0].Interrupted || !got[1].Interrupted {
		t.Errorf("the log has %+v", got)
	}
}

// data returns the directory of the rig's store.
func (r *rig) data() string { return filepath.Join(r.home, "data", "segno") }

// occupy locks the store's writer until vacate is called.
func (r *rig) occupy() (vacate func()) {
	r.Helper()
	db, err := sql.Open("sqlite", filepath.Join(r.data(), "segno.db"))
	if err != nil {
		r.Fatal(err)
	}
	conn, err := db.Conn(r.ctx)
	if err != nil {
		r.Fatal(err)
	}
	if _, err := conn.ExecContext(r.ctx, "BEGIN IMMEDIATE"); err != nil {
		r.Fatal(err)
	}
	return func() {
		if _, err := conn.ExecContext(context.WithoutCancel(r.ctx), "ROLLBACK"); err != nil {
			r.Error(err)
		}
		conn.Close()
		db.Close()
	}
}

// spoil makes a directory of the store read-only, even for root, until mend is called.
func (r *rig) spoil(name string) (mend func()) {
	r.Helper()
	dir := filepath.Join(r.data(), name)
	if err := os.Rename(dir, dir+".away"); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		r.Fatal(err)
	}
	return func() {
		if err := os.Remove(dir); err != nil {
			r.Error(err)
		}
		if err := os.Rename(dir+".away", dir); err != nil {
			r.Error(err)
		}
	}
}

// TestReadOnlyStore checks that prompts are refused, unless the user allowed unrecorded
// turns, and work again when the store can be written.
func TestReadOnlyStore(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	t.Parallel()
	for _, what := range []string{"locked", "spoiled"} {
		for _, best := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s best effort %v", what, best), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, none)
				if best {
					r.flags = []string{"--best-effort"}
				}
				c, s := r.session()
				r.say(c, s, "alpha")
				var mend func()
				if what == "locked" {
					mend = r.occupy()
				} else {
					mend = r.spoil("turns")
				}
				from := c.Place()
				turn := r.prompt(c, s, "beta "+acptest.Directive(acptest.Do("beta-line"), acptest.Say("said-beta")))
				stop, err := turn.Stop(r.soon(t, time.Minute))
				if best {
					if err != nil || stop.Reason != "end_turn" || r.ledger() != "beta-line" {
						t.Errorf("the turn ended with %q, %v; the ledger has %q", stop.Reason, err, r.ledger())
					}
					if got := strings.Join(shownOurs(c, from), "\n"); what == "spoiled" && !strings.Contains(got, "not recorded") {
						t.Errorf("the user sees %q", got)
					}
				} else if what == "spoiled" {
					if e := r.refused(err); !strings.HasPrefix(e.Message, "segno: ") || r.ledger() != "" {
						t.Errorf("refused with %v; the ledger has %q", e, r.ledger())
					}
				} else if err == nil && r.ledger() != "beta-line" {
					t.Errorf("answered, and not done")
				}
				mend()
				r.say(c, s, "gamma")
				r.wantSeen([]string{"alpha", "gamma"})
				if got := r.logged(); !strings.HasPrefix(got, "gamma") || !strings.HasSuffix(got, "alpha") {
					t.Errorf("the log has %q", got)
				}
				r.segno("check")
			})
		}
	}
}

// TestStoreLockedAtTurnEnd checks that the turn is recorded when the store is no longer
// locked.
func TestStoreLockedAtTurnEnd(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	r, c, s := startSession(t, none)
	turn := r.prompt(c, s, "alpha "+acptest.Directive(acptest.Say("on it"), acptest.Step{Wait: r.home + "/go"}, acptest.Do("one"), acptest.Say("said-alpha")))
	r.says(turn, "on it")
	vacate := r.occupy()
	r.touch(r.home + "/go")
	r.ends(turn, "end_turn")
	vacate()
	r.killAgent()
	r.say(c, s, "beta")
	r.wantSeen([]string{"alpha", "appended one", "said-alpha", "beta"})
	if got := r.log(); len(got) != 2 || got[1].Interrupted {
		t.Errorf("the log has %+v", got)
	}
	r.segno("check")
}

// TestUnreadableStore checks the error for a store that cannot be opened.
func TestUnreadableStore(t *testing.T) {
	t.Parallel()
	for _, best := range []bool{false, true} {
		t.Run(fmt.Sprint("best effort ", best), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, none)
			if err := os.MkdirAll(filepath.Dir(r.data()), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(r.data(), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			if best {
				r.flags = []string{"--best-effort"}
			}
			c := r.start(acptest.ClientOptions{}, "", r.agentCommand()...)
			_, err := c.Initialize(r.ctx, nil)
			if best {
				if err != nil {
					t.Fatal(err)
				}
				s := r.open(c, "new", "")
				r.say(c, s, "alpha")
				return
			}
			if e := r.refused(err); !strings.Contains(e.Message, "store") {
				t.Errorf("refused with %v", e)
			}
			code, err := c.Wait(r.soon(t, time.Minute))
			if err != nil || code == 0 {
				t.Errorf("segno ended with %d, %v", code, err)
			}
			if got := c.Stderr(); !strings.Contains(got, "store") {
				t.Errorf("segno says\n%s", got)
			}
		})
	}
}

// TestBestEffortWithoutStore runs with a store that cannot be created.
func TestBestEffortWithoutStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	blocked := filepath.Join(r.home, "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--store", filepath.Join(blocked, "store"), "acp", "--best-effort", "--"}, r.agentCommand()...)
	c := r.started(r.command(args...), acptest.ClientOptions{}, "")
	if _, err := c.Initialize(r.ctx, nil); err != nil {
		t.Fatalf("%v\n%s", err, c.Stderr())
	}
	r.say(c, r.open(c, "new", ""), "alpha")
	r.leave(c)
	if !strings.Contains(c.Stderr(), "nothing is recorded") {
		t.Errorf("the log has %q", c.Stderr())
	}
}
