package acptest_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dalsegno/segno/internal/proxy/acp"
	. "github.com/dalsegno/segno/internal/testing/acptest"
)

func TestMain(m *testing.M) {
	if code, ran := Main(context.Background(), os.Args[1:], Standard()); ran {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// run is one agent's process and its client.
type run struct {
	*testing.T
	*Client
	ctx    context.Context
	broken bool // the test causes a truncated message
}

func start(t *testing.T, o ClientOptions, args ...string) *run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	c, err := Start(ctx, cmd, o)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{T: t, Client: c, ctx: ctx}
	t.Cleanup(func() {
		c.Kill()
		<-c.Exited()
		cancel()
		for _, p := range c.Problems() {
			if !r.broken || !strings.Contains(p, "Parse error") {
				t.Error(p)
			}
		}
	})
	if _, err := c.Initialize(ctx, nil); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *run) open(method, from, cwd string) string {
	r.Helper()
	id, err := r.Open(r.ctx, method, from, cwd)
	if err != nil {
		r.Fatalf("session/%s: %v", method, err)
	}
	return id
}

// prompt runs a turn to its end.
func (r *run) prompt(session, text string) (*Turn, Stop, error) {
	r.Helper()
	turn, err := r.Prompt(session, text)
	if err != nil {
		r.Fatal(err)
	}
	stop, err := turn.Stop(r.ctx)
	return turn, stop, err
}

func (r *run) ended(session, text, reason string) *Turn {
	r.Helper()
	turn, stop, err := r.prompt(session, text)
	if err != nil || stop.Reason != reason {
		r.Fatalf("the turn ended with %q, %v; want %s", stop.Reason, err, reason)
	}
	return turn
}

// waitForExit waits until the process exits without being killed.
func (r *run) waitForExit() {
	r.Helper()
	if _, err := r.Wait(r.ctx); err != nil {
		r.Fatal(err)
	}
}

func ledger(t *testing.T, c Config) string {
	t.Helper()
	lines, err := ReadLedger(c.LedgerFile())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, " ")
}

func lastRequest(t *testing.T, c Config) Request {
	t.Helper()
	all, err := ReadRequests(c.RequestsFile())
	if err != nil || len(all) == 0 {
		t.Fatalf("%d requests, %v", len(all), err)
	}
	return all[len(all)-1]
}

