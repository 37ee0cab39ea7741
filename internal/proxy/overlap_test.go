package proxy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/vfs"
)

func (r *rig) prompt(c *acptest.Client, session, text string) *acptest.Turn {
	r.Helper()
	turn, err := c.Prompt(session, text)
	if err != nil {
		r.Fatal(err)
	}
	return turn
}

// ends checks that a turn ends with a stop reason.
func (r *rig) ends(turn *acptest.Turn, reason string) acptest.Stop {
	r.Helper()
	stop, err := turn.Stop(r.ctx)
	if err != nil || stop.Reason != reason {
		r.Fatalf("the turn ended with %q, %v; want %s", stop.Reason, err, reason)
	}
	return stop
}

// says waits for a text of the agent in a turn.
func (r *rig) says(turn *acptest.Turn, text string) {
	r.Helper()
	if _, err := turn.Await(r.ctx, func(m acptest.Received) bool { return strings.Contains(m.Content(), text) }); err != nil {
		r.Fatalf("waiting for %q: %v", text, err)
	}
}

// TestTwoPromptsAtOnce checks that each gets one answer, in order, and that the model
// receives the first turn with the second prompt.
func TestTwoPromptsAtOnce(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		c, s := r.session()
		one := r.prompt(c, s, "alpha "+acptest.Directive(acptest.Do("one"), acptest.Step{Wait: r.home + "/go"}, acptest.Say("said-alpha")))
		two := r.prompt(c, s, "beta "+acptest.Directive(acptest.Do("two"), acptest.Say("said-beta")))
		three := r.prompt(c, s, "gamma "+acptest.Directive(acptest.Do("three"), acptest.Say("said-gamma")))
		r.touch(r.home + "/go")
		a, b, d := r.ends(one, "end_turn"), r.ends(two, "end_turn"), r.ends(three, "end_turn")
		if a.Answer.Place > b.Answer.Place || b.Answer.Place > d.Answer.Place {
			t.Errorf("answered at %d, %d, %d", a.Answer.Place, b.Answer.Place, d.Answer.Place)
		}
		said := strings.Join(shown(c, one.From), "\n")
		if i, j := strings.Index(said, "said-alpha"), strings.Index(said, "append two"); i < 0 || j < i {
			t.Errorf("the turns are mixed up:\n%s", said)
		}
		r.wantSeen([]string{"said-alpha", "said-beta", "gamma"})
		if got := r.logged(); got != "gamma beta alpha" {
			t.Errorf("the log has %q", got)
		}
	})
}

// TestCancelWithQueuedPrompt checks that both prompts end, and that the queued one never
// reaches the agent.
func TestCancelWithQueuedPrompt(t *testing.T) {
	r, c, s := startSession(t, acptest.Full)
	one := r.prompt(c, s, "alpha "+acptest.Directive(acptest.Say("on it"), acptest.Step{Hang: true}))
	r.says(one, "on it")
	two := r.prompt(c, s, "beta "+acptest.Directive(acptest.Do("two")))
	if err := c.Cancel(s); err != nil {
		t.Fatal(err)
	}
	r.ends(one, "cancelled")
	r.ends(two, "cancelled")
	r.say(c, s, "gamma")
	r.wantSeen([]string{"alpha", "gamma"}, "beta")
	if got := r.ledger(); got != "" {
		t.Errorf("the ledger has %q", got)
	}
	if got := r.log(); len(got) != 2 || !got[1].Interrupted || got[0].Interrupted {
		t.Errorf("the log has %+v", got)
	}
}

// TestCancelInTool checks that the session stays the same and the tool's effect is not
// repeated.
func TestCancelInTool(t *testing.T) {
	r, c, s := startSession(t, acptest.Full)
	one := r.prompt(c, s, "alpha "+acptest.Directive(acptest.Do("one"), acptest.Step{Tool: "ledger", Line: "two", Hold: r.home + "/never"}))
	if _, err := one.Await(r.ctx, func(m acptest.Received) bool { return strings.Contains(string(m.Line), "append two") }); err != nil {
		t.Fatal(err)
	}
	if err := c.Cancel(s); err != nil {
		t.Fatal(err)
	}
	r.ends(one, "cancelled")
	r.say(c, s, "beta")
	if got := r.sent().Session; got != s {
		t.Errorf("the session was given up for %s", got)
	}
	if got := r.ledger(); got != "one" {
		t.Errorf("the ledger has %q", got)
	}
}

