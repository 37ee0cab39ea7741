package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/store/file"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/store/sqlite"
)

// faulty is a store. Each of its operations may fail, before it takes effect or after.
type faulty struct {
	lessor
	mu   sync.Mutex
	rnd  *rand.Rand
	one  int // an operation fails once in so many; 0 is never
	left int // of an outage: how many operations fail yet
	made int // faults
}

var faultKinds = []segno.Kind{segno.KindIO, segno.KindIO, segno.KindBusy, segno.KindCancelled, segno.KindInternal}

// fault decides about one operation.
func (f *faulty) fault() (before, after error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.one == 0 {
		return nil, nil
	}
	if f.left == 0 && f.rnd.IntN(f.one) == 0 {
		f.left = 1 + f.rnd.IntN(1+f.rnd.IntN(12))
	}
	if f.left == 0 {
		return nil, nil
	}
	f.left--
	f.made++
	err := &segno.Error{Op: "reach store", Kind: faultKinds[f.rnd.IntN(len(faultKinds))], Err: errors.New("a fault of the test")}
	if f.rnd.IntN(2) == 0 {
		return err, nil
	}
	return nil, err
}

func faultily[T any](f *faulty, op func() (T, error)) (T, error) {
	var none T
	before, after := f.fault()
	if before != nil {
		return none, before
	}
	got, err := op()
	if err == nil && after != nil {
		return none, after
	}
	return got, err
}

func (f *faulty) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	return faultily(f, func() (segno.Head, error) { return f.lessor.Commit(ctx, c) })
}

func (f *faulty) Head(ctx context.Context, id segno.ThreadID) (segno.Head, error) {
	return faultily(f, func() (segno.Head, error) { return f.lessor.Head(ctx, id) })
}

func (f *faulty) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	return faultily(f, func() (*segno.Line, error) { return f.lessor.Load(ctx, at, w) })
}

func (f *faulty) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	return faultily(f, func() (segno.Lease, error) { return f.lessor.Acquire(ctx, l) })
}

func (f *faulty) Held(ctx context.Context, id segno.ThreadID) (segno.Lease, error) {
	return faultily(f, func() (segno.Lease, error) { return f.lessor.Held(ctx, id) })
}

func (f *faulty) Release(ctx context.Context, l segno.Lease) error {
	_, err := faultily(f, func() (bool, error) { return true, f.lessor.Release(ctx, l) })
	return err
}

// flaky is a model that sometimes fails transiently. If the model of a subagent refuses,
// the subagent's task has failed, and the agent goes on without it.
type flaky struct {
	agent.Model
	f *faulty
}

func (m flaky) Generate(ctx context.Context, q agent.Request) iter.Seq2[agent.Chunk, error] {
	if before, after := m.f.fault(); before != nil || after != nil {
		return func(yield func(agent.Chunk, error) bool) {
			yield(agent.Chunk{}, &agent.ModelError{Retry: true, Err: errors.New("a fault of the test")})
		}
	}
	return m.Model.Generate(ctx, q)
}