// TestALineWrittenInPartIsLeftOut begins with what a process left that was killed while it wrote a request.
func TestALineWrittenInPartIsLeftOut(t *testing.T) {
	c := Full(t.TempDir())
	if err := os.WriteFile(c.RequestsFile(), []byte(`{"session":"a","sa`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, ClientOptions{}, c.Args()...)
	r.ended(r.open("new", "", "/p"), "please "+Directive(Say("done")), "end_turn")
	if q := lastRequest(t, c); !q.First {
		t.Errorf("the model was sent %+v", q)
	}
}

func TestATurnDoesItsScript(t *testing.T) {
	c := Full(t.TempDir())
	c.Title, c.Commands = true, []string{"compact"}
	r := start(t, ClientOptions{}, c.Args()...)
	s := r.open("new", "", "/p")
	turn := r.ended(s, "please "+Directive(Say("on it"), Do("one"), Step{Tool: "ledger", Line: "two", Child: true, Ask: true}, Say("done")), "end_turn")
	var kinds []string
	for _, u := range turn.Updates() {
		kinds = append(kinds, u.Update())
	}
	want := []string{"available_commands_update", "agent_message_chunk", "tool_call", "tool_call_update", "tool_call_update",
		"tool_call", "tool_call_update", "tool_call_update", "agent_message_chunk"}
	if kinds[0] != want[0] {
		want = want[1:] // it arrived before the client sent the prompt
	}
	if !slices.Equal(kinds, want) {
		t.Errorf("updates: %v", kinds)
	}
	if turn.Said() != "on itdone" || ledger(t, c) != "one two" {
		t.Errorf("said %q, ledger %q", turn.Said(), ledger(t, c))
	}
	if _, err := r.Await(r.ctx, turn.From, func(m Received) bool { return m.Update() == "session_info_update" }); err != nil {
		t.Error("no title behind the answer:", err)
	}
	if q := lastRequest(t, c); !strings.Contains(q.Text(), "appended two") || q.Unnamed != nil || q.First {
		t.Errorf("the model was sent %+v", q)
	}
	if n := len(r.Unanswered()); n != 0 {
		t.Errorf("%d requests unanswered", n)
	}
	if err := r.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	if code, err := r.Wait(r.ctx); code != 0 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
}

func TestWhatWasCutShortGoesOn(t *testing.T) {
	for _, strike := range []string{"intent", "effect", "recorded", "result"} {
		for _, how := range []string{"kill", "exit", "child", "drop"} {
			if how == "child" && (strike == "recorded" || strike == "result") {
				continue // the child has ended by then
			}
			t.Run(strike+" "+how, func(t *testing.T) {
				c := Full(t.TempDir())
				r := start(t, ClientOptions{}, c.Args()...)
				r.broken = how == "drop"
				s := r.open("new", "", "/p")
				text := Directive(Do("one"), Step{Tool: "ledger", Line: "two", Strike: strike, How: how, Times: 1}, Do("three"))
				if _, _, err := r.prompt(s, text); err == nil {
					t.Fatal("the turn did not fail")
				}
				if how != "drop" && how != "child" {
					r.waitForExit()
				}
				r.Kill()
				r = start(t, ClientOptions{}, c.Args()...)
				r.open("resume", s, "/p")
				r.ended(s, "go on", "end_turn")
				if got := ledger(t, c); got != "one two three" {
					t.Errorf("ledger: %s", got)
				}
			})
		}
	}
}

func TestAnotherSessionGoesOnFromWhatItIsTold(t *testing.T) {
	c := Full(t.TempDir())
	r := start(t, ClientOptions{}, c.Args()...)
	s := r.open("new", "", "/p")
	text := Directive(Do("one"), Step{Tool: "ledger", Line: "two", Strike: "effect", Times: 1}, Do("three"))
	if _, _, err := r.prompt(s, text); err == nil {
		t.Fatal("the turn did not fail")
	}
	quoted := acp.Encode(text)
	r = start(t, ClientOptions{}, c.Args()...)
	s = r.open("new", "", "/p")
	r.ended(s, "The user said "+string(quoted)+". You appended one. Unknown: append two. Go on.", "end_turn")
	if got := ledger(t, c); got != "one two three" {
		t.Errorf("ledger: %s", got)
	}
	all, err := ReadRequests(c.RequestsFile())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range all {
		if q.Session == s && q.Unnamed != nil {
			t.Errorf("not named: %v", q.Unnamed)
		}
	}
	s = r.open("new", "", "/p")
	r.ended(s, "what did you do?", "end_turn")
	if q := lastRequest(t, c); strings.Join(q.Unnamed, " ") != "one two three" {
		t.Errorf("a session that was told nothing lacks %v", q.Unnamed)
	}
}

func TestASessionIsOpenedByAnotherProcess(t *testing.T) {
	c := Full(t.TempDir())
	r := start(t, ClientOptions{}, c.Args()...)
	s := r.open("new", "", "/p")
	first := r.ended(s, Directive(Say("hello"), Do("one")), "end_turn")
	r.ended(s, Directive(Do("two")), "end_turn")
	unprompted := r.open("new", "", "/p")
	at := first.Updates()[0]
	message := at.Text(at.Find(at.Params, "update", "messageId"))

	r = start(t, ClientOptions{}, c.Args()...)
	var missing *acp.Error
	if _, err := r.Open(r.ctx, "resume", unprompted, "/p"); !errors.As(err, &missing) || missing.Code != acp.CodeNotFound {
		t.Errorf("a session that was never prompted: %v", err)
	}
	from := r.Place()
	r.open("load", s, "/p")
	var replayed []string
	for _, m := range r.Messages()[from:] {
		replayed = append(replayed, m.Update())
	}
	if want := []string{"user_message_chunk", "agent_message_chunk", "tool_call", "tool_call_update", "user_message_chunk",
		"tool_call", "tool_call_update", ""}; !slices.Equal(replayed, want) {
		t.Errorf("replayed: %v", replayed)
	}
	fork, err := r.Call(r.ctx, "session/fork", map[string]any{"sessionId": s, "cwd": "/p", "_meta": map[string]any{"jetbrains": map[string]any{
		"air": map[string]any{"fork": map[string]any{"version": 1, "messageId": message}}}}})
	if err != nil {
		t.Fatal(err)
	}
	r.ended(fork.SessionID(), "well?", "end_turn")
	if q := lastRequest(t, c); strings.Contains(q.Text(), "two") || !strings.Contains(q.Text(), "hello") {
		t.Errorf("the fork's model was sent %q", q.Text())
	}
	list, err := r.List(r.ctx, "/p")
	if err != nil || len(list) != 2 {
		t.Errorf("listed: %v, %v", list, err)
	}
	if _, err := r.Call(r.ctx, "session/delete", map[string]string{"sessionId": s}); err != nil {
		t.Error(err)
	}
	if _, err := r.Open(r.ctx, "load", s, "/p"); !errors.As(err, &missing) {
		t.Errorf("a deleted session: %v", err)
	}
}

func TestAnAgentOfNoAbilities(t *testing.T) {
	r := start(t, ClientOptions{}, Config{Dir: t.TempDir()}.Args()...)
	init := r.Messages()[0]
	if init.Find(init.Result, "agentInfo") != (acp.Span{}) || init.Find(init.Result, "agentCapabilities", "sessionCapabilities") != (acp.Span{}) {
		t.Errorf("it says %s", init.Line)
	}
	for _, method := range []string{"load", "resume", "fork", "list", "close", "delete"} {
		var e *acp.Error
		if _, err := r.Call(r.ctx, "session/"+method, map[string]string{"sessionId": "x", "cwd": "/p"}); !errors.As(err, &e) || e.Code != acp.CodeMethodNotFound {
			t.Errorf("session/%s: %v", method, err)
		}
	}
}

func TestFailuresAreAnsweredAsRealAgentsDo(t *testing.T) {
	for row, want := range Failures() {
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			c := Full(t.TempDir())
			r := start(t, ClientOptions{}, c.Args()...)
			s := r.open("new", "", "/p")
			turn, stop, err := r.prompt(s, Directive(Do("one"), Step{Fail: row, Times: 1}, Do("two")))
			var e *acp.Error
			if want.Error != nil && (!errors.As(err, &e) || e.Code != want.Error.Code || !bytes.Equal(e.Data, want.Error.Data)) {
				t.Errorf("answered %v, want %v", err, want.Error)
			}
			if want.Error == nil && (err != nil || stop.Reason != "end_turn" || string(stop.Usage) != "null") {
				t.Errorf("answered %s, %v", stop.Answer.Line, err)
			}
			if turn.Said() != want.Says {
				t.Errorf("said %q", turn.Said())
			}
			if want.Evicts {
				if _, _, err := r.prompt(s, "go on"); !errors.As(err, &e) || e.Code != acp.CodeNotFound {
					t.Errorf("the session is still there: %v", err)
				}
				r.open("resume", s, "/p")
			}
			r.ended(s, "go on", "end_turn")
			if got := ledger(t, c); got != "one two" {
				t.Errorf("ledger: %s", got)
			}
		})
	}
}

