package cli_test

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// TestAgentBehindTheProxyForks forks in both possible ways. Each line continues in the directory,
// knows the earlier conversation, and is a thread of the directory. The agent's own threads are not
// listed.
func TestAgentBehindTheProxyForks(t *testing.T) {
	e := newEditor(t, "acp", "--", "segno", "agent")
	id := e.open("new", "")
	e.say(id, "remember the port is 8080\nwrite a.txt: one")
	if said := e.say(id, "/fork idea").Said(); strings.Contains(said, "not") {
		t.Errorf("/fork says %q", said)
	}
	if said := e.say(id, "write b.txt: two\nrecall the port").Said(); !strings.Contains(said, "the port is 8080") {
		t.Errorf("in the fork it said %q", said)
	}
	fork := e.open("fork", id)
	e.say(fork, "write c.txt: three\nremember the port is 9090")
	for session, want := range map[string]string{id: "8080", fork: "9090"} {
		if said := e.say(session, "recall the port").Said(); said != "the port is "+want {
			t.Errorf("in %s it said %q", session, said)
		}
	}
	if got := e.file("a.txt") + e.file("b.txt") + e.file("c.txt"); got != "onetwothree" {
		t.Errorf("the files have %q", got)
	}
	if threads := e.segno("threads"); strings.Count(threads, "\n") != 3 {
		t.Errorf("the directory's threads are\n%s", threads)
	}
	e.Kill()
	e.start()
	e.open("load", fork)
	if said := e.say(fork, "recall the port").Said(); said != "the port is 9090" {
		t.Errorf("loaded, the fork said %q", said)
	}
	for _, p := range e.Problems() {
		t.Error(p)
	}
}

// TestAgentBehindTheProxyIsUndone checks that the agent knows the present files after an undo, a
// redo and a restore, and executes the next prompt.
func TestAgentBehindTheProxyIsUndone(t *testing.T) {
	e := newEditor(t, "acp", "--", "segno", "agent")
	id := e.open("new", "")
	says := func(prompt, want string) {
		t.Helper()
		if said := e.say(id, prompt).Said(); !strings.Contains(said, want) {
			t.Errorf("%q: it says %q, want %q", prompt, said, want)
		}
	}
	e.say(id, "remember the port is 1")
	e.say(id, "remember the port is 2\nwrite a.txt: one")
	e.say(id, "/undo")
	says("write b.txt: two", "wrote b.txt")
	says("recall the port", "the port is 1")
	e.say(id, "/undo 2")
	e.say(id, "/redo")
	says("recall the port", "the port is 1")
	e.say(id, "/restore t2")
	says("write c.txt: three\nrecall the port", "the port is 2")
	if got := e.file("a.txt") + "," + e.file("b.txt") + "," + e.file("c.txt"); got != "one,,three" {
		t.Errorf("the files have %q", got)
	}
	if calls := updates(e.Messages(), "tool_call"); len(ids(calls)) != 3 {
		t.Errorf("of the calls some have the same id:\n%s", strings.Join(calls, "\n"))
	}
	e.Kill()
	e.start()
	e.open("load", id)
	says("recall the port", "the port is 2")
	for _, p := range e.Problems() {
		t.Error(p)
	}
}

