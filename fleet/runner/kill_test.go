package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/fleet/runner"
	"github.com/dalsegno/segno/fleet/workspaces"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/file"
)

// workerArg is the environment variable that makes the test program a worker, which is killed.
const workerArg = "SEGNO_TEST_WORKER"

// worker describes the work of a worker.
type worker struct {
	Store, Cache string
	Command      []string // of an ACP agent
	Ledger       string   // of a Go agent, if there is no command
	Key, Text    string
	Limit        int64 // it kills itself at this operation of the store
	After        bool  // when the operation is done, not before
}

// TestAKilledWorker kills workers with SIGKILL at operations of the store: while they check out, run the agent and commit.
// Another machine then makes the next attempt, until one ends the turn.
func TestAKilledWorker(t *testing.T) {
	for _, seed := range soak.Seeds(t, 1, 200) {
		killWorkers(t, rand.New(rand.NewPCG(seed, 0)))
	}
}

func killWorkers(t *testing.T, random *rand.Rand) {
	f := newStage(t)
	f.acp.Ask = random.IntN(2) == 0 // the runner permits all; then each call waits until its record is durable
	var all []string
	var written segno.Hash
	for turn := range 2 {
		word := "turn" + strconv.Itoa(turn)
		var steps []acptest.Step
		for i := range 3 {
			line := word + strconv.Itoa(i)
			all = append(all, line)
			steps = append(steps, step(line, line+".txt"))
		}
		text := word + " " + acptest.Directive(append(steps, acptest.Say("the end of "+word))...)
		for kill := range 2 {
			name := fmt.Sprintf("killed-%d-%d", turn, kill)
			w := worker{Store: filepath.Join(f.base, "store"), Cache: filepath.Join(f.base, name), Command: f.command(), Key: word, Text: text,
				Limit: random.Int64N(90), After: random.IntN(2) == 0}
			f.kill(w)
			if random.IntN(2) == 0 {
				f.must(os.RemoveAll(w.Cache))
			} else {
				f.must(os.Rename(w.Cache, filepath.Join(f.base, "kept"))) // the next worker is on the same machine
			}
			m := f.machine("kept")
			if kill == 1 || random.IntN(2) == 0 {
				if got := m.done(word, text); got != "the end of "+word {
					t.Errorf("the answer is %q", got)
				}
				written = f.tree()
			}
			m.lost()
		}
	}
	m := f.machine("last")
	m.done("last", "last")
	if got := f.tree(); got != written {
		t.Errorf("the next turn began with other files: %q", list(t, m.files()))
	}
	lines := strings.Fields(f.ledger())
	for _, line := range all {
		n := 0
		for _, x := range lines {
			if x == line {
				n++
			}
		}
		if n == 0 || n > 1 && (f.acp.Ask || !f.reported(line[:len(line)-1])) {
			t.Errorf("the call %s was made %d times; whether the agent asks: %v; ledger %q", line, n, f.acp.Ask, lines)
		}
	}
}

// list returns the names of the files in a directory.
func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// tree returns the files at the head of the thread.
func (f *stage) tree() segno.Hash {
	f.Helper()
	for c, err := range f.store.Checkpoints(f.Context(), segno.CheckpointQuery{Thread: "t", Limit: 1}) {
		f.must(err)
		return c.Tree()
	}
	return segno.Hash{}
}

// reported reports whether an agent received a note about an attempt at a prompt that was interrupted.
func (f *stage) reported(word string) bool {
	f.Helper()
	all, err := acptest.ReadRequests(f.acp.RequestsFile())
	f.must(err)
	return slices.ContainsFunc(all, func(r acptest.Request) bool {
		data, err := json.Marshal(r)
		f.must(err)
		return strings.Contains(string(data), "An earlier attempt at this prompt was interrupted") && strings.Contains(string(data), word)
	})
}

// kill runs a worker until it has killed itself, or has ended the turn. It returns when the agent of the worker has ended.
func (f *stage) kill(w worker) {
	f.Helper()
	arg, err := json.Marshal(w)
	f.must(err)
	cmd := exec.CommandContext(f.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), workerArg+"="+string(arg))
	if out, err := cmd.CombinedOutput(); err != nil {
		if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
			f.Fatalf("the worker failed: %v\n%s", err, out)
		}
	}
	for _, kind := range []string{"agent", "tool"} { // they end when their input ends
		pids, err := f.acp.PIDs(kind)
		f.must(err)
		for _, pid := range pids {
			for proc.Alive(pid, "") && f.Context().Err() == nil {
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // yields
			}
		}
	}
}

// beWorker makes the test program a worker.
func beWorker(ctx context.Context, arg string) error {
	var w worker
	if err := json.Unmarshal([]byte(arg), &w); err != nil {
		return err
	}
	store, err := file.Open(ctx, w.Store, file.Options{})
	if err != nil {
		return err
	}
	killing := &killingStore{Store: store, worker: w}
	cache, err := workspaces.Open(w.Cache, workspaces.Options{Objects: killing.Objects()})
	if err != nil {
		return err
	}
	r := &runner.ACP{Name: "claude", Command: w.Command, Store: killing, Cache: cache, Permissions: runner.Allow}
	if len(w.Command) == 0 {
		_, err = goRunner(killing, cache, w.Ledger).Run(ctx, work("t", w.Key, w.Text))
	} else {
		_, err = r.Run(ctx, work("t", w.Key, w.Text))
	}
	return errors.Join(err, store.Close())
}

// killingStore is a store that kills the process at an operation.
type killingStore struct {
	*file.Store
	worker
	n atomic.Int64
}

func (k *killingStore) op() (done func()) {
	n := k.n.Add(1)
	if n == k.Limit && !k.After {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return func() {
		if n == k.Limit {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
}

func (k *killingStore) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	defer k.op()()
	return k.Store.Commit(ctx, c)
}

func (k *killingStore) Head(ctx context.Context, thread segno.ThreadID) (segno.Head, error) {
	defer k.op()()
	return k.Store.Head(ctx, thread)
}

func (k *killingStore) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	defer k.op()()
	return k.Store.Load(ctx, at, w)
}

func (k *killingStore) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	defer k.op()()
	return k.Store.Acquire(ctx, l)
}

func (k *killingStore) Release(ctx context.Context, l segno.Lease) error {
	defer k.op()()
	return k.Store.Release(ctx, l)
}

func (k *killingStore) Objects() segno.Objects { return killingObjects{k.Store.Objects(), k} }

type killingObjects struct {
	segno.Objects
	k *killingStore
}

func (o killingObjects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	defer o.k.op()()
	return o.Objects.Get(ctx, name)
}

func (o killingObjects) Keep(ctx context.Context, s segno.Staged) error {
	defer o.k.op()()
	return o.Objects.Keep(ctx, s)
}