// TestACallerThatRunsAgainOnAnyErrorFinishesOnce gives tasks to an agent over a store and a
// model that fail at random, and after any error gives the same input again. Every task is
// finished, and each of its effects happens once. Under SEGNO_SOAK there are 1,000 seeds
// on each store.
func TestACallerThatRunsAgainOnAnyErrorFinishesOnce(t *testing.T) {
	seeds := 25
	if os.Getenv("SEGNO_SOAK") != "" {
		seeds = 1000
	}
	stores := map[string]func(t *testing.T) lessor{
		"memory": func(*testing.T) lessor { return memory.New(nil) },
		"kv": func(t *testing.T) lessor {
			s, err := kv.Open(kv.NewMap(nil), kv.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"file": func(t *testing.T) lessor {
			s, err := file.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"sqlite": func(t *testing.T) lessor {
			s, err := sqlite.Open(filepath.Join(t.TempDir(), "agent.db"))
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, faults := open(t), 0
			t.Cleanup(func() { store.Close() })
			for seed := range seeds {
				faults += faultyTask(t, store, name, seed)
			}
			if faults < seeds {
				t.Errorf("%d faults in %d tasks", faults, seeds)
			}
		})
	}
}

// faultyTask runs one task on a separate thread and returns the number of faults it met.
func faultyTask(t *testing.T, store lessor, name string, seed int) (faults int) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(uint64(seed), 1))
	f := &faulty{lessor: store, rnd: rnd, one: 4 + rnd.IntN(40)}
	paid := newPayments()
	c := agent.Config{Model: flaky{offline.New(), f}, Store: f, Tools: append(tool.Standard(), paid.tool("pay", agent.LostAsk), paid.tool("transfer", agent.LostRetry)),
		Subagents: []agent.Subagent{{Name: "helper", Description: "helps"}},
		Retry:     agent.Retry{Attempts: 2, Wait: time.Microsecond}, StoreRetry: agent.Retry{Attempts: 4, Wait: time.Microsecond}}
	if rnd.IntN(2) == 0 {
		c.Approve = agent.Ask("pay", "transfer")
		c.Answer = func(_ context.Context, open []segno.Interrupt) (yes []segno.Decision, err error) {
			for _, i := range open {
				if i.Reason == segno.ReasonUnknown {
					t.Errorf("%s, seed %d: a person is asked about a call whose result the process holds: %s", name, seed, i.Args)
				}
				yes = append(yes, segno.Decision{Interrupt: i.ID, Kind: segno.Approve})
			}
			return yes, nil
		}
	}
	a := agent.New(c)
	prompt, bills := faultyPrompt(rnd)
	in := agent.Input{Thread: fmt.Sprint("thread ", seed), Prompt: prompt, Key: "k"}
	const many = 500
	for n := 1; ; n++ {
		out, err := a.Do(t.Context(), in)
		if err == nil && len(out.Interrupts) == 0 {
			break
		}
		if n == many {
			t.Fatalf("%s, seed %d: after %d runs it ends with %v, %+v", name, seed, n, err, out.Interrupts)
		}
	}
	f.one = 0
	if got := paid.all(); !slices.Equal(got, bills) {
		t.Errorf("%s, seed %d: paid %q, want %q", name, seed, got, bills)
	}
	s, err := a.Status(t.Context(), in.Thread)
	if err != nil || s.Phase != agent.PhaseDone || s.Turn != 1 || s.Outcome.Text == "" {
		t.Errorf("%s, seed %d: the status is %+v, %v", name, seed, s, err)
	}
	said, err := a.Messages(t.Context(), in.Thread, "")
	if err != nil || len(said) == 0 || said[0].Text() != prompt {
		t.Errorf("%s, seed %d: the thread begins with %+v, %v", name, seed, said, err)
	}
	for _, m := range said[min(1, len(said)):] {
		if m.Role == agent.User {
			t.Errorf("%s, seed %d: the prompt is there again: %q", name, seed, m.Text())
		}
	}
	return f.made
}

// faultyPrompt is a task of a few steps, some with several calls and some for a subagent.
func faultyPrompt(rnd *rand.Rand) (prompt string, bills []string) {
	var steps []string
	for i := range 1 + rnd.IntN(4) {
		var calls []string
		for j := range 1 + rnd.IntN(3) {
			bill := fmt.Sprintf("%d.%d", i, j)
			bills = append(bills, bill)
			calls = append(calls, fmt.Sprintf(`call %s {"to":%q}`, [...]string{"pay", "transfer"}[rnd.IntN(2)], bill))
		}
		step := strings.Join(calls, " ; ")
		if rnd.IntN(4) == 0 {
			step = delegated(step)
		}
		steps = append(steps, step)
	}
	slices.Sort(bills)
	return strings.Join(steps, "\n") + "\nwrite done.txt: yes", bills
}

// payments are what tools with consequences did, by their idempotency keys.
type payments struct {
	mu   sync.Mutex
	to   []string
	keys map[string]bool
}

func newPayments() *payments { return &payments{keys: map[string]bool{}} }

func (p *payments) tool(name string, onLost agent.OnLost) agent.Tool {
	return agent.NewTool(name, "pays once", onLost, func(_ context.Context, inv *agent.Invocation, m mail) (string, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if onLost != agent.LostRetry || !p.keys[inv.Key] {
			p.to = append(p.to, m.To)
		}
		p.keys[inv.Key] = true
		return "paid " + m.To, nil
	})
}

func (p *payments) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(slices.Values(p.to))
}
