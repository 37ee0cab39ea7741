package runner_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/fleet"
	"github.com/dalsegno/segno/fleet/runner"
	"github.com/dalsegno/segno/fleet/workspaces"
	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// TestAFleetRunsAnAgent runs an agent that asks for permission behind workers of a fleet on PostgreSQL. The second worker,
// on another machine, receives the decision and the second prompt.
func TestAFleetRunsAnAgent(t *testing.T) {
	if testing.Short() || !soak.IsDrawn(t) {
		return // it starts a server
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	f := newStage(t)
	f.acp.Ask = true
	server, err := serverrig.Postgres(ctx, "", serverrig.PostgresNoSync()...)
	f.must(err)
	defer func() { f.must(server.Stop()) }()
	pool, err := pgxpool.New(ctx, server.URL)
	f.must(err)
	defer pool.Close()
	fl, err := fleet.Open(ctx, fleet.Config{Pool: pool})
	f.must(err)
	defer fl.Close()

	results := make(chan fleet.Result, 10)
	start := func(name string) (stop func()) {
		cache, err := workspaces.Open(filepath.Join(f.base, name), workspaces.Options{Objects: fl.Store().Objects()})
		f.must(err)
		w := fl.Worker(nil)
		w.Runners = map[string]fleet.Runner{"claude": observed{&runner.ACP{Name: "claude", Command: f.command(), Store: fl.Store(), Cache: cache}, results}}
		running, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- w.Run(running) }()
		return func() { cancel(); f.must(<-ended) }
	}
	send := func(key, text string) {
		_, err := fl.Send(ctx, fleet.Prompt{Thread: "t", Agent: "claude", Key: key, Text: text})
		f.must(err)
	}
	next := func(phase agent.Phase, text string) {
		t.Helper()
		select {
		case r := <-results:
			if r.Phase != phase || !strings.Contains(r.Text, text) {
				t.Errorf("the result is %+v, want %s, %q", r, phase, text)
			}
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
	}

	stop := start("a")
	send("one", "one "+acptest.Directive(step("one", "one.txt"), acptest.Say("the end of one")))
	next(agent.PhaseWaiting, "append one")
	stop()
	stop = start("b")
	head, err := fl.Store().Head(ctx, "t")
	f.must(err)
	line, err := fl.Store().Load(ctx, head.Head, segno.Window{Last: 1, Entries: true})
	f.must(err)
	f.must(fl.Decide(ctx, "t", segno.Decision{Interrupt: line.Commits[0].Entries[0].ID, Kind: segno.Approve}))
	next(agent.PhaseDone, "the end of one")
	send("two", "two "+acptest.Directive(acptest.Say("the end of two")))
	next(agent.PhaseDone, "the end of two")
	stop()
	if got := f.ledger(); got != "one" {
		t.Errorf("the calls were made: %s", got)
	}
	if !strings.Contains(f.heard(), "the end of one") {
		t.Errorf("the model does not see the first turn: %s", f.heard())
	}
}

// observed is a runner that reports its results.
type observed struct {
	fleet.Runner
	results chan<- fleet.Result
}

func (o observed) Run(ctx context.Context, w fleet.Work) (fleet.Result, error) {
	r, err := o.Runner.Run(ctx, w)
	if err == nil {
		o.results <- r
	}
	return r, err
}
