package acp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

// acpStage is a real agent of the Agent Client Protocol behind segno acp, without
// hooks.
type acpStage struct {
	*e2erig.Stage
	agent *agentrig.ACP
	// answer is the kind of option that the clients choose when the agent asks.
	answer string
}

func newACPStage(t *testing.T, agent agentrig.ACPAgent, files map[string]string) *acpStage {
	t.Helper()
	stage, acp := e2erig.Agent(t, agent, files)
	return &acpStage{Stage: stage, agent: acp, answer: "allow_once"}
}

// behind returns the command line of an agent behind segno.
func (s *acpStage) behind(agent ...string) []string {
	return slices.Concat([]string{s.Binary, "--store", s.Store, "acp", "--"}, agent)
}

// chat is a client with a session.
type chat struct {
	*acptest.Client
	s       *acpStage
	session string
	turns   int // prompts that this client has sent
}

// connect starts segno and the agent behind it, and initialises them.
func (s *acpStage) connect() *chat { s.Helper(); return s.connectTo(s.behind(s.agent.Command...)...) }

func (s *acpStage) connectTo(command ...string) *chat {
	s.Helper()
	c, err := acptest.Start(s.Ctx, s.agent.Start(s.Ctx, command...), acptest.ClientOptions{
		Permit: func(r acptest.Received) string { return agentrig.Option(r.Params.Of(r.Line), s.answer) }})
	if err != nil {
		s.Fatal(err)
	}
	ch := &chat{Client: c, s: s}
	s.Cleanup(func() { ch.dump() })
	if _, err := c.Initialize(s.Ctx, nil); err != nil {
		c.Kill()
		s.Fatal(err, c.Stderr())
	}
	return ch
}

// dump logs the messages of the client of a failed test.
func (c *chat) dump() {
	c.Kill()
	if !c.s.Failed() {
		return
	}
	var b strings.Builder
	for _, m := range c.Messages() {
		if u := m.Update(); u != "available_commands_update" && u != "usage_update" {
			b.Write(bytes.TrimSpace(m.Line[:min(len(m.Line), 400)]))
			b.WriteByte('\n')
		}
	}
	c.s.Logf("client of %s:\n%s\nstderr:\n%s", c.session, b.String(), c.Stderr())
}

// open begins a session.
func (s *acpStage) open() *chat {
	s.Helper()
	c := s.connect()
	c.begin("new", "", nil)
	return c
}

// begin sends session/METHOD with further params beside the directory, and makes the session the
// chat's.
func (c *chat) begin(method, from string, more map[string]any) acptest.Received {
	c.s.Helper()
	params := map[string]any{"cwd": c.s.Rig.Project, "mcpServers": []any{}}
	if from != "" {
		params["sessionId"], c.session = from, from
	}
	for k, v := range more {
		params[k] = v
	}
	r, err := c.Call(c.s.Ctx, "session/"+method, params)
	if err != nil {
		c.s.Fatalf("session/%s: %v", method, err)
	}
	if id := r.Text(r.Find(r.Result, "sessionId")); id != "" {
		c.session = id
	}
	return r
}

// ask prompts and returns the turn and its end.
func (c *chat) ask(text string) (*acptest.Turn, acptest.Stop, error) {
	c.s.Helper()
	c.turns++
	turn, err := c.Prompt(c.session, text)
	if err != nil {
		c.s.Fatal(err)
	}
	stop, err := turn.Stop(c.s.Ctx)
	return turn, stop, err
}

// say runs a turn that must end well, and returns the agent's text in it.
func (c *chat) say(text string) string {
	c.s.Helper()
	turn, stop, err := c.ask(text)
	if err != nil || stop.Reason != "end_turn" {
		c.s.Fatalf("the turn of %.40q ended with %q, %v", text, stop.Reason, err)
	}
	return turn.Said()
}

// hangUp closes the client's side. segno must then end without an error.
func (c *chat) hangUp() {
	c.s.Helper()
	if ids := c.Unanswered(); len(ids) > 0 {
		c.s.Errorf("requests %q have no answer", ids)
	}
	if err := c.CloseStdin(); err != nil {
		c.s.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.s.Ctx, time.Minute)
	defer cancel()
	if code, err := c.Wait(ctx); code != 0 || err != nil {
		c.s.Errorf("segno acp exited with %d, %v", code, err)
	}
	if p := c.Problems(); len(p) > 0 {
		c.s.Errorf("the client saw what must not be: %q", p)
	}
}

