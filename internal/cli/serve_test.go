package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/testing/agentrig"
)

// editor is a client of segno agent, in a separate directory.
type editor struct {
	*testing.T
	*acptest.Client
	ctx      context.Context
	rig      *agentrig.Rig
	permit   atomic.Pointer[func(acptest.Received) string]
	asked    chan string // the permissions that the agent requested
	commands []string
}

func newEditor(t *testing.T, command ...string) *editor {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	rig := chatRig(t)
	real, err := filepath.EvalSymlinks(rig.Project)
	if err != nil {
		t.Fatal(err)
	}
	rig.Project = real
	e := &editor{T: t, ctx: ctx, rig: rig, asked: make(chan string, 100), commands: command}
	e.answers(option("allow_once"))
	e.start()
	return e
}

// answers sets the function with which the client answers from now on.
func (e *editor) answers(permit func(acptest.Received) string) { e.permit.Store(&permit) }

// option chooses the first option of a kind.
func option(kind string) func(acptest.Received) string {
	return func(r acptest.Received) string {
		var ask struct {
			Options []struct{ OptionID, Kind string }
		}
		if json.Unmarshal(r.Params.Of(r.Line), &ask) != nil {
			return ""
		}
		for _, o := range ask.Options {
			if o.Kind == kind {
				return o.OptionID
			}
		}
		return kind
	}
}

// start starts the agent, or the proxy in front of it.
func (e *editor) start() {
	e.Helper()
	cmd := exec.CommandContext(e.ctx, e.rig.Bin, e.commands...)
	cmd.Dir, cmd.Env = e.rig.Project, append(e.rig.Env(), "PATH="+filepath.Dir(e.rig.Bin)+":"+os.Getenv("PATH"))
	c, err := acptest.Start(e.ctx, cmd, acptest.ClientOptions{Permit: func(r acptest.Received) string {
		e.asked <- r.Text(r.Find(r.Params, "toolCall", "title"))
		return (*e.permit.Load())(r)
	}})
	if err != nil {
		e.Fatal(err)
	}
	e.Client = c
	e.Cleanup(c.Kill)
	if _, err := c.Initialize(e.ctx, nil); err != nil {
		e.Fatal(err, c.Stderr())
	}
}

func (e *editor) open(method, from string) string {
	e.Helper()
	id, err := e.Open(e.ctx, method, from, e.rig.Project)
	if err != nil {
		e.Fatalf("session/%s: %v\n%s", method, err, e.Stderr())
	}
	return id
}

// say runs a turn that must end normally, and returns it.
func (e *editor) say(session, prompt string) *acptest.Turn {
	e.Helper()
	t, err := e.Prompt(session, prompt)
	if err == nil {
		var stop acptest.Stop
		if stop, err = t.Stop(e.ctx); err == nil && stop.Reason != "end_turn" {
			err = errors.New("it ended with " + stop.Reason)
		}
	}
	if err != nil {
		e.Fatalf("%q: %v\n%s", prompt, err, e.Stderr())
	}
	return t
}

// segno runs the command in the project.
func (e *editor) segno(args ...string) string {
	e.Helper()
	cmd := exec.CommandContext(e.ctx, e.rig.Bin, args...)
	cmd.Dir, cmd.Env = e.rig.Project, e.rig.Env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		e.Fatalf("segno %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (e *editor) file(name string) string {
	e.Helper()
	text, err := os.ReadFile(filepath.Join(e.rig.Project, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		e.Fatal(err)
	}
	return string(text)
}

// updates returns the updates of one kind, as JSON.
func updates(all []acptest.Received, kind string) (found []string) {
	for _, u := range all {
		if u.Update() == kind {
			found = append(found, string(u.Find(u.Params, "update").Of(u.Line)))
		}
	}
	return found
}

// has fails the test unless one of texts contains all the parts.
func (e *editor) has(what string, texts []string, parts ...string) {
	e.Helper()
	for _, text := range texts {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(text, p) }) {
			return
		}
	}
	e.Errorf("no %s has %q:\n%s", what, parts, strings.Join(texts, "\n"))
}

