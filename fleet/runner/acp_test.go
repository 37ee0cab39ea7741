package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/fleet"
	"github.com/dalsegno/segno/fleet/runner"
	"github.com/dalsegno/segno/fleet/workspaces"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/store/file"
)

func TestMain(m *testing.M) {
	if code, ran := acptest.Main(context.Background(), os.Args[1:], acptest.Standard()); ran {
		os.Exit(code)
	}
	memdir.Use()
	if arg := os.Getenv(workerArg); arg != "" {
		if err := beWorker(context.Background(), arg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// stage is a store, and the machines that use it.
type stage struct {
	*testing.T
	base  string
	store *file.Store
	acp   acptest.Config // its Dir has what is outside of the machines: the ledger, and the requests to the model
}

func newStage(t *testing.T) *stage {
	t.Helper()
	f := &stage{T: t, base: t.TempDir()}
	var err error
	f.store, err = file.Open(t.Context(), filepath.Join(f.base, "store"), file.Options{})
	f.must(err)
	t.Cleanup(func() { f.must(f.store.Close()) })
	f.acp = acptest.Config{Dir: filepath.Join(f.base, "outside"), Name: "@agentclientprotocol/claude-agent-acp", Version: "0.100.0",
		Load: true, Resume: true, Fork: true, List: true, Close: true}
	return f
}

func (f *stage) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// machine is a directory of a worker, and the runner in it.
type machine struct {
	*stage
	dir    string
	stderr bytes.Buffer
	*runner.ACP
}

func (f *stage) machine(name string) *machine {
	f.Helper()
	m := &machine{stage: f, dir: filepath.Join(f.base, name)}
	cache, err := workspaces.Open(m.dir, workspaces.Options{Objects: f.store.Objects()})
	f.must(err)
	m.ACP = &runner.ACP{Name: "claude", Command: f.command(), Store: f.store, Cache: cache, Permissions: runner.Allow, Stderr: &m.stderr}
	return m
}

// command returns the command of the scripted agent, which has its sessions in its home directory, in the format of Claude
// Code.
func (f *stage) command() []string {
	f.Helper()
	c := f.acp
	c.Claude = "HOME/.claude"
	args := c.Args()
	return []string{"/bin/sh", "-c", `json=$2; exec "$0" "$1" "$(printf %s "$json" | sed "s|HOME/.claude|$HOME/.claude|")"`, os.Args[0], args[0], args[1]}
}

// lost makes the disk of a machine fail.
func (m *machine) lost() {
	m.Helper()
	m.must(os.RemoveAll(m.dir))
}

func (m *machine) run(key, text string) (fleet.Result, error) {
	m.Helper()
	return m.Run(m.Context(), work("t", key, text))
}

func (m *machine) done(key, text string) string {
	m.Helper()
	r, err := m.run(key, text)
	if err != nil || r.Phase != agent.PhaseDone {
		m.Fatalf("the turn is %q, %v\n%s", r.Phase, err, m.stderr.String())
	}
	return r.Text
}

// files returns the files of the machine's only directory.
func (m *machine) files() string {
	m.Helper()
	found, err := filepath.Glob(filepath.Join(m.dir, "dirs", "*", "*", "files"))
	if err != nil || len(found) != 1 {
		m.Fatalf("the machine has the directories %q, %v", found, err)
	}
	return found[0]
}

func (f *stage) ledger() string {
	f.Helper()
	lines, err := acptest.ReadLedger(f.acp.LedgerFile())
	f.must(err)
	return strings.Join(lines, " ")
}

// heard returns the newest request to the model.
func (f *stage) heard() string {
	f.Helper()
	all, err := acptest.ReadRequests(f.acp.RequestsFile())
	if err != nil || len(all) == 0 {
		f.Fatalf("%d requests, %v", len(all), err)
	}
	data, err := json.Marshal(all[len(all)-1])
	f.must(err)
	return string(data)
}

func work(thread, key, text string) fleet.Work {
	return fleet.Work{Thread: thread, Prompt: fleet.Prompt{Thread: thread, Key: key, Text: text}}
}

func step(line, name string) acptest.Step {
	s := acptest.Do(line)
	s.File = name
	return s
}

// TestAThreadMovesToAnotherMachine runs three turns, each on a machine that has nothing of the thread.
func TestAThreadMovesToAnotherMachine(t *testing.T) {
	f := newStage(t)
	for i, word := range []string{"one", "two", "three"} {
		m := f.machine("machine" + word)
		if got := m.done(word, word+" "+acptest.Directive(step(word, word+".txt"), acptest.Say("answer "+word))); got != "answer "+word {
			t.Errorf("the answer is %q", got)
		}
		for _, before := range []string{"one", "two", "three"}[:i+1] {
			if data, err := os.ReadFile(filepath.Join(m.files(), before+".txt")); err != nil || strings.TrimSpace(string(data)) != before {
				t.Errorf("turn %s: the file of turn %s contains %q, %v", word, before, data, err)
			}
			if !strings.Contains(f.heard(), "appended "+before) {
				t.Errorf("turn %s: the model does not see turn %s: %s", word, before, f.heard())
			}
		}
		if note := "you are now working at " + m.files(); strings.Contains(f.heard(), note) != (i > 0) {
			t.Errorf("turn %s: the model does not know where it is, or hears it without need: %s", word, f.heard())
		}
		m.lost()
	}
	if got := f.ledger(); got != "one two three" {
		t.Errorf("the calls were made: %s", got)
	}
	for c, err := range f.store.Checkpoints(t.Context(), segno.CheckpointQuery{Thread: "t"}) {
		f.must(err)
		if c.Kind == segno.CheckpointExternal {
			t.Errorf("a checkpoint says that the files changed outside of turns: %+v", c)
		}
	}
}

// TestAMachineContinuesTheAgentsSession checks that two turns on one machine use one session of the agent and one directory.
func TestAMachineContinuesTheAgentsSession(t *testing.T) {
	f := newStage(t)
	m := f.machine("a")
	m.done("one", "one "+acptest.Directive(step("one", "one.txt")))
	before := m.files()
	m.done("two", "two "+acptest.Directive(step("two", "two.txt")))
	if m.files() != before {
		t.Error("the second turn ran in another directory")
	}
	links := 0
	for l, err := range f.store.Chain(t.Context(), "t") {
		f.must(err)
		if links++; l.Fidelity != segno.FidelityNative {
			t.Errorf("a link: %+v", l)
		}
	}
	if links != 1 {
		t.Errorf("%d sessions", links)
	}
}

// TestAPromptRunsOnce repeats works whose turn has ended.
func TestAPromptRunsOnce(t *testing.T) {
	f := newStage(t)
	text := "one " + acptest.Directive(acptest.Do("one"), acptest.Say("the answer"))
	for _, name := range []string{"a", "a", "b"} {
		if got := f.machine(name).done("one", text); got != "the answer" {
			t.Errorf("the answer is %q", got)
		}
	}
	if got := f.ledger(); got != "one" {
		t.Errorf("the calls were made: %s", got)
	}
	f.machine("b").done("another key", "two "+acptest.Directive(acptest.Do("two")))
	if got := f.ledger(); got != "one two" {
		t.Errorf("the calls were made: %s", got)
	}
}

// TestAUserPermitsACallLater asks on one machine, records the decision, and continues on another one.
func TestAUserPermitsACallLater(t *testing.T) {
	for _, kind := range []segno.DecisionKind{segno.Approve, segno.Reject} {
		t.Run(string(kind), func(t *testing.T) {
			f := newStage(t)
			f.acp.Ask = true
			text := "one " + acptest.Directive(step("one", "one.txt"), acptest.Say("the end"))
			var question segno.Interrupt
			for _, name := range []string{"a", "b"} { // the second machine must not ask again
				m := f.machine(name)
				m.Permissions = runner.Ask
				r, err := m.run("one", text)
				if err != nil || r.Phase != agent.PhaseWaiting || !strings.Contains(r.Text, "append one") {
					t.Fatalf("the result is %+v, %v", r, err)
				}
				question = f.question()
				m.must(os.RemoveAll(m.dir))
			}
			if got := f.ledger(); got != "" {
				t.Errorf("the calls were made: %s", got)
			}
			f.decide(segno.Decision{Interrupt: question.ID, Kind: kind, Text: "because"})
			m := f.machine("c")
			m.Permissions = runner.Ask
			m.done("one", text)
			want := map[segno.DecisionKind]string{segno.Approve: "one"}[kind]
			if got := f.ledger(); got != want {
				t.Errorf("the calls were made: %q, want %q", got, want)
			}
			if kind == segno.Reject && !strings.Contains(f.heard(), "because") {
				t.Errorf("the model does not know why: %s", f.heard())
			}
			m.done("one", text) // the outcome of the turn
		})
	}
}

// TestAQuestionIsAskedOnce ends a worker after it recorded the question of the agent, and before it recorded that its attempt
// waits. The next attempt waits for the same question, whose answer would be lost otherwise.
func TestAQuestionIsAskedOnce(t *testing.T) {
	f := newStage(t)
	f.acp.Ask = true
	text := "one " + acptest.Directive(step("one", "one.txt"), acptest.Say("the end"))
	m := f.machine("a")
	m.Permissions, m.Store = runner.Ask, &unmarkedStore{Store: f.store}
	if r, err := m.run("one", text); !errors.Is(err, errUnmarked) {
		t.Fatalf("the result is %+v, %v", r, err)
	}
	first := f.question()
	m = f.machine("b")
	m.Permissions = runner.Ask
	if r, err := m.run("one", text); err != nil || r.Phase != agent.PhaseWaiting {
		t.Fatalf("the result is %+v, %v", r, err)
	}
	if now := f.question(); now.ID != first.ID {
		t.Errorf("the next attempt asked again: %s, and not %s", now.ID, first.ID)
	}
	f.decide(segno.Decision{Interrupt: first.ID, Kind: segno.Approve})
	m.done("one", text)
	if got := f.ledger(); got != "one" {
		t.Errorf("the calls were made: %q", got)
	}
}

var errUnmarked = errors.New("the machine failed")

// unmarkedStore is a store that fails every commit after that of a question.
type unmarkedStore struct {
	*file.Store
	asked atomic.Bool
}

func (s *unmarkedStore) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	if s.asked.Load() {
		return segno.Head{}, errUnmarked
	}
	if len(c.Entries) > 0 && c.Entries[0].Kind == segno.EntryInterrupt {
		s.asked.Store(true)
	}
	return s.Store.Commit(ctx, c)
}

// question returns the only question for which the thread waits.
func (f *stage) question() segno.Interrupt {
	f.Helper()
	waiting := 0
	for _, err := range f.store.Threads(f.Context(), segno.ThreadQuery{Phase: segno.PhaseWaiting}) {
		f.must(err)
		waiting++
	}
	head, err := f.store.Head(f.Context(), "t")
	f.must(err)
	line, err := f.store.Load(f.Context(), head.Head, segno.Window{Last: 1, Entries: true})
	f.must(err)
	var q segno.Interrupt
	if entries := line.Commits[0].Entries; waiting != 1 || len(entries) != 1 || entries[0].Kind != segno.EntryInterrupt {
		f.Fatalf("%d threads wait; the head has %+v", waiting, entries)
	} else {
		f.must(json.Unmarshal(entries[0].Body, &q))
	}
	return q
}

func (f *stage) decide(d segno.Decision) {
	f.Helper()
	head, err := f.store.Head(f.Context(), "t")
	f.must(err)
	e, err := d.Entry()
	f.must(err)
	_, err = f.store.Commit(f.Context(), segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "t", Parent: head.Head, Expect: head.Head,
		Epoch: head.Epoch, Entries: []segno.Entry{e}})
	f.must(err)
}

// TestAPermissionByPolicy runs an agent that asks, with the policies that need no user.
func TestAPermissionByPolicy(t *testing.T) {
	for policy, want := range map[runner.Permissions]string{runner.Allow: "one", runner.Refuse: ""} {
		f := newStage(t)
		f.acp.Ask = true
		m := f.machine("a")
		m.Permissions = policy
		m.done("one", "one "+acptest.Directive(acptest.Do("one")))
		if got := f.ledger(); got != want {
			t.Errorf("%s: the calls were made: %q", policy, got)
		}
	}
}

// TestADrainedTurnContinues ends the context while the agent works. The turn is recorded, and the next machine continues it
// without repeating what was done.
func TestADrainedTurnContinues(t *testing.T) {
	f := newStage(t)
	m := f.machine("a")
	ctx, cancel := context.WithCancel(t.Context())
	drained := filepath.Join(f.base, "drained") // the agent works until this file exists
	text := "one " + acptest.Directive(step("one", "one.txt"), acptest.Step{Wait: drained}, step("two", "two.txt"), acptest.Say("the end"))
	m.Store = &watched{Store: f.store, onResult: cancel}
	_, err := m.Run(ctx, work("t", "one", text))
	if segno.KindOf(err) != segno.KindCancelled {
		t.Fatalf("the error is %v\n%s", err, m.stderr.String())
	}
	m.lost()
	f.must(os.WriteFile(drained, nil, 0o600))
	b := f.machine("b")
	if got := b.done("one", text); got != "the end" {
		t.Errorf("the answer is %q", got)
	}
	if got := f.ledger(); got != "one two" {
		t.Errorf("the calls were made: %s", got)
	}
	if _, err := os.Stat(filepath.Join(b.files(), "one.txt")); err != nil {
		t.Error("the files of the interrupted turn are lost:", err)
	}
}

// watched is a store that calls onResult when the result of a call was recorded.
type watched struct {
	*file.Store
	onResult func()
}

func (w *watched) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	head, err := w.Store.Commit(ctx, c)
	for _, e := range c.Entries {
		if e.Kind == segno.EntryResult && c.Checkpoint == nil {
			w.onResult()
		}
	}
	return head, err
}