// agentPID returns the id of the agent's process, which is segno's only child.
func (c *chat) agentPID() int {
	c.s.Helper()
	pids := e2erig.ChildrenOf(c.s.T, c.PID())
	if len(pids) != 1 {
		c.s.Fatalf("segno has the children %v", pids)
	}
	return pids[0]
}

// shell returns a step in which the agent runs a command.
func (s *acpStage) shell(command string) map[string]any { return s.agent.Shell(command) }

// saidAnd returns a step with a text and then a command. If the tool does not return, only the text
// of the step stays in the transcript.
func (s *acpStage) saidAnd(text, command string) map[string]any {
	step := s.agent.Shell(command)
	step["text"] = text
	return step
}

// ledger returns the lines of a file in the project.
func (s *acpStage) ledger(name string) []string {
	s.Helper()
	data, err := os.ReadFile(s.Path(name))
	if err != nil {
		s.Fatal(err)
	}
	return strings.Fields(string(data))
}

// heard checks that the model's call for a prompt contains the texts has, and not the texts hasNot.
func (s *acpStage) heard(prompt string, has, hasNot []string) {
	s.Helper()
	var call fakemodel.Request
	for _, c := range s.Model.Calls() {
		if c.HasText(prompt) {
			call = c // the newest one
		}
	}
	if call.Body == nil {
		s.Fatalf("the model was never sent %q", prompt)
	}
	for _, text := range has {
		if !strings.Contains(everything(call), text) {
			s.Errorf("the model is sent %q without %q:\n%s", prompt, text, transcriptOf(call))
		}
	}
	for _, text := range hasNot {
		if strings.Contains(everything(call), text) {
			s.Errorf("the model is sent %q with %q:\n%s", prompt, text, transcriptOf(call))
		}
	}
}

// everything returns the complete conversation of a model call, with results and inputs, but
// without the scripts, because they name tool calls that may not have happened.
func everything(r fakemodel.Request) string {
	var b strings.Builder
	for _, m := range r.Messages() {
		for _, block := range m.Blocks {
			input := strings.ReplaceAll(block.Input, `\u003e`, ">") // Codex keeps the bytes of a call's arguments
			b.WriteString(directive.ReplaceAllString(block.Text, "") + "\n" + input + "\n")
		}
	}
	return b.String()
}

// directive matches a script, in which [prompt] escapes every >. A record may quote only the
// beginning of a script.
var directive = regexp.MustCompile(`<<fake \[[^>\n]*(\]>>)?`)

func transcriptOf(r fakemodel.Request) string {
	var b strings.Builder
	for _, m := range r.Messages() {
		for _, block := range m.Blocks {
			text := block.Type + " " + block.Text + block.Input
			b.WriteString(m.Role + ": " + strings.ReplaceAll(text[:min(len(text), 3000)], "\n", " ") + "\n")
		}
	}
	return b.String()
}

// checkTurns compares the numbers, sessions and prompts of the newest thread's turns.
func (s *acpStage) checkTurns(prompts ...string) []e2erig.Checkpoint {
	s.Helper()
	ts := s.Turns()
	var got []string
	for _, c := range ts {
		word, _, _ := strings.Cut(c.Prompt, " ")
		got = append(got, "t"+strconv.Itoa(c.Turn)+" "+word)
	}
	if !slices.Equal(got, prompts) {
		s.Errorf("the log has the turns %q, want %q", got, prompts)
	}
	return ts
}

// metaSegno decodes segno's metadata in a result.
func metaSegno(t *testing.T, r acptest.Received, v any) {
	t.Helper()
	at := r.Find(r.Result, "_meta", "segno")
	if at.IsZero() {
		t.Fatalf("no _meta.segno in %.300s", r.Line)
	}
	if err := json.Unmarshal(at.Of(r.Line), v); err != nil {
		t.Fatal(err)
	}
}

// lines splits a tap's log into messages.
func lines(t *testing.T, log []byte) (ms []acp.Message) {
	t.Helper()
	for line := range strings.Lines(string(log)) {
		m, err := acp.Parse([]byte(line))
		if err != nil {
			t.Fatalf("%.100q: %v", line, err)
		}
		ms = append(ms, m)
	}
	return ms
}
