package agent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/store/sqlite"
)

// works are the functions that a child process can run, by name.
var works = map[string]func(ctx context.Context, dir, args string) error{"run": runInChild, "hold": holdInChild, "waits": waitInChild}

// order tells a child process what to run and where to kill itself.
type order struct {
	Prompt string
	Decide []segno.Decision
	Effect agent.OnLost
	Ask    bool   // the tool needs approval
	Tool   string // it kills itself "before" or "after" the tool's n-th line, or never if it is ""
	Commit string // it kills itself "before" or "after" the n-th commit
	N      int
	Site   bool // it works on the files of dir/project
}

// ledgerAgent is an agent whose tool appends lines to a file in dir.
func ledgerAgent(store segno.Store, dir string, o order) *agent.Agent {
	pay := ledger{file: ledgerFile(dir), order: o}.tool()
	c := agent.Config{Model: offline.New(), Store: store, Tools: append(tool.Standard(), pay),
		Subagents: []agent.Subagent{{Name: "payer", Description: "pays"}}}
	if o.Ask {
		c.Approve = agent.RequireApproval("pay")
	}
	return agent.New(c)
}

// siteGate is a gate in front of a store that has workspaces.
type siteGate struct {
	*gate
	segno.Workspaces
}

// atSite replaces the agent by one that works on dir/project.
func atSite(ctx context.Context, a **agent.Agent, store segno.Store, dir string) (*os.Root, error) {
	at := filepath.Join(dir, "project")
	site, err := agent.OpenTimeline(ctx, store, at, filepath.Join(dir, "keep"))
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		return nil, err
	}
	c := (*a).Config
	c.Store, c.Timeline, c.Tools = store, site, tool.Deep(at, root)
	*a = agent.New(c)
	return root, nil
}

func ledgerFile(dir string) string { return filepath.Join(dir, "ledger") }

func storeFile(dir string) string { return filepath.Join(dir, "agent.db") }

// die ends this process at once, as a power cut would.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// runInChild runs the thread and prints the number of its commits.
func runInChild(ctx context.Context, dir, args string) error {
	var o order
	if err := json.Unmarshal([]byte(args), &o); err != nil {
		return err
	}
	store, err := sqlite.Open(ctx, storeFile(dir), sqlite.Options{})
	if err != nil {
		return err
	}
	at := func(when string) func(int, segno.Commit) error {
		return func(n int, _ segno.Commit) error {
			if o.Commit == when && n == o.N {
				die()
			}
			return nil
		}
	}
	g := &gate{lessor: store, before: at("before"), after: at("after")}
	a := ledgerAgent(g, dir, o)
	if o.Site {
		root, err := atSite(ctx, &a, store, dir)
		if err != nil {
			return err
		}
		defer root.Close()
		at := siteGate{g, store}
		a.Store, a.Timeline.Store = at, at
	}
	out, err := a.Run(ctx, agent.Input{Thread: thread, Prompt: o.Prompt, Decide: o.Decide})
	fmt.Println(g.n)
	for _, i := range out.Interrupts {
		fmt.Println("asks", i.ID)
	}
	return errors.Join(err, store.Close())
}

// child runs an order in another process. It returns the number of commits and whether the process was killed.
func child(t testing.TB, work, dir string, o order) (commits int, killed bool) {
	t.Helper()
	cmd := start(t, work, dir, o)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return 0, true
	}
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	fmt.Sscan(string(out), &commits)
	return commits, false
}

func start(t testing.TB, work, dir string, o order) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childDir+"="+dir, childWork+"="+work, childArgs+"="+string(args))
	return cmd
}

// holdInChild holds the thread until its standard input ends, because a tool waits for that.
func holdInChild(ctx context.Context, dir, _ string) error {
	store, err := sqlite.Open(ctx, storeFile(dir), sqlite.Options{})
	if err != nil {
		return err
	}
	wait := agent.NewTool("wait", "waits", agent.LostRerun, func(context.Context, *agent.Invocation, struct{}) (string, error) {
		fmt.Println("waiting")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		return "waited", nil
	})
	a := agent.New(agent.Config{Model: offline.New(), Store: store, Tools: []agent.Tool{wait}})
	_, err = a.Run(ctx, agent.Input{Thread: thread, Prompt: "call wait {}"})
	return errors.Join(err, store.Close())
}

// ledger is a file of lines that each cost money. Each line contains the key under which it was
// written.
type ledger struct {
	file string
	order
}

type payment struct {
	Line string `json:"line"`
}

func (l ledger) tool() agent.Tool {
	return agent.NewTool("pay", "pays once", l.Effect, func(_ context.Context, inv *agent.Invocation, p payment) (string, error) {
		return l.pay(inv.Key, p.Line, l.Effect == agent.LostRetry)
	})
}

// pay appends a line to the ledger. If the ledger knows keys, it pays once for each key.
func (l ledger) pay(key, what string, knowsKeys bool) (string, error) {
	lines, err := l.lines()
	if err != nil {
		return "", err
	}
	for _, x := range lines {
		if knowsKeys && x.key == key {
			return "paid " + what + " before", nil
		}
	}
	if l.Tool == "before" && len(lines)+1 == l.N {
		die()
	}
	f, err := os.OpenFile(l.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, key, what); err != nil {
		return "", err
	}
	if l.Tool == "after" && len(lines)+1 == l.N {
		die()
	}
	return "paid " + what, nil
}

type line struct{ key, text string }

func (l ledger) lines() (all []line, err error) {
	data, err := os.ReadFile(l.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for text := range strings.Lines(string(data)) {
		key, what, _ := strings.Cut(strings.TrimSpace(text), " ")
		all = append(all, line{key, what})
	}
	return all, err
}
