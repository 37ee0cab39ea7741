package proxy_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/vfs"
)

// under runs a complete turn, and then begins one that waits until release is called.
func (r *rig) under(c *acptest.Client, s string) (turn *acptest.Turn, release func()) {
	r.Helper()
	r.write(c, s, "alpha")
	turn = r.prompt(c, s, "beta "+acptest.Directive(acptest.Say("on it"), acptest.Step{Wait: r.home + "/go"}, acptest.Do("beta-line"), acptest.Say("said-beta")))
	r.says(turn, "on it")
	return turn, func() { r.touch(r.home + "/go") }
}

// TestLoadDuringTurn checks that both requests get an answer, and that the replay does not
// become part of the turn.
func TestLoadDuringTurn(t *testing.T) {
	eachMethod(t, kinds(), []string{"load", "resume"}, func(t *testing.T, r *rig, method string) {
		c, s := r.session()
		turn, release := r.under(c, s)
		call, err := c.Go("session/"+method, map[string]any{"sessionId": s, "cwd": r.project, "mcpServers": []any{}})
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(200*time.Millisecond, release) // the answer may come before or after the turn's end
		r.ends(turn, "end_turn")
		if m, err := call.Answer(r.ctx); err != nil {
			t.Fatalf("%v, %v", m, err)
		}
		r.write(c, s, "gamma")
		r.wantSeen([]string{"alpha", "beta-line", "gamma"})
		if got := r.ledger(); got != "alpha-line beta-line gamma-line" {
			t.Errorf("the ledger has %q", got)
		}
		if got := r.segno("show", "t2", "--json"); strings.Contains(got, "alpha-line") || !strings.Contains(got, "beta-line") {
			t.Errorf("the turn is recorded as\n%s", got)
		}
	})
}

// TestCloseDuringTurn checks that the turn ends first and each request gets an answer.
func TestCloseDuringTurn(t *testing.T) {
	eachMethod(t, kinds(), []string{"close", "delete"}, func(t *testing.T, r *rig, method string) {
		c, s := r.session()
		turn, _ := r.under(c, s)
		queued := r.prompt(c, s, "gamma "+acptest.Directive(acptest.Do("gamma-line")))
		if _, err := c.Call(r.soon(t, 25*time.Second), "session/"+method, map[string]string{"sessionId": s}); err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		r.ends(turn, "cancelled")
		r.ends(queued, "cancelled")
		if got := r.ledger(); got != "alpha-line" {
			t.Errorf("the ledger has %q", got)
		}
		if got := r.log(); len(got) != 2 || !got[0].Interrupted {
			t.Errorf("the log has %+v", got)
		}
		r.open(c, "load", s)
		r.write(c, s, "delta")
		r.wantSeen([]string{"alpha", "delta"}, "gamma")
	})
}

// TestSetModeDuringTurn checks that the choice reaches the agent at once.
func TestSetModeDuringTurn(t *testing.T) {
	r, c, s := startSession(t, none)
	turn, release := r.under(c, s)
	r.choose(c, s, "plan")
	release()
	r.ends(turn, "end_turn")
	if got := r.sent().Settings; !strings.Contains(got, "plan") {
		t.Errorf("the settings are %s", got)
	}
}

// TestAnswersKeepIDs checks that an answer has the bytes of the request's id, even after
// segno sent the prompt again.
func TestAnswersKeepIDs(t *testing.T) {
	r, c, s := startSession(t, none)
	for i, id := range []string{`"a\u0062c"`, `-7`, `1.50`, `12345678901234567890`, `"segno:1"`, `"0"`} {
		text := fmt.Sprintf("turn%d %s", i, acptest.Directive(acptest.Do(fmt.Sprintf("line%d", i)), acptest.Step{Kill: true, Times: 1}, acptest.Say("done")))
		r.send(c, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":%s}]}}`+"\n", id, s, acp.Encode(text)))
		m, err := c.Await(r.ctx, 0, func(m acptest.Received) bool { return m.IsResponse() && m.IDText() == id })
		if err != nil || m.Err() != nil {
			t.Errorf("%s: %v, %v", id, err, m.Err())
		}
	}
	if n := len(c.Unanswered()); n != 0 {
		t.Errorf("%d requests have no answer", n)
	}
}

// TestDuplicateAnswer checks that the client receives only the first answer.
func TestDuplicateAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c := r.start(acptest.ClientOptions{}, "", "sh", "-c", `
		read l; echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'
		read l; echo '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}'
		echo '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"other"}}'
		read l; echo '{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn","usage":{"outputTokens":5}}}'
		echo '{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"late"}}'
		echo '{"jsonrpc":"2.0","id":"segno:99","result":{}}'
		echo '{"jsonrpc":"2.0","id":42,"result":{}}'
		read l; echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","usage":{"outputTokens":5}}}'
		cat >/dev/null`)
	if _, err := c.Initialize(r.ctx, nil); err != nil {
		t.Fatal(err)
	}
	s := r.open(c, "new", "")
	r.turn(c, s, "alpha")
	r.turn(c, s, "beta")
	if s != "s" {
		t.Errorf("the session is %s", s)
	}
}