// TestCancelDuringRecovery checks that segno answers the cancel at once, although the agent
// is silent.
func TestCancelDuringRecovery(t *testing.T) {
	r, c, s := startSession(t, changed(acptest.Full, func(c *acptest.Config) { c.Deaf = []string{"session/resume", "session/load"} }))
	one := r.prompt(c, s, "alpha "+acptest.Directive(acptest.Do("one"), acptest.Step{Kill: true, Times: 1}, acptest.Do("two")))
	r.until("a second process", func() bool { return len(r.starts()) == 2 })
	time.AfterFunc(100*time.Millisecond, func() { _ = c.Cancel(s) }) // by then, it is working on the second
	ctx := r.soon(t, 25*time.Second)
	if stop, err := one.Stop(ctx); err != nil || stop.Reason != "cancelled" {
		t.Fatalf("the turn ended with %q, %v", stop.Reason, err)
	}
	if got := r.log(); len(got) != 1 || !got[0].Interrupted {
		t.Errorf("the log has %+v", got)
	}
}

// starts returns all processes of the agent so far.
func (r *rig) starts() []int {
	r.Helper()
	pids, err := r.agent.PIDs("agent")
	if err != nil {
		r.Fatal(err)
	}
	return pids
}

// TestCancelIdleSession checks that a cancel without a turn does nothing, even to the next
// turn.
func TestCancelIdleSession(t *testing.T) {
	r, c, s := startSession(t, none)
	for range 2 {
		if err := c.Cancel(s); err != nil {
			t.Fatal(err)
		}
		r.say(c, s, "alpha")
	}
}

// TestCancelRequest cancels a prompt with $/cancel_request, and one that segno has sent
// again under another id. The queued prompt continues.
func TestCancelRequest(t *testing.T) {
	r, c, s := startSession(t, none)
	one := r.prompt(c, s, "alpha "+acptest.Directive(acptest.Do("one"), acptest.Step{Kill: true, Times: 1}, acptest.Say("again"), acptest.Step{Hang: true}))
	r.says(one, "again")
	two := r.prompt(c, s, "beta "+acptest.Directive(acptest.Say("said-beta")))
	if err := c.Notify("$/cancel_request", map[string]any{"requestId": jsonNumber(one.ID)}); err != nil {
		t.Fatal(err)
	}
	r.ends(one, "cancelled")
	r.ends(two, "end_turn")
}

// TestEarlyCancelRequest cancels a prompt while segno records it. Another process holds the
// store's writer.
func TestEarlyCancelRequest(t *testing.T) {
	r, c, s := startSession(t, none)
	unlock, err := spool.New(filepath.Join(r.home, "data", "segno"), vfs.OS).Lock(r.ctx, "register")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	turn := r.prompt(c, s, "alpha "+acptest.Directive(acptest.Step{Hang: true}))
	if err := c.Notify("$/cancel_request", map[string]any{"requestId": jsonNumber(turn.ID)}); err != nil {
		t.Fatal(err)
	}
	r.send(c, `{"jsonrpc":"2.0","id":[1],"method":"session/list","params":{}}`+"\n") // the reader answers it
	r.answers(c, "[1]", 1)
	unlock()
	if stop, err := turn.Stop(r.soon(t, 25*time.Second)); err != nil || stop.Reason != "cancelled" {
		t.Errorf("the turn ended with %q, %v", stop.Reason, err)
	}
}

type jsonNumber string

func (n jsonNumber) MarshalJSON() ([]byte, error) { return []byte(n), nil }

// TestUpdateAfterAnswer checks that an update outside of turns reaches the client under the
// id that the client knows, even in a later session of the agent.
func TestUpdateAfterAnswer(t *testing.T) {
	r, c, s := startSession(t, changed(none, func(c *acptest.Config) { c.Title = true }))
	for range 2 {
		turn := r.say(c, s, "alpha")
		if _, err := c.Await(r.ctx, turn.From, func(m acptest.Received) bool {
			return m.Update() == "session_info_update" && m.SessionID() == s
		}); err != nil {
			t.Fatal(err)
		}
		r.killAgent()
	}
}