func TestAgentOverACP(t *testing.T) {
	e := newEditor(t, "agent")
	id := e.open("new", "")
	turn := e.say(id, "write a.txt: hello\ntodo buy milk\nrun echo hi >> ledger")
	if said := turn.Said(); !strings.Contains(said, "wrote a.txt") || !strings.Contains(said, "exit code 0") {
		t.Errorf("it said %q", said)
	}
	if a, l := e.file("a.txt"), e.file("ledger"); a != "hello" || l != "hi\n" {
		t.Errorf("a.txt has %q, the ledger %q", a, l)
	}
	if title := <-e.asked; title != "execute echo hi >> ledger" {
		t.Errorf("asked for %q", title)
	}
	calls, results := updates(turn.Updates(), "tool_call"), updates(turn.Updates(), "tool_call_update")
	e.has("call", calls, `"kind":"edit"`, `"locations":[{"path":"`+e.rig.Project+`/a.txt"}]`, `"type":"diff"`, `"newText":"hello"`)
	e.has("call", calls, `"kind":"execute"`, `"rawInput":{"command":"echo hi `)
	e.has("result", results, `"status":"completed"`, `exit code 0`)
	e.has("plan", updates(turn.Updates(), "plan"), `"content":"buy milk"`, `"status":"pending"`)
	e.has("list of commands", updates(turn.Updates(), "available_commands_update"), `"name":"undo"`, `"hint":"[N]"`)
	if len(calls) != 3 {
		t.Errorf("3 calls were announced as %d:\n%s", len(calls), strings.Join(calls, "\n"))
	}

	e.answers(option("reject_once"))
	if said := e.say(id, "run echo no >> ledger").Said(); !strings.Contains(said, "rejected by") || e.file("ledger") != "hi\n" {
		t.Errorf("rejected, it said %q; the ledger has %q", said, e.file("ledger"))
	}

	list, err := e.List(e.ctx, e.rig.Project)
	if err != nil || len(list) != 1 || list[0].SessionID != id {
		t.Errorf("the list is %+v, %v", list, err)
	}
	if log := e.segno("log"); !strings.Contains(log, `@ t2`) || !strings.Contains(log, "+2") {
		t.Errorf("segno log says\n%s", log)
	}
	if _, err := e.Open(e.ctx, "load", "nosuch", e.rig.Project); err == nil {
		t.Error("a session that is not there was loaded")
	}
	for _, p := range e.Problems() {
		t.Error(p)
	}
}

func TestAgentStartedAnewLoadsItsSessions(t *testing.T) {
	e := newEditor(t, "agent", "--session", "my-project")
	id := e.open("new", "")
	if id != "my-project" {
		t.Errorf("the session is %q", id)
	}
	e.say(id, "remember the port is 8080")
	e.say(id, "write a.txt: hello")
	if said := e.say(id, "/undo").Said(); !strings.Contains(said, "undone: now at turn 1") {
		t.Errorf("/undo says %q", said)
	}
	if said := e.say(id, "/usr/bin/env is what?").Said(); !strings.Contains(said, "I do not understand") {
		t.Errorf("a path is taken for a command: %q", said)
	}
	if e.file("a.txt") != "" {
		t.Error("a.txt is still there after undo")
	}
	e.say(id, "write b.txt: hello")
	e.Kill()

	e.start()
	from := e.Place()
	e.open("load", id)
	replayed := e.Messages()[from:]
	e.has("message", updates(replayed, "user_message_chunk"), "remember the port is 8080")
	e.has("message", updates(replayed, "agent_message_chunk"), "noted: the port is 8080")
	e.has("call", updates(replayed, "tool_call"), "write_file b.txt")
	e.has("result", updates(replayed, "tool_call_update"), `"status":"completed"`)
	if text := strings.Join(updates(replayed, "tool_call"), "\n"); strings.Contains(text, "a.txt") {
		t.Errorf("what was undone is replayed:\n%s", text)
	}
	if said := e.say(id, "recall the port").Said(); said != "the port is 8080" {
		t.Errorf("it said %q", said)
	}
	fork := e.open("fork", id)
	e.say(fork, "remember the port is 9090")
	for session, want := range map[string]string{id: "8080", fork: "9090"} {
		if said := e.say(session, "recall the port").Said(); said != "the port is "+want {
			t.Errorf("in %s it said %q", session, said)
		}
	}
	e.start()
	e.open("resume", fork)
	if said := e.say(fork, "recall the port").Said(); said != "the port is 9090" {
		t.Errorf("resumed, it said %q", said)
	}
	if out := e.segno("chat", "--session", id, "-p", "recall the port"); !strings.Contains(out, "the port is 8080") {
		t.Errorf("in a chat it says %q", out)
	}
}