// TestAThreadHasOneRun runs a thread while another run has it.
func TestAThreadHasOneRun(t *testing.T) {
	f := newStage(t)
	m, b := f.machine("a"), f.machine("b")
	var second error
	m.Store = &watched{Store: f.store, onResult: func() { _, second = b.run("two", "two") }}
	m.done("one", "one "+acptest.Directive(acptest.Do("one")))
	if !errors.Is(second, agent.ErrRunning) {
		t.Errorf("the second run: %v", second)
	}
	b.done("two", "two")
}

// TestAWorkerThatLostItsThread takes the lease in the middle of a turn, as another worker does after this one was silent for too
// long. Nothing of the turn is recorded on the thread, and its directory is not used again.
func TestAWorkerThatLostItsThread(t *testing.T) {
	f := newStage(t)
	m := f.machine("a")
	m.done("zero", "zero")
	before, err := f.store.Head(t.Context(), "t")
	f.must(err)
	stolen := filepath.Join(f.base, "stolen")
	m.Store = &watched{Store: f.store, onResult: sync.OnceFunc(func() {
		held, err := f.store.LeaseOf(t.Context(), "t")
		f.must(err)
		f.must(f.store.Release(t.Context(), held))
		taken, err := f.store.Acquire(t.Context(), segno.Lease{Thread: "t", Owner: "another worker", Expires: time.Now().Add(time.Hour)})
		f.must(err)
		t.Cleanup(func() { f.must(f.store.Release(context.WithoutCancel(t.Context()), taken)) })
		f.must(os.WriteFile(stolen, nil, 0o600)) // the agent waits for it
	})}
	if _, err := m.run("one", "one "+acptest.Directive(step("one", "one.txt"), acptest.Step{Wait: stolen})); err == nil {
		t.Error("a worker without the lease recorded a turn")
	}
	after, err := f.store.Head(t.Context(), "t")
	f.must(err)
	if after.Head != before.Head {
		t.Errorf("the head moved from %s to %s", before.Head, after.Head)
	}
	if dirs, err := filepath.Glob(filepath.Join(m.dir, "dirs", "*", "*")); err != nil || len(dirs) > 0 {
		t.Errorf("the machine has the directories %q, %v", dirs, err)
	}
}