// TestUpdatesBeforeSessionID checks that updates wait for the answer that has the
// session's id.
func TestUpdatesBeforeSessionID(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c := r.start(acptest.ClientOptions{}, "", "sh", "-c", `
		read l; echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'
		read l; echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"early","update":{"sessionUpdate":"notice","title":"one"}}}'
		echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"child","update":{"sessionUpdate":"notice","title":"two"}}}'
		echo '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"early"}}'
		echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"early","update":{"sessionUpdate":"notice","title":"three"}}}'
		cat >/dev/null`)
	if _, err := c.Initialize(r.ctx, nil); err != nil {
		t.Fatal(err)
	}
	if s := r.open(c, "new", ""); s != "early" {
		t.Fatalf("the session is %s", s)
	}
	seen := map[string]int{}
	if _, err := c.Await(r.ctx, 0, func(m acptest.Received) bool {
		if title := m.Text(m.Find(m.Params, "update", "title")); title != "" {
			seen[title] = m.Place
		} else if m.IDText() == "1" {
			seen["answer"] = m.Place
		}
		return len(seen) == 4
	}); err != nil {
		t.Fatalf("%v: %v", seen, err)
	}
	if seen["one"] < seen["answer"] || seen["three"] < seen["one"] {
		t.Errorf("they came at %v", seen)
	}
}

// TestPermissionPendingAtAgentDeath checks that segno cancels the request. The next process
// uses the same id; the client's late answer must not answer its request.
func TestPermissionPendingAtAgentDeath(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	var asked atomic.Int32
	c := r.greet(acptest.ClientOptions{Permit: func(acptest.Received) string { asked.Add(1); return "" }})
	s := r.open(c, "new", "")
	turn := r.prompt(c, s, "alpha "+acptest.Directive(acptest.Do("one"), acptest.Step{Tool: "ledger", Line: "two", Ask: true}, acptest.Say("done")))
	isAsked := func(m acptest.Received) bool { return m.MethodName() == "session/request_permission" }
	first, err := c.Await(r.ctx, 0, isAsked)
	if err != nil {
		t.Fatal(err)
	}
	r.killAgent()
	if _, err := c.Await(r.ctx, first.Place, func(m acptest.Received) bool {
		return m.MethodName() == "$/cancel_request" && string(m.Find(m.Params, "requestId").Of(m.Line)) == first.IDText()
	}); err != nil {
		t.Fatalf("the request for permission is not cancelled: %v", err)
	}
	second, err := c.Await(r.ctx, first.Place+1, isAsked)
	if err != nil {
		t.Fatal(err)
	}
	if second.IDText() == first.IDText() {
		t.Errorf("two questions have the id %s", first.IDText())
	}
	answer := func(id, option string) {
		t.Helper()
		if err := c.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":%q}}}`+"\n", id, option)); err != nil {
			t.Fatal(err)
		}
	}
	answer(first.IDText(), "reject")
	answer(second.IDText(), "allow")
	r.ends(turn, "end_turn")
	if got := r.ledger(); got != "one two" {
		t.Errorf("the ledger has %q", got)
	}
}

// TestClientLeavesDuringTurn checks that everything ends in time, that the log has the turn
// as interrupted, and that no process of the agent remains.
func TestClientLeavesDuringTurn(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	t.Parallel()
	for name, step := range map[string]acptest.Step{
		"hangs": {Hang: true}, "deaf": {Deaf: true}, "tool": {Tool: "ledger", Line: "x", Hold: "/nonexistent"}, "asks": {Tool: "ledger", Line: "x", Ask: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, acptest.Full)
			c := r.greet(acptest.ClientOptions{Permit: func(acptest.Received) string { return "" }})
			s := r.open(c, "new", "")
			turn := r.prompt(c, s, "alpha "+acptest.Directive(acptest.Do("one"), acptest.Say("on it"), step))
			r.says(turn, "on it")
			c.CloseStdin()
			if code, err := c.Wait(r.soon(t, time.Minute)); err != nil || code != 0 {
				t.Fatalf("segno ended with %d, %v", code, err)
			}
			if got := r.living(); len(got) != 0 {
				t.Errorf("the agent lives: %v", got)
			}
			if got := r.log(); len(got) != 1 || !got[0].Interrupted {
				t.Errorf("the log has %+v", got)
			}
			r.segno("check")
			c = r.client()
			r.open(c, "load", s)
			r.say(c, s, "beta")
			r.wantSeen([]string{"alpha", "appended one", "beta"})
		})
	}
}