// TestAgentBehindTheProxyGoesOn continues a session that the agent began without the proxy. Both
// the agent and the proxy record it. Its changes do not count as changes of another thread.
func TestAgentBehindTheProxyGoesOn(t *testing.T) {
	e := newEditor(t, "agent")
	id := e.open("new", "")
	e.say(id, "remember the port is 1\nwrite a.txt: zero")
	e.Kill()
	e.commands = []string{"acp", "--", "segno", "agent"}
	e.start()
	e.open("load", id)
	e.say(id, "write a.txt: one\nrun echo two > b.txt")
	if log := e.segno("log"); strings.Contains(log, "shared") {
		t.Errorf("a turn shares the files with another:\n%s", log)
	}
	if said := e.say(id, "/undo").Said(); strings.Contains(said, "- ! ") || strings.Contains(said, "--force") {
		t.Errorf("/undo says %q", said)
	}
	if got := e.file("a.txt") + "," + e.file("b.txt"); got != "zero," {
		t.Errorf("the files have %q", got)
	}
	if said := e.say(id, "run echo three > b.txt\nrecall the port").Said(); !strings.Contains(said, "the port is 1") {
		t.Errorf("it says %q", said)
	}
	if said := e.say(id, "/undo").Said(); strings.Contains(said, "- ! ") {
		t.Errorf("/undo says %q", said)
	}
	e.say(id, "/redo")
	if got := e.file("a.txt") + "," + e.file("b.txt"); got != "zero,three\n" {
		t.Errorf("the files have %q", got)
	}
	for _, p := range e.Problems() {
		t.Error(p)
	}
}

// ids returns the set of the ids of calls.
func ids(calls []string) map[string]bool {
	all := map[string]bool{}
	for _, c := range calls {
		_, rest, _ := strings.Cut(c, `"toolCallId":"`)
		id, _, _ := strings.Cut(rest, `"`)
		all[id] = true
	}
	return all
}

// TestAgentBehindTheProxyIsTold starts the agent again without its session. The agent does not
// mistake the notice about that for a prompt of the user.
func TestAgentBehindTheProxyIsTold(t *testing.T) {
	e := newEditor(t, "acp", "--", "segno", "agent")
	id := e.open("new", "")
	e.answers(option("reject_once"))
	e.say(id, "write a.txt: one\nrun echo no")
	stop := func(prompt string) {
		t.Helper()
		e.answers(func(acptest.Received) string {
			if err := e.Cancel(id); err != nil {
				t.Error(err)
			}
			return ""
		})
		turn, err := e.Prompt(id, prompt)
		if err != nil {
			t.Fatal(err)
		}
		if stop, err := turn.Stop(e.ctx); err != nil || stop.Reason != "cancelled" {
			t.Errorf("it ended with %q, %v", stop.Reason, err)
		}
	}
	stop("run echo nobody knows this session's last words")
	e.say(id, "write b.txt: two")
	e.say(id, "/undo")
	if said := e.say(id, "write c.txt: three").Said(); !strings.Contains(said, "wrote c.txt") || !strings.Contains(said, "received a summary") {
		t.Errorf("it says %q", said)
	}
	if said := e.say(id, "say hi").Said(); said != "hi" {
		t.Errorf("then it says %q", said)
	}
}

// TestTheProxyOfTheAgentIsKilled kills the proxy in the middle of a call, and between turns.
func TestTheProxyOfTheAgentIsKilled(t *testing.T) {
	e := newEditor(t, "acp", "--", "segno", "agent")
	id := e.open("new", "")
	e.say(id, "remember the port is 8080")
	e.pipes("begun", "wait")
	if _, err := e.Prompt(id, "write a.txt: one\nrun "+half); err != nil {
		t.Fatal(err)
	}
	e.await("begun")
	e.KillOne()
	<-e.Exited()
	e.start()
	e.open("load", id)
	if said := e.say(id, "write q.txt: 1\nrecall the port").Said(); !strings.Contains(said, "wrote q.txt") || !strings.Contains(said, "the port is 8080") {
		t.Errorf("it says %q", said)
	}
	if said := e.say(id, "recall the port").Said(); said != "the port is 8080" {
		t.Errorf("then it says %q", said)
	}
	if got := e.file("ledger") + e.file("q.txt"); got != "half\n1" {
		t.Errorf("the files have %q", got)
	}
}