// TestAnAgentThatDies ends the agent's process in a turn. The proxy starts it again.
func TestAnAgentThatDies(t *testing.T) {
	f := newStage(t)
	m := f.machine("a")
	dies := step("one", "one.txt")
	dies.Strike, dies.Times = "effect", 1
	if got := m.done("one", "one "+acptest.Directive(dies, acptest.Say("the end"))); got != "the end" {
		t.Errorf("the answer is %q", got)
	}
	if got := f.ledger(); got != "one" {
		t.Errorf("the calls were made: %s", got)
	}
}

// TestAnAgentThatFails checks the errors, and that another attempt can succeed.
func TestAnAgentThatFails(t *testing.T) {
	f := newStage(t)
	m := f.machine("a")
	m.Command = []string{filepath.Join(f.base, "missing")}
	if _, err := m.run("one", "one"); segno.KindOf(err) != segno.KindNotFound || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a missing command: %v", err)
	}
	m.Command = []string{"/bin/false"}
	if _, err := m.run("one", "one"); segno.KindOf(err) != segno.KindIO {
		t.Errorf("a command that ends: %v", err)
	}
	m.Command = f.command()
	text := "one " + acptest.Directive(acptest.Step{Fail: "claude.rate_limit", Times: 1}, acptest.Say("the end"))
	if _, err := m.run("one", text); err == nil {
		t.Error("a turn that failed is a success")
	}
	if got := m.done("one", text); got != "the end" {
		t.Errorf("the answer is %q", got)
	}
}