// TestChildProcessEndsWithAgent uses a child process that keeps the agent's streams open.
func TestChildProcessEndsWithAgent(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	t.Parallel()
	r := newRig(t, none)
	pid := filepath.Join(r.home, "pid")
	c := r.start(acptest.ClientOptions{}, "", "sh", "-c", `(trap '' TERM; echo $$ >"$0.mid"; sh -c 'trap "" TERM HUP; echo $$ >"$0"; while :; do sleep 1; done' "$0") & read l; echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'; cat >/dev/null`, pid)
	if _, err := c.Initialize(r.ctx, nil); err != nil {
		t.Fatal(err)
	}
	var child int
	r.until("the child", func() bool {
		child = r.number(pid)
		return child > 0
	})
	c.CloseStdin()
	if _, err := c.Wait(r.soon(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	r.until("the child to be gone", func() bool { return syscall.Kill(child, 0) != nil })
}

// appending begins a turn that appends a line and then waits for a file. It returns after
// the line is appended and the store's disk is full.
func (r *rig) appending(c *acptest.Client, session, text, line, wait string, more ...acptest.Step) *acptest.Turn {
	r.Helper()
	turn, err := c.Prompt(session, text+" "+acptest.Directive(append([]acptest.Step{acptest.Do(line), {Wait: wait}}, more...)...))
	if err != nil {
		r.Fatal(err)
	}
	r.appended(turn, line)
	r.flag(r.full())
	return turn
}

// appended waits until the client receives the result that a line was appended.
func (r *rig) appended(turn *acptest.Turn, line string) {
	r.Helper()
	if _, err := turn.Await(r.ctx, func(m acptest.Received) bool { return strings.Contains(string(m.Line), "appended "+line) }); err != nil {
		r.Fatal(err)
	}
}

// flag makes an empty file.
func (r *rig) flag(name string) {
	r.Helper()
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		r.Fatal(err)
	}
}

// TestDiskFullDuringTurn fills the disk in a turn and frees it before the turn ends. The
// preamble of the next session has every call.
func TestDiskFullDuringTurn(t *testing.T) {
	r := newRig(t, none)
	c, s := r.session()
	first, second := filepath.Join(r.home, "first"), filepath.Join(r.home, "second")
	turn := r.appending(c, s, "task", "one", first, acptest.Do("two"), acptest.Do("three"), acptest.Step{Wait: second})
	r.flag(first)
	r.appended(turn, "three")
	if err := os.Remove(r.full()); err != nil {
		t.Fatal(err)
	}
	r.flag(second)
	if stop, err := turn.Stop(r.ctx); err != nil || stop.Reason != "end_turn" {
		t.Fatalf("the turn ended with %q, %v", stop.Reason, err)
	}
	c.CloseStdin()
	before := len(r.requests())
	again := r.client()
	r.turn(again, r.open(again, "resume", s), "and now?")
	for _, line := range []string{"appended one", "appended two", "appended three"} {
		if text := r.requests()[before]; !strings.Contains(text, line) {
			t.Errorf("the request of the next session lacks %q:\n%s", line, text)
		}
	}
}

// TestAgentDiesWhileTheDiskIsFull kills the agent after a call that could not be recorded, because the disk is full. The new
// process of the agent learns of the call, and does not repeat it.
func TestAgentDiesWhileTheDiskIsFull(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for name, agent := range map[string]func(string) acptest.Config{"summary": none, "own session": acptest.Full} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, agent)
			c, s := r.session()
			held := filepath.Join(r.home, "held")
			turn := r.appending(c, s, "task", "one", held, acptest.Do("two"), acptest.Step{Kill: true, Times: 1}, acptest.Do("three"))
			r.flag(held)
			if stop, err := turn.Stop(r.ctx); err != nil || stop.Reason != "end_turn" {
				t.Fatalf("the turn ended with %q, %v", stop.Reason, err)
			}
			if got := r.ledger(); got != "one two three" {
				t.Errorf("the agent did %q", got)
			}
		})
	}
}

