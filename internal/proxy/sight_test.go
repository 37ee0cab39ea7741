package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/testing/acptest"
)

// kinds returns agents by their session capabilities.
func kinds() map[string]func(string) acptest.Config {
	return map[string]func(string) acptest.Config{"full": acptest.Full, "none": none}
}

// changed returns a kind of agent with a changed configuration.
func changed(kind func(string) acptest.Config, change func(*acptest.Config)) func(string) acptest.Config {
	return func(dir string) acptest.Config {
		c := kind(dir)
		change(&c)
		return c
	}
}

// start starts segno with an agent's command, and sends nothing. excused lists the violations of
// the protocol that the test causes.
func (r *rig) start(o acptest.ClientOptions, excused string, command ...string) *acptest.Client {
	r.Helper()
	args := append(append([]string{"acp"}, r.flags...), "--")
	return r.started(r.command(append(args, command...)...), o, excused)
}

func (r *rig) started(cmd *exec.Cmd, o acptest.ClientOptions, excused string) *acptest.Client {
	r.Helper()
	c, err := acptest.Start(r.ctx, cmd, o)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		c.CloseStdin()
		select {
		case <-c.Exited():
		case <-time.After(time.Minute):
			r.Error("segno did not exit in a minute")
		}
		c.Kill()
		if r.Failed() {
			r.Logf("segno says:\n%s", c.Stderr())
		}
		for _, p := range c.Problems() {
			if excused == "" || !strings.Contains(p, excused) {
				r.Error(p)
			}
		}
	})
	return c
}

// agentCommand returns the command line of the rig's agent.
func (r *rig) agentCommand() []string { return append([]string{os.Args[0]}, r.agent.Args()...) }

// greet starts segno with the rig's agent and initializes it.
func (r *rig) greet(o acptest.ClientOptions) *acptest.Client {
	r.Helper()
	c := r.start(o, "", r.agentCommand()...)
	if _, err := c.Initialize(r.ctx, nil); err != nil {
		r.Fatalf("initialize: %v", err)
	}
	return c
}

// leave closes the client's side and waits for segno's end.
func (r *rig) leave(c *acptest.Client) {
	r.Helper()
	c.CloseStdin()
	if _, err := c.Wait(r.ctx); err != nil {
		r.Fatal(err)
	}
}

// comeBack disconnects the client, and opens the id that it knows with a new segno.
func (r *rig) comeBack(c *acptest.Client, method, id string) *acptest.Client {
	r.Helper()
	r.leave(c)
	c = r.client()
	if got := r.open(c, method, id); got != id {
		r.Fatalf("session/%s of %s answers with %s", method, id, got)
	}
	return c
}

// living returns the running processes of the agent.
func (r *rig) living() []int {
	r.Helper()
	var alive []int
	for _, kind := range []string{"agent", "tool"} {
		pids, err := r.agent.PIDs(kind)
		if err != nil {
			r.Fatal(err)
		}
		for _, pid := range pids {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err == nil && !strings.Contains(string(stat), ") Z ") {
				alive = append(alive, pid)
			}
		}
	}
	return alive
}

// killAgent kills the agent's processes with SIGKILL.
func (r *rig) killAgent() {
	r.Helper()
	for _, pid := range r.living() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	r.until("the agent to be gone", func() bool { return len(r.living()) == 0 })
}

// until waits until so returns true.
func (r *rig) until(what string, so func() bool) {
	r.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			r.Fatalf("waiting for %s: %v", what, r.ctx.Err())
		}
	}
}

// touch makes a file for which an agent waits.
func (r *rig) touch(name string) {
	r.Helper()
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		r.Fatal(err)
	}
}

// sent returns the last request that the agent's model received.
func (r *rig) sent() acptest.Request {
	r.Helper()
	all, err := acptest.ReadRequests(r.agent.RequestsFile())
	if err != nil || len(all) == 0 {
		r.Fatalf("%d requests, %v", len(all), err)
	}
	return all[len(all)-1]
}

// wantSeen checks that the model's last request has the words seen and lacks the words unseen.
func (r *rig) wantSeen(seen []string, unseen ...string) {
	r.Helper()
	text := r.sent().Text()
	for _, w := range seen {
		if !strings.Contains(text, w) {
			r.Errorf("the model was not sent %q:\n%s", w, text)
		}
	}
	for _, w := range unseen {
		if strings.Contains(text, w) {
			r.Errorf("the model was sent %q:\n%s", w, text)
		}
	}
}

// shown returns the updates since a place, in the form "kind content". It omits commands, settings
// and the messages of segno itself.
func shown(c *acptest.Client, from int) []string {
	var all []string
	for _, m := range c.Messages()[from:] {
		switch kind := m.Update(); kind {
		case "", "available_commands_update", "current_mode_update":
		case "tool_call", "tool_call_update":
			all = append(all, kind+" "+m.Text(m.Find(m.Params, "update", "title"))+m.Text(m.Find(m.Params, "update", "status")))
		default:
			if strings.HasPrefix(m.Content(), "segno: ") {
				continue
			}
			all = append(all, kind+" "+m.Content())
		}
	}
	return all
}

// say prompts with a name. The agent answers with a text that has the name.
func (r *rig) say(c *acptest.Client, session, name string) *acptest.Turn {
	r.Helper()
	return r.turn(c, session, name+" "+acptest.Directive(acptest.Say("said-"+name)))
}

