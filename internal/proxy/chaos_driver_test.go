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
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// chaos is one run of a schedule: a client, segno and an agent, in a separate home.
type chaos struct {
	t      *testing.T
	ctx    context.Context
	plan   schedule
	agent  acptest.Config
	dir    string // contains everything
	client *acptest.Client
	talks  []*talk

	clients  []*acptest.Client // all, including those that ended
	killed   bool              // segno was killed
	foreign  int               // the number of requests to models before segno
	userFile map[string]string // the content of the user's file, by place

	mu    sync.Mutex
	story []string // the events, for the log of a failed test
}

func newChaos(t *testing.T, ctx context.Context, s schedule) *chaos {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := &chaos{t: t, ctx: ctx, plan: s, agent: s.agent, dir: dir, userFile: map[string]string{}}
	c.agent.Dir = filepath.Join(dir, "agent")
	if s.readable {
		c.agent.Claude = filepath.Join(dir, "home", ".claude")
	}
	for i, turns := range s.talks {
		k := &talk{chaos: c, name: string(rune('a' + i)), turns: turns, cwd: filepath.Join(dir, "project")}
		if s.apart {
			k.cwd += k.name
			k.place = k.name
		}
		c.talks = append(c.talks, k)
		if err := os.MkdirAll(k.cwd, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := k.userEdits(); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{c.agent.Dir, filepath.Join(dir, "home")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *chaos) tell(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.story = append(c.story, fmt.Sprintf(format, args...))
}

// segno returns a segno command.
func (c *chaos) segno(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append([]string{"segno"}, args...)...)
	cmd.Dir = c.talks[0].cwd
	home := filepath.Join(c.dir, "home")
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_DATA_HOME="+filepath.Join(home, "data"), "CLAUDE_CONFIG_DIR="+filepath.Join(home, ".claude"),
		"NO_COLOR=1", fullVar+"="+c.fullFile(), "GORACE=atexit_sleep_ms=0")
	return cmd
}

// bare returns the agent's command, without segno.
func (c *chaos) bare() *exec.Cmd {
	cmd := exec.Command(os.Args[0], c.agent.Args()...)
	cmd.Dir, cmd.Env = c.talks[0].cwd, c.segno().Env
	return cmd
}

// start starts segno and initializes the connection.
func (c *chaos) start() (*acptest.Client, error) {
	permit := func(r acptest.Received) string {
		if strings.Contains(r.Text(r.Find(r.Params, "toolCall", "title")), refused) {
			return "reject"
		}
		return "allow"
	}
	client, err := acptest.Start(c.ctx, c.segno(append([]string{"acp", "--", os.Args[0]}, c.agent.Args()...)...), acptest.ClientOptions{Permit: permit})
	if err != nil {
		return nil, err
	}
	c.clients = append(c.clients, client)
	_, err = client.Initialize(c.ctx, nil)
	return client, err
}

// run runs the schedule. It returns the error that ended it early, if any.
func (c *chaos) run() (err error) {
	if c.client, err = c.start(); err != nil {
		return err
	}
	for _, k := range c.talks {
		if err := k.begin(); err != nil {
			return err
		}
	}
	for more := true; more; {
		if more, err = c.round(); err != nil {
			return err
		}
	}
	for _, k := range c.talks {
		if err := k.last(); err != nil {
			return err
		}
	}
	return c.leave()
}

// round runs the next turn of every conversation, one after the other or all at
// once. It reports whether there was one.
func (c *chaos) round() (bool, error) {
	var due []*talk
	for _, k := range c.talks {
		if len(k.turns) > 0 {
			due = append(due, k)
		}
	}
	if c.plan.together && len(due) > 1 {
		for _, k := range due {
			if err := k.prepare(); err != nil {
				return true, err
			}
		}
		errs := make([]error, len(due))
		var all sync.WaitGroup
		for n, k := range due {
			all.Go(func() { errs[n] = k.next(false) })
		}
		all.Wait()
		c.filesAgree()
		return true, errors.Join(errs...)
	}
	for _, k := range due {
		if err := errors.Join(k.prepare(), k.next(true)); err != nil {
			return true, err
		}
		c.filesAgree()
	}
	return len(due) > 0, nil
}

// do executes a deed on an idle conversation.
func (c *chaos) do(deed string, k *talk) error {
	c.tell("%s", deed)
	switch deed {
	case restart:
		if err := c.leave(); err != nil {
			return err
		}
		return c.reconnect()
	case killSegno, killBoth:
		c.strike(deed, k)
		return c.reconnect()
	case move:
		if err := c.leave(); err != nil {
			return err
		}
		from := k.cwd
		for _, other := range c.talks {
			if other.cwd == from {
				other.cwd += "-moved"
			}
		}
		if err := os.Rename(from, k.cwd); err != nil {
			return err
		}
		return c.reconnect()
	case intrude:
		return c.intrude(k)
	case closing:
		if _, err := c.client.Call(c.ctx, "session/close", map[string]string{"sessionId": k.id}); err != nil {
			return err
		}
		return k.comeBack(c.client)
	case reload:
		return k.comeBack(c.client)
	case fork:
		return c.fork(k)
	case undo, undoAside:
		return k.undo(deed == undo)
	case redo, redoAside:
		return k.redo(deed == redo)
	case restore:
		return k.restore()
	case edit:
		return k.edit()
	case userEdits:
		return k.userEdits()
	case loseSession:
		names, err := filepath.Glob(c.agent.SessionFiles())
		for _, name := range names {
			err = errors.Join(err, os.Remove(name))
		}
		c.strike(killAgent, k) // a running agent would write the session again
		return err
	default:
		c.strike(deed, k)
		return nil
	}
}

// strike executes a deed after which the client does not have to reconnect.
func (c *chaos) strike(deed string, k *talk) {
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
		_ = c.client.Cancel(k.id) // segno may have ended
	case lockStore:
		c.lockStore()
	case fullStore:
		c.fillStore()
	case stall, stallCancel:
		release := c.client.Hold()
		defer release()
		if deed == stallCancel {
			_ = c.client.Cancel(k.id)
		}
		c.moment()
	case freeze:
		frozen := c.alive("agent", "tool")
		for _, pid := range frozen {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
		c.moment()
		for _, pid := range frozen {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	case housekeep:
		for _, verb := range []string{"gc", "check"} {
			if out, err := c.segno(verb).CombinedOutput(); err != nil && !strings.Contains(string(out), "no thread here yet") {
				c.t.Errorf("segno %s: %v\n%s", verb, err, out)
			}
		}
	case restart:
		_ = c.client.CloseStdin()
	}
}

// moment waits a short time.
func (c *chaos) moment() { c.wait(100 * time.Millisecond) }

func (c *chaos) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.ctx.Done():
	}
}