// TestPromptContents checks that segno records prompts with invalid text, pictures and
// links, and forwards them byte for byte.
func TestPromptContents(t *testing.T) {
	r, c, s := startSession(t, none)
	echo := string(acp.Encode(acptest.Directive(acptest.Step{Echo: true}, acptest.Say("ok"))))
	for i, blocks := range []string{
		`{"type":"text","text":"lone \ud800 half"}`, `{"type":"text","text":"\u0000 \u001b[31m"}`, "{\"type\":\"text\",\"text\":\"bad \xff\xfe bytes\"}",
		`{"type":"image","mimeType":"image/png","data":"aGk=","x":1.50}`, `{"type":"resource_link","uri":"file:///a b","name":"n"}`,
		`{"type":"resource","resource":{"uri":"file:///x","text":"<&>"}}`, `{"type":"unheard","z":[1e400]}`, `{"type":"text","text":"` + strings.Repeat("long ", 100000) + `"}`,
	} {
		id := 500 + i
		from := c.Place()
		r.send(c, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":%q,"prompt":[%s, {"type":"text","text":%s}]}}`+"\n", id, s, blocks, echo))
		if _, err := c.Await(r.ctx, from, func(m acptest.Received) bool { return m.IsResponse() && m.IDText() == fmt.Sprint(id) }); err != nil {
			t.Fatal(err)
		}
		seen := false
		for _, m := range c.Messages()[from:] {
			seen = seen || strings.Contains(string(m.Line), blocks)
		}
		if !seen {
			t.Errorf("the agent was not sent %.80s", blocks)
		}
	}
	r.killAgent()
	r.say(c, s, "omega")
	r.segno("log")
	r.segno("check")
	c = r.comeBack(c, "load", s)
	if got := len(shown(c, 0)); got < 16 {
		t.Errorf("load shows %d updates", got)
	}
}

// TestCommandWithTextOnNextLine checks that segno recognizes a command whose text begins on
// the next line.
func TestCommandWithTextOnNextLine(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c, s := r.three()
	r.turn(c, s, "/edit 3\ndelta "+acptest.Directive(acptest.Do("delta-line"), acptest.Say("said-delta")))
	r.files(map[string]string{"ledger": "alpha-line\nbeta-line\ndelta-line\n"})
	r.wantSeen([]string{"alpha", "beta", "delta"}, "gamma")
	r.order(c, s, "/undo\n")
	r.files(map[string]string{"ledger": "alpha-line\nbeta-line\n"})
	r.order(c, s, "  /redo  ")
	r.files(map[string]string{"ledger": "alpha-line\nbeta-line\ndelta-line\n"})
}

// TestCommandWithAttachment checks that segno recognizes a command with an attached file.
func TestCommandWithAttachment(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c, s := r.three()
	m, err := c.Call(r.ctx, "session/prompt", map[string]any{"sessionId": s, "prompt": []any{map[string]any{"type": "text", "text": "/undo"},
		map[string]any{"type": "resource_link", "uri": "file:///open.go", "name": "open.go"}}})
	if err != nil {
		t.Fatal(err)
	}
	r.files(map[string]string{"ledger": "alpha-line\nbeta-line\n"})
	_ = m
}

// TestDirectoryThatCannotBeWorkspace checks the error for a directory that cannot be a
// workspace: a home.
func TestDirectoryThatCannotBeWorkspace(t *testing.T) {
	t.Parallel()
	for _, best := range []bool{false, true} {
		t.Run(fmt.Sprint("best effort ", best), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, none)
			if best {
				r.flags = []string{"--best-effort"}
			}
			r.project = r.home
			r.agent.Ledger = ""
			c := r.client()
			s, err := c.Open(r.ctx, "new", "", r.home)
			if err == nil {
				_, err = r.prompt(c, s, "alpha "+acptest.Directive(acptest.Say("said-alpha"))).Stop(r.ctx)
			}
			if best {
				if err != nil {
					t.Errorf("refused with %v", err)
				}
				return
			}
			if e := r.refused(err); !strings.Contains(e.Message, "home") || !json.Valid(e.Data) {
				t.Errorf("refused with %v %s", e, e.Data)
			}
		})
	}
}

// TestTurnOpensWorkspaceOnce locks the store's writer while a turn continues, loses its
// session, recovers and ends. The turn must not open its workspace again.
func TestTurnOpensWorkspaceOnce(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		c, s := r.session()
		held := filepath.Join(r.home, "go")
		turn := r.prompt(c, s, "alpha "+acptest.Directive(acptest.Say("begun"), acptest.Step{Wait: held}, acptest.Do("one"),
			acptest.Step{Kill: true, Times: 1}, acptest.Say("done")))
		r.says(turn, "begun")
		unlock, err := spool.New(filepath.Join(r.home, "data", "segno"), vfs.OS).Lock(r.ctx, "register")
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		r.touch(held)
		if stop, err := turn.Stop(r.soon(t, 25*time.Second)); err != nil || stop.Reason != "end_turn" { // a lock is awaited for 30 s
			t.Errorf("the turn ended with %q, %v", stop.Reason, err)
		}
		if got := r.turns(); len(got) != 1 {
			t.Errorf("the log has %q", got)
		}
	})
}