func TestCancelEndsATurn(t *testing.T) {
	c := Full(t.TempDir())
	r := start(t, ClientOptions{Permit: func(Received) string { return "" }}, c.Args()...)
	s := r.open("new", "", "/p")
	for _, text := range []string{Directive(Say("a"), Step{Hang: true}), Directive(Say("b"), Step{Tool: "ledger", Line: "x", Ask: true}),
		Directive(Say("c"), Step{Wait: filepath.Join(c.Dir, "never")})} {
		turn, err := r.Prompt(s, text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := turn.Await(r.ctx, func(m Received) bool { return m.Update() == "agent_message_chunk" }); err != nil {
			t.Fatal(err)
		}
		if err := r.Cancel(s); err != nil {
			t.Fatal(err)
		}
		if stop, err := turn.Stop(r.ctx); err != nil || stop.Reason != "cancelled" {
			t.Errorf("%s: ended with %q, %v", text, stop.Reason, err)
		}
	}
	if got := ledger(t, c); got != "" {
		t.Errorf("ledger: %s", got)
	}
}

func TestAClientThatDoesNotReadHoldsTheAgentUp(t *testing.T) {
	c := Full(t.TempDir())
	r := start(t, ClientOptions{}, c.Args()...)
	s := r.open("new", "", "/p")
	release := r.Hold()
	turn, err := r.Prompt(s, Directive(Step{Flood: 2000}, Do("one")))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(r.ctx, 50*time.Millisecond)
	defer stop()
	if _, err := turn.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) || ledger(t, c) != "" {
		t.Errorf("nobody reads, but: %v, ledger %q", err, ledger(t, c))
	}
	release()
	if stop, err := turn.Stop(r.ctx); err != nil || stop.Reason != "end_turn" || len(turn.Updates()) < 2000 {
		t.Errorf("ended with %q, %v after %d updates", stop.Reason, err, len(turn.Updates()))
	}
}

func TestATapLogsEveryByte(t *testing.T) {
	c, log := Full(t.TempDir()), filepath.Join(t.TempDir(), "tap")
	c.CRLF, c.Chunk = true, 3
	r := start(t, ClientOptions{}, TapArgs(log, append([]string{os.Args[0]}, c.Args()...)...)...)
	s := r.open("new", "", "/p")
	update := `{"sessionUpdate":"notice","n":12345678901234567890,"e":1.0e+2, "t":"<&>\u00e9"}`
	r.ended(s, `<<acp [{"raw":`+update+`}]>>`, "end_turn")
	request := `{"jsonrpc":"2.0","id":"mine","method":"_x","params":{"_meta":{"n":1e400}}}` + "\r\n"
	if err := r.Send(request); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Await(r.ctx, 0, func(m Received) bool { return m.IDText() == `"mine"` }); err != nil {
		t.Fatal(err)
	}
	if err := r.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	r.waitForExit()
	in, out, err := Tapped(log)
	if err != nil {
		t.Fatal(err)
	}
	var lines []byte
	for _, m := range r.Messages() {
		lines = append(lines, m.Line...)
	}
	if !bytes.Equal(out, lines) {
		t.Errorf("out is\n%s\nwant\n%s", out, lines)
	}
	if !bytes.HasSuffix(in, []byte(request)) {
		t.Errorf("in is\n%s", in)
	}
	if !bytes.Contains(out, []byte(update)) {
		t.Errorf("the update's bytes are others:\n%s", out)
	}
}
