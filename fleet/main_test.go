package fleet

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"
)

// server is the PostgreSQL server of the tests.
var server *serverrig.Server

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("nothing is run with -short: servers are installed from the network")
		os.Exit(0)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	var err error
	if server, err = serverrig.Postgres(ctx, "", serverrig.PostgresNoSync()...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cancel()
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var schemas atomic.Int64

// rig is a fleet in a new schema.
type rig struct {
	*testing.T
	*Fleet
}

func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	c := Config{Pool: newPool(t), Schema: fmt.Sprintf("fleet_%d", schemas.Add(1))}
	for _, change := range change {
		change(&c)
	}
	f, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &rig{t, f}
}

func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), server.URL+"&synchronous_commit=off&pool_max_conns=8")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// agent returns an agent on the fleet's store.
func (r *rig) agent(change ...func(*agent.Config)) *agent.Agent {
	c := agent.Config{Name: "support", Model: offline.New(), Store: r.Store()}
	for _, change := range change {
		change(&c)
	}
	return agent.New(c)
}

// start starts a worker. The function that it returns drains the worker; the end of the test does so, too.
func (r *rig) start(w *Worker) (stop func()) {
	r.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	done := false
	stop = func() {
		if cancel(); done {
			return
		}
		done = true
		if err := <-ended; err != nil {
			r.Errorf("the worker ended with %v", err)
		}
	}
	r.Cleanup(stop)
	return stop
}

func (r *rig) send(p Prompt) Sent {
	r.Helper()
	if p.Agent == "" {
		p.Agent = "support"
	}
	sent, err := r.Send(r.Context(), p)
	if err != nil {
		r.Fatal(err)
	}
	return sent
}

// await waits until a prompt is in a state, and returns it.
func (r *rig) await(thread, key string, state State) PromptState {
	r.Helper()
	return r.awaitThat(thread, key, func(p *PromptState) bool { return p.State == state })
}

// awaitThat waits until a prompt fulfils a condition, for at most five minutes.
func (r *rig) awaitThat(thread, key string, ok func(*PromptState) bool) (p PromptState) {
	r.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if p = r.prompt(thread, key); ok(&p) {
			return p
		}
		if time.Now().After(deadline) {
			r.Fatalf("the prompt stays %+v", p)
		}
	}
}

func (r *rig) prompt(thread, key string) PromptState {
	r.Helper()
	for p, err := range r.Prompts(r.Context(), PromptQuery{Thread: thread, Key: key}) {
		if err != nil {
			r.Fatal(err)
		}
		return p
	}
	r.Fatalf("the thread %s has no prompt %s", thread, key)
	return PromptState{}
}

// execute changes the database without the fleet.
func (r *rig) execute(query string, args ...any) {
	r.Helper()
	if _, err := r.pool.Exec(r.Context(), r.sql(query), append([]any{pgx.QueryExecModeExec}, args...)...); err != nil {
		r.Fatal(err)
	}
}