// TestAThreadOfAClientIsNoChat checks that a thread that segno acp recorded continues only in the
// client, and that the command line reports this.
func TestAThreadOfAClientIsNoChat(t *testing.T) {
	e := newEditor(t, "acp", "--", "segno", "agent")
	id := e.open("new", "")
	e.say(id, "write a.txt: one")
	e.say(id, "write b.txt: two")
	var threads []struct{ ID string }
	if err := json.Unmarshal([]byte(e.segno("threads", "--json")), &threads); err != nil || len(threads) != 1 {
		t.Fatalf("%v, %+v", err, threads)
	}
	for _, args := range [][]string{{"resume", "--print"}, {"resume", "--print", "t1"}, {"chat", "--session", threads[0].ID, "-p", "say hi"}, {"chat", "-p", "/session load " + threads[0].ID}} {
		out, code := e.refused(args...)
		if code != 5 || !strings.Contains(out, "client") {
			t.Errorf("segno %q ends with %d and says\n%s", args, code, out)
		}
	}
	if out := e.segno("chat", "-p", "/sessions"); strings.Contains(out, "write a.txt") {
		t.Errorf("a chat lists it:\n%s", out)
	}
	if out := e.segno("fork", "t1", "--to", "../fork"); strings.Contains(out, "segno chat") {
		t.Errorf("segno fork says\n%s", out)
	}
	e.Kill()
	e.commands = []string{"agent"}
	e.start()
	if list, err := e.List(e.ctx, e.rig.Project); err != nil || len(list) != 0 {
		t.Errorf("the agent lists %+v, %v", list, err)
	}
}

// refused runs the command in the project. The command must fail.
func (e *editor) refused(args ...string) (out string, code int) {
	e.Helper()
	cmd := exec.CommandContext(e.ctx, e.rig.Bin, args...)
	cmd.Dir, cmd.Env = e.rig.Project, e.rig.Env()
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		e.Errorf("segno %q: %v\n%s", args, err, text)
		return string(text), 0
	}
	return string(text), exit.ExitCode()
}

// attached sends a prompt with attachments.
func (e *editor) attached(session, text string, more ...map[string]any) *acptest.Call {
	e.Helper()
	blocks := append([]map[string]any{{"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}, {"type": "text", "text": text},
		{"type": "resource", "resource": map[string]any{"uri": "file:///x/a.bin", "blob": "AAEC", "mimeType": "application/octet-stream"}}}, more...)
	call, err := e.Go("session/prompt", map[string]any{"sessionId": session, "prompt": blocks})
	if err != nil {
		e.Fatal(err)
	}
	return call
}

// TestAgentBehindTheProxyKnowsWhatWasAttached checks that a restarted agent knows the files
// attached to a prompt, in the middle of the turn and after it.
func TestAgentBehindTheProxyKnowsWhatWasAttached(t *testing.T) {
	e := newEditor(t, "acp", "--", "segno", "agent")
	id := e.open("new", "")
	e.pipes("begun", "wait")
	call := e.attached(id, "run "+half+"\nwrite b.txt: there")
	e.await("begun")
	for _, pid := range children(t, e.PID()) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := call.Answer(e.ctx); err != nil || r.Err() != nil || r.Text(r.Find(r.Result, "stopReason")) != "end_turn" {
		t.Fatal(err, string(r.Line), e.Stderr())
	}
	if got := e.file("ledger") + e.file("b.txt"); got != "half\nthere" {
		t.Errorf("the files have %q", got)
	}
	call = e.attached(id, "say hi", map[string]any{"type": "resource_link", "uri": "file:///x/b.txt", "name": "b.txt"},
		map[string]any{"type": "resource", "resource": map[string]any{"uri": "file:///x/notes.md", "text": "notes", "mimeType": "text/markdown"}})
	if r, err := call.Answer(e.ctx); err != nil || r.Err() != nil {
		t.Fatal(err, string(r.Line))
	}
	e.Kill()
	e.start()
	e.open("load", id)
	if said := e.say(id, "say hi").Said(); said != "hi" {
		t.Errorf("it says %q", said)
	}
}
