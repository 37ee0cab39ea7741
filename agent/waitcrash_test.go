package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/sqlite"
)

// fileClock is a clock that several processes share: a number of hours in a file.
type fileClock struct{ dir string }

func (c fileClock) Now() time.Time {
	var hours int
	data, err := os.ReadFile(filepath.Join(c.dir, "hours"))
	if err == nil {
		_, err = fmt.Sscan(string(data), &hours)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		panic(err)
	}
	return time.Date(2026, 3, 1, 12+hours, 0, 0, 0, time.UTC)
}

func (c fileClock) set(t *testing.T, hours int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, "hours"), []byte(fmt.Sprint(hours)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tripAgent is an agent whose tool books a trip: it pays, sleeps, asks, pays, waits for a signal, and
// pays. Its steps append to a file in dir, and kill the process as o asks for.
func tripAgent(store segno.Store, dir string, o order) *agent.Agent {
	l := ledger{file: ledgerFile(dir), order: o}
	pay := func(ctx context.Context, key, what string) (string, error) {
		return agent.Do(ctx, what, func(context.Context) (string, error) {
			_, err := l.pay(key+"/"+strings.Fields(what)[0], what, true)
			return "paid " + what, err
		})
	}
	trip := agent.NewTool("trip", "books a trip", o.Effect, func(ctx context.Context, inv *agent.Invocation, _ noArgs) (string, error) {
		hotel, err := pay(ctx, inv.Key, "hotel")
		if err != nil {
			return "", err
		}
		agent.Sleep(ctx, time.Hour)
		seat, err := agent.Interrupt(ctx, agent.Ask{Text: "which seat?"})
		if err != nil {
			return "", err
		}
		train, err := pay(ctx, inv.Key, "train "+seat.Text)
		if err != nil {
			return "", err
		}
		sent, err := agent.Await(ctx, "ticket")
		if err != nil {
			return "", err
		}
		meal, err := pay(ctx, inv.Key, "meal")
		return strings.Join([]string{hotel, train, sent.Text, meal}, ", "), err
	})
	return agent.New(agent.Config{Model: offline.New(), Store: store, Tools: []agent.Tool{trip}, Now: fileClock{dir}.Now})
}

// waitInChild runs the trip until it waits, and prints the number of commits.
func waitInChild(ctx context.Context, dir, args string) error {
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
	_, err = tripAgent(g, dir, o).Run(ctx, agent.Input{Thread: thread, Prompt: "call trip {}", Key: "trip", Decide: o.Decide})
	fmt.Println(g.n)
	return errors.Join(err, store.Close())
}

const tripRuns = 4 // the runs of a trip: until each of its waits, and until its end

// TestATripIsKilledAnywhere books a trip in processes of which one is killed with SIGKILL: before or
// after any commit, or before or after a payment. The trip is completed, and each part of it is paid
// once.
func TestATripIsKilledAnywhere(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	type kill struct {
		run int
		order
	}
	var kills []kill
	for run, commits := range trip(t, t.TempDir(), nil, order{}) {
		for n := 1; n <= commits; n++ {
			kills = append(kills, kill{run, order{Commit: "before", N: n}}, kill{run, order{Commit: "after", N: n}})
		}
	}
	for n, run := range []int{0, 2, 3} { // these pay
		kills = append(kills, kill{run, order{Tool: "before", N: n + 1}}, kill{run, order{Tool: "after", N: n + 1}})
	}
	if len(kills) < 20 {
		t.Fatalf("a trip has %d points", len(kills))
	}
	for _, seed := range soak.Seeds(t, 2, 2*len(kills)) {
		i := int(seed % uint64(2*len(kills)))
		k := kills[i%len(kills)]
		k.Effect = []agent.OnLost{agent.LostAsk, agent.LostRetry}[i/len(kills)%2]
		t.Run(fmt.Sprintf("run %d, %s %s%s %d", k.run, k.Effect, k.Commit, k.Tool, k.N), func(t *testing.T) {
			t.Parallel()
			trip(t, t.TempDir(), map[int]order{k.run: k.order}, k.order)
		})
	}
}

// trip runs the trip in processes, with the kills by run, and checks its end. It returns the number of
// commits of each run.
func trip(t *testing.T, dir string, kills map[int]order, o order) (commits []int) {
	t.Helper()
	clock := fileClock{dir}
	var decide []segno.Decision
	for run := range tripRuns {
		n, dead := child(t, "waits", dir, order{Effect: o.Effect, Decide: decide, Commit: kills[run].Commit, Tool: kills[run].Tool, N: kills[run].N})
		commits = append(commits, n)
		if dead != (kills[run].N > 0) {
			t.Errorf("run %d is killed: %v", run, dead)
		}
		for again := dead; again; again = lostTrip(t, dir, o) != nil {
			child(t, "waits", dir, order{Effect: o.Effect, Decide: append(lostTrip(t, dir, o), decide...)})
		}
		r := openTrip(t, dir, o)
		decide = nil
		s, err := r.agent.Status(r.ctx, thread)
		r.ok(err)
		switch run {
		case 0:
			clock.set(t, 1)
		case 1:
			decide = []segno.Decision{respond(s.Interrupts[0], "window")}
		case 2:
			r.ok(r.agent.Signal(r.ctx, thread, "ticket", "1", 42))
		default:
			r.answers("paid hotel, paid train window, 42, paid meal")
			r.paid(dir, "hotel", "train window", "meal")
		}
	}
	return commits
}

// openTrip returns an agent on the trip's store.
func openTrip(t *testing.T, dir string, o order) *rig {
	t.Helper()
	r := after(t, dir, o)
	r.agent = tripAgent(r.store, dir, o)
	return r
}

// lostTrip returns the answer of a person to the question whether a lost call may run again. The
// payments compare keys, so it may.
func lostTrip(t *testing.T, dir string, o order) []segno.Decision {
	t.Helper()
	r := openTrip(t, dir, o)
	s, err := r.agent.Status(r.ctx, thread)
	if segno.KindOf(err) == segno.KindNotFound && err != nil {
		return nil
	}
	r.ok(err)
	for _, i := range s.Interrupts {
		if i.Reason == segno.ReasonUnknown {
			if o.Effect != agent.LostAsk {
				t.Errorf("it asks about a call that it could make again")
			}
			return []segno.Decision{approve(i)}
		}
	}
	return nil
}