// write prompts with a name and makes the agent write to the project.
func (r *rig) write(c *acptest.Client, session, name string) *acptest.Turn {
	r.Helper()
	return r.turn(c, session, name+" "+acptest.Directive(acptest.Do(name+"-line"), acptest.Say("said-"+name)))
}

// order types a command of the proxy and returns the reply.
func (r *rig) order(c *acptest.Client, session, command string) string {
	r.Helper()
	return r.turn(c, session, command).Said()
}

// refused returns the error in the answer to a request.
func (r *rig) refused(err error) *acp.Error {
	r.Helper()
	var e *acp.Error
	if !errors.As(err, &e) {
		r.Fatalf("it was not refused: %v", err)
	}
	return e
}

// store opens the store of the rig.
func (r *rig) store() *local.Store {
	r.Helper()
	place, err := local.FindPlace(func(name string) string {
		return map[string]string{"HOME": r.home, "XDG_DATA_HOME": r.home + "/data"}[name]
	}, "")
	if err != nil {
		r.Fatal(err)
	}
	s, err := place.Open(r.ctx)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { s.Close() })
	return s
}

// chain returns the sessions of a session's thread, in order.
func (r *rig) chain(session string) []segno.Link {
	r.Helper()
	s := r.store()
	defer s.Close()
	var links []segno.Link
	for t, err := range s.Threads(r.ctx, segno.ThreadQuery{Session: segno.SessionID(session)}) {
		if err != nil {
			r.Fatal(err)
		}
		for l, err := range s.Chain(r.ctx, t.ID) {
			if err != nil {
				r.Fatal(err)
			}
			links = append(links, l)
		}
	}
	return links
}

// row is a checkpoint in the output of 'segno log --json'.
type row struct {
	ID          string `json:"id"`
	Thread      string `json:"thread"`
	Turn        int    `json:"turn"`
	Kind        string `json:"kind"`
	Session     string `json:"session"`
	Prompt      string `json:"prompt"`
	Head        bool   `json:"head"`
	Interrupted bool   `json:"interrupted"`
	Shell       int    `json:"shell"`
}

// log returns the turns in 'segno log --json', of all lines, newest first.
func (r *rig) log() []row {
	r.Helper()
	out := r.segno("log", "--json")
	var list []row
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		var wrapped struct {
			Checkpoints []row `json:"checkpoints"`
		}
		if err := json.Unmarshal([]byte(out), &wrapped); err != nil {
			r.Fatalf("log: %v\n%s", err, out)
		}
		list = wrapped.Checkpoints
	}
	turns := list[:0:0]
	for _, c := range list {
		if c.Kind == "turn" {
			turns = append(turns, c)
		}
	}
	return turns
}

// logged returns the names at the beginning of the prompts in the log, newest first.
func (r *rig) logged() string {
	r.Helper()
	var names []string
	for _, c := range r.log() {
		name, _, _ := strings.Cut(c.Prompt, " ")
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// soon returns a context for a wait that takes a moment on an idle machine. d is so long that a busy one does not exceed it, and shorter than
// the waits of the proxy that the test excludes: half a minute for a lock or a cancelled turn, two minutes for a silent agent.
func (r *rig) soon(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(r.ctx, d)
	t.Cleanup(cancel)
	return ctx
}

// number returns the number in a file, 0 if there is no file yet.
func (r *rig) number(name string) int {
	data, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	n := 0
	_, _ = fmt.Sscan(string(data), &n) // the file may be incomplete
	return n
}

// shownOurs returns the messages of segno itself that the client received since a place.
func shownOurs(c *acptest.Client, from int) []string {
	var all []string
	for _, m := range c.Messages()[from:] {
		if strings.HasPrefix(m.Content(), "segno: ") {
			all = append(all, m.Content())
		}
	}
	return all
}

// TestCallInSeveralUpdates uses an agent that sends the directory of a command first, and the
// command in a later update, as opencode does. The preamble of the next session has the command.
func TestCallInSeveralUpdates(t *testing.T) {
	r := newRig(t, none)
	c, s := r.session()
	parts := func(more ...string) (steps []acptest.Step) {
		for _, update := range more {
			steps = append(steps, acptest.Step{Raw: []byte(`{"toolCallId":"call1",` + update + `}`)})
		}
		return append(steps, acptest.Say("done"))
	}
	r.turn(c, s, "first "+acptest.Directive(parts(
		`"sessionUpdate":"tool_call","title":"bash","kind":"execute","status":"pending","rawInput":{"cwd":"/p"}`,
		`"sessionUpdate":"tool_call_update","title":"make all","status":"in_progress","rawInput":{"command":"make all","cwd":"/p"}`,
		`"sessionUpdate":"tool_call_update","status":"completed","rawOutput":"built"`)...))
	c.CloseStdin()
	again := r.client()
	r.turn(again, r.open(again, "resume", s), "second")
	if text := r.last(); !strings.Contains(text, "You ran “make all”") {
		t.Errorf("the request of the next session is\n%s", text)
	}
	if show := r.segno("show", "t1"); strings.Count(show, "execute make all") != 1 || strings.Contains(show, "execute {") {
		t.Errorf("show t1 says\n%s", show)
	}
}