// TestAgentSaysThatFilesAreNotSaved checks that the agent reports, once in a session and to each
// client, that the directory is too wide to be saved.
func TestAgentSaysThatFilesAreNotSaved(t *testing.T) {
	e := newEditor(t, "agent")
	id, err := e.Open(e.ctx, "new", "", e.rig.Home)
	if err != nil {
		t.Fatal(err)
	}
	const note = "(files are not saved with the session: "
	if said := e.say(id, "say hi").Said(); !strings.HasPrefix(said, note) || !strings.Contains(said, "home") || !strings.HasSuffix(said, ")\n\nhi") {
		t.Errorf("it says %q", said)
	}
	if said := e.say(id, "say hi").Said(); said != "hi" {
		t.Errorf("then it says %q", said)
	}
	e.Kill()
	e.start()
	if _, err := e.Open(e.ctx, "load", id, e.rig.Home); err != nil {
		t.Fatal(err)
	}
	if said := e.say(id, "say hi").Said(); !strings.HasPrefix(said, note) {
		t.Errorf("loaded, it says %q", said)
	}
}

func TestAgentTakesImagesAndFiles(t *testing.T) {
	e := newEditor(t, "agent")
	id := e.open("new", "")
	call, err := e.Go("session/prompt", map[string]any{"sessionId": id, "prompt": []any{
		map[string]any{"type": "text", "text": "say I see"},
		map[string]any{"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
		map[string]any{"type": "resource", "resource": map[string]any{"uri": "file:///x/notes.md", "text": "remember", "mimeType": "text/markdown"}},
		map[string]any{"type": "resource", "resource": map[string]any{"uri": "file:///x/a.bin", "blob": "AAEC", "mimeType": "application/octet-stream"}},
		map[string]any{"type": "resource_link", "uri": "file:///x/b.txt", "name": "b.txt"}}})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := call.Answer(e.ctx); err != nil || r.Err() != nil {
		t.Fatal(err, r.Err())
	}
	e.start()
	from := e.Place()
	e.open("load", id)
	said := updates(e.Messages()[from:], "user_message_chunk")
	e.has("message", said, "say I see")
	e.has("message", said, `"mimeType":"image/png"`, `"data":"iVBORw0KGgo="`)
	e.has("message", said, "notes.md", "remember")
	e.has("message", said, "a.bin")
	e.has("message", said, "[b.txt](file:///x/b.txt)")
}

// pipes makes named pipes in the project. A command writes to a pipe to report its progress, and
// waits there.
func (e *editor) pipes(names ...string) {
	e.Helper()
	for _, name := range names {
		if err := syscall.Mkfifo(filepath.Join(e.rig.Project, name), 0o600); err != nil {
			e.Fatal(err)
		}
	}
}

// await returns once a command has written to a pipe.
func (e *editor) await(name string) {
	e.Helper()
	f, err := os.OpenFile(filepath.Join(e.rig.Project, name), os.O_RDWR, 0) // does not wait for a writer
	if err != nil {
		e.Fatal(err)
	}
	defer f.Close()
	stop := context.AfterFunc(e.ctx, func() { _ = f.SetReadDeadline(time.Now()) })
	defer stop()
	if _, err := f.Read(make([]byte, 1)); err != nil {
		e.Fatalf("waiting for %s: %v", name, err)
	}
}

// half appends to the ledger, signals that, and waits.
const half = "echo half >> ledger; echo > begun; cat wait"

func TestAgentIsCancelled(t *testing.T) {
	e := newEditor(t, "agent")
	id := e.open("new", "")
	e.pipes("begun", "wait")
	turn, err := e.Prompt(id, "run "+half)
	if err != nil {
		t.Fatal(err)
	}
	e.await("begun")
	if err := e.Cancel(id); err != nil {
		t.Fatal(err)
	}
	if stop, err := turn.Stop(e.ctx); err != nil || stop.Reason != "cancelled" {
		t.Errorf("it ended with %q, %v", stop.Reason, err)
	}
	e.has("result", updates(turn.Updates(), "tool_call_update"), `"status":"failed"`)
	if said := e.say(id, "say hi").Said(); said != "hi" {
		t.Errorf("then it said %q", said)
	}
	if got := e.file("ledger"); got != "half\n" {
		t.Errorf("the ledger has %q", got)
	}
}

func TestAgentAsksAgainAfterItWasKilled(t *testing.T) {
	e := newEditor(t, "agent")
	e.answers(func(acptest.Received) string { return "" })
	id := e.open("new", "")
	if _, err := e.Prompt(id, "run echo one >> ledger"); err != nil {
		t.Fatal(err)
	}
	<-e.asked
	e.Kill()
	e.answers(option("allow_once"))
	e.start()
	e.open("load", id)
	if said := e.say(id, "say hi").Said(); !strings.HasSuffix(said, "hi") || !strings.Contains(said, "ran `echo one >> ledger`") {
		t.Errorf("it said %q", said)
	}
	if got := e.file("ledger"); got != "one\n" {
		t.Errorf("the ledger has %q", got)
	}
}

func TestAgentKilledInMidCall(t *testing.T) {
	e := newEditor(t, "agent")
	id := e.open("new", "")
	e.pipes("begun", "wait")
	if _, err := e.Prompt(id, "run "+half+"\nwrite never.txt: x"); err != nil {
		t.Fatal(err)
	}
	e.await("begun")
	e.KillOne()
	<-e.Exited()
	e.start()
	e.open("load", id)
	turn := e.say(id, "say hi")
	e.has("result", updates(turn.Updates(), "tool_call_update"), `"status":"failed"`, "unknown: the call may have happened or not")
	if said := turn.Said(); said != "hi" {
		t.Errorf("it said %q", said)
	}
	if got := e.file("ledger"); got != "half\n" {
		t.Errorf("the ledger has %q", got)
	}
	if e.file("never.txt") != "" {
		t.Error("the turn that was prompted over went on")
	}
}

// TestAgentBehindTheProxy kills the agent in the middle of a call, behind segno acp. The client
// gets one answer, no command runs twice, and the directory has one line of turns.
func TestAgentBehindTheProxy(t *testing.T) {
	e := newEditor(t, "acp", "--", "segno", "agent")
	id := e.open("new", "")
	e.say(id, "remember the port is 8080")
	e.pipes("begun", "wait")
	turn, err := e.Prompt(id, "write a.txt: hello\nrun "+half+"\nwrite b.txt: there")
	if err != nil {
		t.Fatal(err)
	}
	e.await("begun")
	for _, pid := range children(t, e.PID()) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if stop, err := turn.Stop(e.ctx); err != nil || stop.Reason != "end_turn" {
		t.Errorf("it ended with %q, %v\n%s", stop.Reason, err, e.Stderr())
	}
	if said := turn.Said(); !strings.Contains(said, "unknown: the call may have happened or not") || !strings.Contains(said, "wrote b.txt") {
		t.Errorf("it said %q", said)
	}
	if got := e.file("ledger") + e.file("a.txt") + e.file("b.txt"); got != "half\nhellothere" {
		t.Errorf("the files have %q", got)
	}
	if said := e.say(id, "recall the port").Said(); said != "the port is 8080" {
		t.Errorf("then it said %q", said)
	}
	e.Kill()
	e.start()
	e.open("load", id)
	if said := e.say(id, "recall the port").Said(); said != "the port is 8080" {
		t.Errorf("loaded, it said %q", said)
	}
	var log []struct {
		Kind  string
		Turn  int
		Agent string
	}
	if err := json.Unmarshal([]byte(e.segno("log", "--json")), &log); err != nil {
		t.Fatal(err)
	}
	var turns []int
	for _, c := range log {
		if c.Kind == "turn" {
			turns = append(turns, c.Turn)
		}
	}
	if !slices.Equal(turns, []int{4, 3, 2, 1}) {
		t.Errorf("the directory's turns are %v", turns)
	}
	if threads := e.segno("threads"); strings.Count(threads, "\n") != 1 {
		t.Errorf("the directory's threads are\n%s", threads)
	}
	e.segno("check")
	for _, p := range e.Problems() {
		t.Error(p)
	}
}

// TestAgentBehindTheProxyKilledAnywhere kills the agent as soon as the client has received a number
// of updates of a turn. The turn ends, and each command ran at most once. If it did not run, the
// agent reports that the outcome is unknown.
func TestAgentBehindTheProxyKilledAnywhere(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for _, n := range []int{1, 2, 4, 6, 8, 11} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			e := newEditor(t, "acp", "--", "segno", "agent")
			id := e.open("new", "")
			e.say(id, "remember the port is 8080")
			turn, err := e.Prompt(id, "write a.txt: one\nrun echo first >> ledger\nedit a.txt: one -> two\nrun echo second >> ledger\nrecall the port")
			if err != nil {
				t.Fatal(err)
			}
			seen := 0
			if _, err := turn.Await(e.ctx, func(r acptest.Received) bool { seen++; return seen >= n }); err != nil {
				t.Fatal(err)
			}
			for _, pid := range children(t, e.PID()) {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
			stop, err := turn.Stop(e.ctx)
			if err != nil || stop.Reason != "end_turn" {
				t.Fatalf("it ended with %q, %v\n%s", stop.Reason, err, e.Stderr())
			}
			all := turn.Said() + strings.Join(updates(turn.Updates(), "tool_call_update"), "")
			for _, line := range []string{"first", "second"} {
				if n := strings.Count(e.file("ledger"), line); n > 1 || n == 0 && !strings.Contains(all, "unknown") {
					t.Errorf("%s ran %d times; the client heard\n%s", line, n, all)
				}
			}
			if got := e.file("a.txt"); got != "two" && !strings.Contains(all, "unknown") {
				t.Errorf("a.txt has %q; the client heard\n%s", got, all)
			}
			if said := e.say(id, "recall the port").Said(); said != "the port is 8080" {
				t.Errorf("then it said %q", said)
			}
			e.segno("check")
		})
	}
}

