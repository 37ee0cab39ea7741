package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/internal/acp/acptest"
)

// chaos is one run of a schedule: a client, segno and an agent, in a home of their
// own.
type chaos struct {
	t      *testing.T
	ctx    context.Context
	plan   schedule
	agent  acptest.Config
	dir    string // of everything
	cwd    string // of the conversation
	client *acptest.Client
	id     string // of the session, as the client knows it

	accepted []string // the names of prompts that an agent saw, or whose turns ended well
	killed   bool     // segno was
	story    []string // what happened, for a reader
	clients  []*acptest.Client
}

func newChaos(t *testing.T, ctx context.Context, s schedule) *chaos {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := &chaos{t: t, ctx: ctx, plan: s, agent: s.agent, dir: dir, cwd: filepath.Join(dir, "project")}
	c.agent.Dir = filepath.Join(dir, "agent")
	for _, d := range []string{c.cwd, c.agent.Dir, filepath.Join(dir, "home")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *chaos) tell(format string, args ...any) {
	c.story = append(c.story, fmt.Sprintf(format, args...))
}

// segno is a command of segno.
func (c *chaos) segno(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append([]string{"segno"}, args...)...)
	cmd.Dir = c.cwd
	home := filepath.Join(c.dir, "home")
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_DATA_HOME="+filepath.Join(home, "data"), "CLAUDE_CONFIG_DIR="+filepath.Join(home, ".claude"),
		"NO_COLOR=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

// connect starts segno and says who we are.
func (c *chaos) connect() error {
	client, err := acptest.Start(c.ctx, c.segno(append([]string{"acp", "--", os.Args[0]}, c.agent.Args()...)...), acptest.ClientOptions{})
	if err != nil {
		return err
	}
	c.client = client
	c.clients = append(c.clients, client)
	_, err = client.Initialize(c.ctx, nil)
	return err
}

// reconnect is a client that comes back with the id it knows. One that never had an
// answer to session/new has none.
func (c *chaos) reconnect() error {
	c.awaitAgents()
	if err := c.connect(); err != nil {
		return err
	}
	method := []string{"load", "resume"}[len(c.clients)%2]
	c.tell("session/%s", method)
	from := c.client.Place()
	_, err := c.client.Open(c.ctx, method, c.id, c.cwd)
	if err != nil {
		return fmt.Errorf("session/%s with the id the client knows: %w", method, err)
	}
	if method == "load" {
		c.everythingReplayed(c.client.Messages()[from:])
	}
	list, err := c.client.List(c.ctx, c.cwd)
	if err == nil && !slices.ContainsFunc(list, func(l acptest.Listed) bool { return l.SessionID == c.id }) {
		err = fmt.Errorf("session/list does not have %s: %v", c.id, list)
	}
	return err
}

// everythingReplayed checks that a client that loads the session is shown every
// prompt that was accepted.
func (c *chaos) everythingReplayed(shown []acptest.Received) {
	var prompts strings.Builder
	for _, r := range shown {
		if r.Update() == "user_message_chunk" {
			prompts.WriteString(r.Content() + "\n")
		}
	}
	for _, name := range c.accepted {
		if !strings.Contains(prompts.String(), name+":") {
			c.t.Errorf("session/load does not show %s, but\n%s", name, prompts.String())
		}
	}
}

// awaitAgents waits until every agent there was is gone: it ends when its stdin
// does.
func (c *chaos) awaitAgents() {
	for deadline := time.Now().Add(10 * time.Second); ; {
		alive := c.alive("agent", "tool")
		if len(alive) == 0 {
			return
		}
		if time.Now().After(deadline) {
			c.t.Errorf("agents that live on: %v", alive)
			for _, pid := range alive {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-c.ctx.Done():
			return
		}
	}
}

// alive are the processes of some kinds that still run.
func (c *chaos) alive(kinds ...string) []int {
	var alive []int
	for _, kind := range kinds {
		pids, err := c.agent.PIDs(kind)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, pid := range pids {
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(stat), ") Z ") {
				alive = append(alive, pid)
			}
		}
	}
	return alive
}

// do does a deed to an idle conversation.
func (c *chaos) do(deed string) error {
	c.tell("%s", deed)
	switch deed {
	case restart:
		if err := c.leave(); err != nil {
			return err
		}
		return c.reconnect()
	case killSegno, killBoth:
		c.strike(deed)
		return c.reconnect()
	case loseSession:
		names, err := filepath.Glob(filepath.Join(c.agent.Dir, "sessions", "*"))
		for _, name := range names {
			err = errors.Join(err, os.Remove(name))
		}
		c.strike(killAgent) // one that lives writes it again
		return err
	default:
		c.strike(deed)
		return nil
	}
}

// strike does a deed that needs no client that comes back.
func (c *chaos) strike(deed string) {
	if deed == killSegno || deed == killBoth {
		c.killed = true
		c.client.KillOne()
		<-c.client.Exited()
	}
	kinds := map[string][]string{killAgent: {"agent", "tool"}, killBoth: {"agent", "tool"}, killTool: {"tool"}}
	for _, pid := range c.alive(kinds[deed]...) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	switch deed {
	case cancel:
		_ = c.client.Cancel(c.id) // segno may be gone
	case restart:
		_ = c.client.CloseStdin()
	}
}

// leave is a client that goes: segno must end within ten seconds, with its agents.
func (c *chaos) leave() error {
	_ = c.client.CloseStdin()
	ctx, stop := context.WithTimeout(c.ctx, 10*time.Second)
	defer stop()
	code, err := c.client.Wait(ctx)
	if err != nil {
		return fmt.Errorf("after its stdin was closed: %w", err)
	}
	if code != 0 {
		return fmt.Errorf("segno exits with %d: %s", code, c.client.Stderr())
	}
	if open := c.client.Unanswered(); len(open) > 0 {
		return fmt.Errorf("segno exits and leaves requests %v without an answer", open)
	}
	if alive := c.alive("agent", "tool"); len(alive) > 0 {
		return fmt.Errorf("segno exits and leaves processes %v of its agent", alive)
	}
	return nil
}

// say prompts and waits for the end, while the deed is done. It reports whether the
// turn ended as the agent wanted.
func (c *chaos) say(name, text, deed string, after int) (bool, error) {
	c.tell("prompt %s", name)
	c.nothingLate()
	turn, err := c.client.Prompt(c.id, name+": "+text)
	if err != nil {
		return false, err
	}
	killed := false
	if deed != "" {
		came := 0
		_, err := c.client.Await(c.ctx, turn.From, func(r acptest.Received) bool {
			if r.IsResponse() && r.IDText() == turn.ID {
				return true
			}
			came++
			return came > after
		})
		if errors.Is(err, acptest.ErrEnded) {
			return false, fmt.Errorf("segno is gone: %s", c.client.Stderr())
		}
		if err != nil {
			return false, err
		}
		c.tell("%s after %d messages", deed, came)
		c.strike(deed)
		killed = deed == killSegno || deed == killBoth || deed == restart
	}
	stop, err := turn.Stop(c.ctx)
	var refused *acp.Error
	switch {
	case err == nil:
		c.tell("ended: %s", stop.Reason)
	case errors.As(err, &refused):
		c.tell("ended: %v %s", refused, refused.Data)
		err = nil
	case killed && errors.Is(err, acptest.ErrEnded):
		c.tell("no answer: segno is gone")
		err = nil
	default:
		return false, err
	}
	ok := stop.Reason == "end_turn"
	if ok || c.seen(name) {
		c.accepted = append(c.accepted, name)
	}
	if killed {
		if deed == restart {
			err = c.leave()
		}
		err = errors.Join(err, c.reconnect())
	}
	return ok, err
}

// nothingLate checks that nothing of a turn came behind its answer.
func (c *chaos) nothingLate() {
	messages := c.client.Messages()
	for _, m := range slices.Backward(messages) {
		switch {
		case m.IsResponse():
			return
		case strings.HasPrefix(m.Content(), "segno: "):
		case m.Update() == "tool_call", m.Update() == "tool_call_update", m.Update() == "agent_message_chunk":
			c.t.Errorf("behind the turn's answer came %s", m.Line)
		}
	}
}

// seen reports whether the agent's model saw a prompt.
func (c *chaos) seen(name string) bool {
	requests, err := acptest.ReadRequests(c.agent.RequestsFile())
	if err != nil {
		c.t.Fatal(err)
	}
	return slices.ContainsFunc(requests, func(r acptest.Request) bool { return strings.Contains(r.Text(), name) })
}

// run runs the schedule. An error is one that ends it.
func (c *chaos) run() error {
	if err := c.connect(); err != nil {
		return err
	}
	var err error
	if c.id, err = c.client.Open(c.ctx, "new", "", c.cwd); err != nil {
		return err
	}
	for i, turn := range c.plan.turns {
		for _, deed := range turn.before {
			if err := c.do(deed); err != nil {
				return err
			}
		}
		if err := c.runTurn(i, turn); err != nil {
			return err
		}
	}
	const patience = 8 // faults of the last turn may still be to come
	for n := range patience {
		ok, err := c.say(fmt.Sprintf("last-prompt-%d", n), "what did you do so far?", "", 0)
		if err != nil {
			return err
		}
		if ok {
			return c.leave()
		}
	}
	return errors.New("no turn ends any more")
}

// runTurn prompts until the turn's script is done. A user who sees a turn fail asks
// to go on.
func (c *chaos) runTurn(i int, turn plannedTurn) error {
	faults := 2
	for _, s := range turn.steps {
		faults += s.Times
	}
	name := fmt.Sprintf("prompt-%d-of-%d", i, c.plan.seed)
	_, err := c.say(name, acptest.Directive(turn.steps...), turn.deed, turn.after)
	for n := 1; err == nil && !c.done(turn); n++ {
		if n > faults {
			return fmt.Errorf("turn %d does not end: asked to go on %d times", i, n)
		}
		text := "please go on"
		if !c.seen(name) || n%3 == 0 {
			text += " with " + acptest.Directive(turn.steps...) // it did not arrive, or is told in parts
		}
		_, err = c.say(fmt.Sprintf("go-on-%d-of-%d", n, i), text, "", 0)
	}
	return err
}

// done reports whether all lines of a turn are in the ledger.
func (c *chaos) done(turn plannedTurn) bool {
	lines, err := acptest.ReadLedger(c.agent.LedgerFile())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, s := range turn.steps {
		if s.Tool != "" && !slices.Contains(lines, s.Line) {
			return false
		}
	}
	return true
}