// TestAgentsOfAThreadHaveSeparateHomes runs two agents on one thread, one after the other. Each has a home that was prepared
// for it, without the login of the other one.
func TestAgentsOfAThreadHaveSeparateHomes(t *testing.T) {
	f := newStage(t)
	m := f.machine("a")
	for _, name := range []string{"one", "two", "one"} {
		m.Name = name
		m.PrepareHome = func(_ context.Context, home string) error {
			return os.WriteFile(filepath.Join(home, "login-"+name), nil, 0o600)
		}
		home := filepath.Join(f.base, "home of "+name)
		m.Command = append([]string{"/bin/sh", "-c", `ls "$HOME" >"$0"; exec "$@"`, home}, f.command()...)
		m.done(segno.NewID(), "a prompt "+acptest.Directive(acptest.Say("the end")))
		got, err := os.ReadFile(home)
		f.must(err)
		if string(got) != "login-"+name+"\n" {
			t.Errorf("the home of agent %s has %q", name, got)
		}
	}
}

// TestNothingOfTheAgentOutlivesItsTurn runs an agent that leaves a process in a session of its own, as a server in the
// background is.
func TestNothingOfTheAgentOutlivesItsTurn(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("the system does not tell the environment of a process")
	}
	f := newStage(t)
	m := f.machine("a")
	pidFile := filepath.Join(f.base, "pid")
	m.Command = append([]string{"/bin/sh", "-c", `setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $! >"$0"; exec "$@"`, pidFile}, m.Command...)
	m.done("one", "one "+acptest.Directive(acptest.Say("the end")))
	data, err := os.ReadFile(pidFile)
	f.must(err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	f.must(err)
	if proc.Start(pid) != "" {
		f.must(syscall.Kill(pid, syscall.SIGKILL))
		t.Error("a process of the agent runs after the turn")
	}
}

