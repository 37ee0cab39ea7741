package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/testing/wings"
	"github.com/dalsegno/segno/internal/vfs"
)

// TestMain makes this binary the agent, its tools, and segno itself.
func TestMain(m *testing.M) {
	ctx := context.Background()
	if code, ran := acptest.Main(ctx, os.Args[1:], acptest.Standard()); ran {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == "segno" {
		env := cli.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
			Environ: os.Environ, Getwd: os.Getwd, Executable: os.Executable}
		if flag := os.Getenv(fullVar); flag != "" {
			env.Place = func(p *local.Place) { p.FS = fullFS{vfs.OS, flag} }
		}
		os.Exit(cli.Main(ctx, env, wings.All(), os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == "hasty" {
		os.Exit(hasty(ctx, os.Args[2:]))
	}
	soak.DrawIfShort()
	memdir.Use()
	os.Exit(m.Run())
}

// rig is a project, a store and an agent.
type rig struct {
	*testing.T
	ctx     context.Context
	home    string
	project string
	agent   acptest.Config
	flags   []string // the flags of segno acp
}

func newRig(t *testing.T, agent func(dir string) acptest.Config) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, ctx: ctx, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project"), agent: agent(filepath.Join(dir, "agent"))}
	for _, d := range []string{r.home, r.project} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.agent.Ledger = filepath.Join(r.project, "ledger")
	return r
}

// eachAgent runs a test in parallel with each of some agents.
func eachAgent(t *testing.T, agents map[string]func(string) acptest.Config, test func(t *testing.T, r *rig)) {
	t.Parallel()
	for name, agent := range agents {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newRig(t, agent))
		})
	}
}

// eachMethod runs a test in parallel with each of some agents and each of some methods.
func eachMethod(t *testing.T, agents map[string]func(string) acptest.Config, methods []string, test func(t *testing.T, r *rig, method string)) {
	t.Parallel()
	for _, method := range methods {
		for name, agent := range agents {
			t.Run(name+" "+method, func(t *testing.T) {
				t.Parallel()
				test(t, newRig(t, agent), method)
			})
		}
	}
}

// withoutSegno runs the agent without segno. It opens a new session, lets do send prompts in it, and returns its id.
func (r *rig) withoutSegno(do func(c *acptest.Client, session string)) (session string) {
	r.Helper()
	c, err := acptest.Start(r.ctx, exec.Command(os.Args[0], r.agent.Args()...), acptest.ClientOptions{})
	if err != nil {
		r.Fatal(err)
	}
	if _, err := c.Initialize(r.ctx, nil); err != nil {
		r.Fatal(err)
	}
	session = r.open(c, "new", "")
	do(c, session)
	r.leave(c)
	return session
}

// none is an agent that can do nothing with sessions.
func none(dir string) acptest.Config { return acptest.Config{Dir: dir, Name: "bare", Version: "1.0.0"} }

func (r *rig) command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append([]string{"segno"}, args...)...)
	cmd.Dir = r.project
	cmd.Env = []string{"HOME=" + r.home, "XDG_DATA_HOME=" + filepath.Join(r.home, "data"), "PATH=" + os.Getenv("PATH"), "TMPDIR=" + r.home, "GORACE=atexit_sleep_ms=0",
		fullVar + "=" + r.full()}
	return cmd
}

// full returns the path of a file. While this file exists, the store's disk is full.
func (r *rig) full() string { return filepath.Join(r.home, "full") }

// client starts segno acp in front of the agent and initializes it.
func (r *rig) client() *acptest.Client {
	r.Helper()
	args := append(append([]string{"acp"}, r.flags...), "--", os.Args[0])
	c, err := acptest.Start(r.ctx, r.command(append(args, r.agent.Args()...)...), acptest.ClientOptions{})
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
		if strings.Contains(c.Stderr(), "DATA RACE") { // segno is a separate process, so its races do not fail the test
			r.Errorf("segno races:\n%s", c.Stderr())
		}
		if bad := regexp.MustCompile(`.*(<nil>|%!).*`).FindString(c.Stderr()); bad != "" {
			r.Errorf("a line of the log has a value that is missing: %s", bad)
		}
		for _, p := range c.Problems() {
			r.Error(p)
		}
	})
	if _, err := c.Initialize(r.ctx, nil); err != nil {
		r.Fatalf("initialize: %v", err)
	}
	return c
}

// session starts a client, which opens a new session.
func (r *rig) session() (c *acptest.Client, id string) {
	r.Helper()
	c = r.client()
	return c, r.open(c, "new", "")
}

// startSession lets a test run in parallel with others and starts a client of an agent, which
// opens a new session.
func startSession(t *testing.T, agent func(dir string) acptest.Config) (r *rig, c *acptest.Client, id string) {
	t.Helper()
	t.Parallel()
	r = newRig(t, agent)
	c, id = r.session()
	return r, c, id
}

func (r *rig) open(c *acptest.Client, method, from string) string {
	r.Helper()
	id, err := c.Open(r.ctx, method, from, r.project)
	if err != nil {
		r.Fatalf("session/%s: %v", method, err)
	}
	return id
}

// turn sends a prompt, and fails the test unless the turn ends with the reason end_turn.
func (r *rig) turn(c *acptest.Client, session, text string) *acptest.Turn {
	r.Helper()
	t, err := c.Prompt(session, text)
	if err != nil {
		r.Fatal(err)
	}
	stop, err := t.Stop(r.ctx)
	if err != nil || stop.Reason != "end_turn" {
		r.Fatalf("the turn %q ended with %q, %v", text, stop.Reason, err)
	}
	return t
}

// segno runs a command and returns its output.
func (r *rig) segno(args ...string) string {
	r.Helper()
	cmd := r.command(args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		r.Fatalf("segno %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return string(out)
}

// ledger returns the lines that the agent's tools wrote.
func (r *rig) ledger() string {
	data, err := os.ReadFile(r.agent.LedgerFile())
	if err != nil && !os.IsNotExist(err) {
		r.Fatal(err)
	}
	return strings.Join(strings.Fields(string(data)), " ")
}

// requests returns the requests that the agent's model received, each as one string.
func (r *rig) requests() []string {
	r.Helper()
	f, err := os.Open(r.agent.RequestsFile())
	if err != nil {
		r.Fatal(err)
	}
	defer f.Close()
	var all []string
	in := bufio.NewScanner(f)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		if json.Valid(in.Bytes()) { // a killed agent leaves a part of a line
			all = append(all, in.Text())
		}
	}
	return all
}

func (r *rig) last() string {
	all := r.requests()
	return all[len(all)-1]
}

type logged struct {
	Kind   string `json:"kind"`
	Turn   int    `json:"turn"`
	Prompt string `json:"prompt"`
}

// turns returns the prompts of the thread's line, newest first, as segno log prints them.
func (r *rig) turns() []string {
	r.Helper()
	var list []logged
	out := r.segno("log", "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		var wrapped struct {
			Checkpoints []logged `json:"checkpoints"`
		}
		if err := json.Unmarshal([]byte(out), &wrapped); err != nil {
			r.Fatalf("log: %v\n%s", err, out)
		}
		list = wrapped.Checkpoints
	}
	var prompts []string
	for _, c := range list {
		if c.Kind == "turn" {
			prompts = append(prompts, c.Prompt)
		}
	}
	return prompts
}