// TestUndoAfterDiskFullAtTurnEnd fills the disk when a turn ends. When the disk has room again, the turn can be undone while
// the process that could not record its end continues: in the session and by another process.
func TestUndoAfterDiskFullAtTurnEnd(t *testing.T) {
	for _, way := range []string{"in the session", "by another process"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, none)
			c, s := r.session()
			r.turn(c, s, "first "+acptest.Directive(acptest.Step{Tool: "ledger", Line: "one", File: "a.txt"}))
			r.endTurnOnFullDisk(c, s)
			if way == "in the session" {
				if said := r.order(c, s, "/undo"); !strings.Contains(said, ": now at ") {
					t.Errorf("/undo says %q", said)
				}
			} else {
				r.segno("undo", "-y")
			}
			r.files(map[string]string{"a.txt": "one\n"})
		})
	}
}

// endTurnOnFullDisk runs a turn that ends while the disk is full. Afterwards it has room again. segno reads the messages of the call only
// after the call has changed the file, as on a busy machine.
func (r *rig) endTurnOnFullDisk(c *acptest.Client, s string) {
	r.Helper()
	stopped, held := filepath.Join(r.home, "stopped"), filepath.Join(r.home, "go")
	step := acptest.Step{Tool: "ledger", Line: "two", File: "a.txt"}
	turn, err := c.Prompt(s, "second "+acptest.Directive(acptest.Say("on it"), acptest.Step{Wait: stopped}, step, acptest.Step{Wait: held}))
	if err != nil {
		r.Fatal(err)
	}
	r.says(turn, "on it")
	if err := syscall.Kill(c.PID(), syscall.SIGSTOP); err != nil {
		r.Fatal(err)
	}
	r.flag(stopped)
	r.until("the change of the file", func() bool {
		name := filepath.Join(r.project, "a.txt")
		data, err := os.ReadFile(name)
		fi, statErr := os.Stat(name)
		return err == nil && statErr == nil && strings.Contains(string(data), "two") && time.Since(fi.ModTime()) > 100*time.Millisecond
	})
	if err := syscall.Kill(c.PID(), syscall.SIGCONT); err != nil {
		r.Fatal(err)
	}
	r.appended(turn, "two")
	// The client may receive a message before it is recorded.
	r.until("the record of the call", func() bool { return r.isNoted("appended two") })
	r.flag(r.full())
	r.flag(held)
	if stop, err := turn.Stop(r.ctx); err != nil || stop.Reason != "end_turn" {
		r.Fatalf("the turn ended with %q, %v", stop.Reason, err)
	}
	if err := os.Remove(r.full()); err != nil {
		r.Fatal(err)
	}
}

// isNoted reports whether the file of an open turn has a text.
func (r *rig) isNoted(text string) bool {
	names, err := filepath.Glob(filepath.Join(r.data(), "turns", "*.jsonl"))
	return err == nil && slices.ContainsFunc(names, func(name string) bool {
		data, err := os.ReadFile(name)
		return err == nil && strings.Contains(string(data), text)
	})
}

// TestDiskFullAtTurnEnd fills the disk when a turn ends. The next prompt comes from another
// client: its agent learns of that turn, and the turn stays on the line.
func TestDiskFullAtTurnEnd(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	r := newRig(t, none)
	c, s := r.session()
	r.turn(c, s, "first "+acptest.Directive(acptest.Do("one"), acptest.Say("done one")))
	r.endTurnOnFullDisk(c, s)
	other := r.client()
	r.turn(other, r.open(other, "resume", s), "third "+acptest.Directive(acptest.Do("three")))
	if text := r.last(); !strings.Contains(text, "appended two") {
		t.Errorf("the request of the other client's agent is\n%s", text)
	}
	if got := r.turns(); len(got) != 3 || !strings.HasPrefix(got[1], "second") {
		t.Errorf("the log has %q", got)
	}
}