// TestNothingOfTheWorkerReachesTheAgent checks the environment of the agent.
func TestNothingOfTheWorkerReachesTheAgent(t *testing.T) {
	t.Setenv("DATABASE_PASSWORD", "secret of the worker")
	f := newStage(t)
	m := f.machine("a")
	m.Env = []string{"GIVEN=to the agent", "CLAUDE_CONFIG_DIR=/elsewhere", "HOME=/elsewhere"}
	m.Command[2] = "env > env.txt; " + m.Command[2]
	prepared := 0
	m.PrepareHome = func(_ context.Context, home string) error {
		prepared++
		return os.WriteFile(filepath.Join(home, "login"), []byte("x"), 0o600)
	}
	m.done("one", "one")
	m.done("two", "two")
	data, err := os.ReadFile(filepath.Join(m.files(), "env.txt"))
	f.must(err)
	env := string(data)
	if strings.Contains(env, "secret of the worker") || strings.Contains(env, "/elsewhere") || !strings.Contains(env, "GIVEN=to the agent") ||
		!strings.Contains(env, "HOME="+filepath.Dir(m.files())) {
		t.Errorf("the environment of the agent:\n%s", env)
	}
	if prepared != 1 {
		t.Errorf("the home was prepared %d times", prepared)
	}
}