// TestAgentBehindTheProxyKilledWhileItAsks kills the agent while it waits for the client's
// permission for a call. The client is asked again, and an allowed call is executed once.
func TestAgentBehindTheProxyKilledWhileItAsks(t *testing.T) {
	e := newEditor(t, "acp", "--", "segno", "agent")
	id := e.open("new", "")
	e.say(id, "remember the port is 8080")
	var dead atomic.Bool
	e.answers(func(r acptest.Received) string {
		if dead.Swap(true) {
			return option("allow_once")(r)
		}
		for _, pid := range children(t, e.PID()) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
		return ""
	})
	turn, err := e.Prompt(id, "write a.txt: hello\nrun echo one >> ledger\nrecall the port")
	if err != nil {
		t.Fatal(err)
	}
	if stop, err := turn.Stop(e.ctx); err != nil || stop.Reason != "end_turn" {
		t.Errorf("it ended with %q, %v\n%s", stop.Reason, err, e.Stderr())
	}
	if got := e.file("ledger"); got != "one\n" {
		t.Errorf("the ledger has %q", got)
	}
	if said := turn.Said(); !strings.Contains(said, "the port is 8080") {
		t.Errorf("it said %q", said)
	}
}

// children returns the processes that a process started.
func children(t *testing.T, parent int) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats {
		f, err := os.Open(name)
		if err != nil {
			continue // it has ended
		}
		text, err := io.ReadAll(f)
		f.Close()
		_, rest, found := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if err != nil || !found || len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