// reconnect starts a new client, which opens the ids that the previous client knew.
func (c *chaos) reconnect() (err error) {
	if !c.plan.hasty {
		c.awaitAgents()
	}
	if c.client, err = c.start(); err != nil {
		return err
	}
	for _, k := range c.talks {
		if err := k.comeBack(c.client); err != nil {
			return err
		}
	}
	return nil
}

// intrude runs another client that loads the session, prompts and disconnects. segno may
// refuse its prompt.
func (c *chaos) intrude(k *talk) error {
	client, err := c.start()
	if err != nil {
		return err
	}
	if err := k.comeBack(client); err != nil {
		c.tell("the intruder is refused: %v", err)
		return c.end(client)
	}
	k.intruders++
	k.calm, k.ahead = nil, nil
	name := fmt.Sprintf("intruder-%s-%d", k.name, k.intruders)
	line := acptest.Step{Tool: "ledger", Line: "line-" + name, File: k.file()}
	_, err = k.sayTo(client, name, name+": "+acptest.Directive(line), plannedTurn{})
	if k.newest = nil; err != nil {
		return err
	}
	return c.end(client)
}

// fork makes another conversation, which begins with the turns of this one.
func (c *chaos) fork(k *talk) error {
	forks := len(c.talks) - len(c.plan.talks)
	if forks == len(c.plan.forks) {
		return nil
	}
	id, err := c.client.Open(c.ctx, "fork", k.id, k.cwd)
	if err != nil {
		return err
	}
	c.talks = append(c.talks, &talk{chaos: c, name: string(rune('x' + forks)), turns: c.plan.forks[forks], cwd: k.cwd, place: k.place, id: id,
		knows: k.effects()})
	return nil
}

// leave closes the client's side.
func (c *chaos) leave() error {
	if err := c.end(c.client); err != nil {
		return err
	}
	if alive := c.alive("agent", "tool"); len(alive) > 0 {
		return fmt.Errorf("segno exits and leaves processes %v of its agent", alive)
	}
	return nil
}

// end closes a client's side. segno must end within a minute, because a busy machine is slow, without an unanswered request.
func (c *chaos) end(client *acptest.Client) error {
	_ = client.CloseStdin()
	ctx, stop := context.WithTimeout(c.ctx, time.Minute)
	defer stop()
	code, err := client.Wait(ctx)
	if err != nil {
		return fmt.Errorf("after its stdin was closed: %w", err)
	}
	if code != 0 {
		return fmt.Errorf("segno exits with %d: %s", code, client.Stderr())
	}
	if open := client.Unanswered(); len(open) > 0 {
		return fmt.Errorf("segno exits and leaves requests %v without an answer", open)
	}
	return nil
}

// awaitAgents waits until every agent has ended. An agent ends when its stdin does.
// awaitAgents kills an agent that hangs, as a user would.
func (c *chaos) awaitAgents() {
	for deadline := time.Now().Add(2 * time.Second); ; {
		alive := c.alive("agent", "tool")
		if len(alive) == 0 {
			return
		}
		if time.Now().After(deadline) {
			c.tell("agents %v hang", alive)
			for _, pid := range alive {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-c.ctx.Done():
			return
		}
	}
}

// alive returns the processes of some kinds that still run.
func (c *chaos) alive(kinds ...string) []int {
	var alive []int
	for _, kind := range kinds {
		pids, err := c.agent.PIDs(kind)
		if err != nil {
			c.t.Error(err)
		}
		for _, pid := range pids {
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(stat), ") Z ") {
				alive = append(alive, pid)
			}
		}
	}
	return alive
}

// requests returns the requests that the agents' models received.
func (c *chaos) requests() []acptest.Request {
	requests, err := acptest.ReadRequests(c.agent.RequestsFile())
	if err != nil {
		c.t.Error(err)
	}
	return requests
}

// ledger returns the lines that tools appended.
func (c *chaos) ledger() []string {
	lines, err := acptest.ReadLedger(c.agent.LedgerFile())
	if err != nil {
		c.t.Error(err)
	}
	return lines
}

// seen reports whether an agent's model received a prompt.
func (c *chaos) seen(name string) bool {
	return slices.ContainsFunc(c.requests(), func(r acptest.Request) bool { return strings.Contains(r.Text(), name+":") })
}
