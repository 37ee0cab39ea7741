package fleet

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// TestATenantHasItsOwnSlots runs the prompts of two tenants on one worker: each tenant has as many turns at once as its slots.
func TestATenantHasItsOwnSlots(t *testing.T) {
	r := newRig(t)
	other, err := Open(t.Context(), Config{Pool: r.pool, Schema: r.schema, Tenant: "other"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var running [2]atomic.Int64
	var tooMany atomic.Bool
	both := make(chan bool, 1)
	w := r.runner(func(_ context.Context, work Work) (Result, error) {
		n := map[string]int{"": 0, "other": 1}[work.Tenant]
		if running[n].Add(1) > 1 {
			tooMany.Store(true)
		}
		defer running[n].Add(-1)
		if work.Prompt.Text == "wait" {
			<-both // the other tenant runs while this turn does not end
		} else if work.Tenant == "other" {
			select {
			case both <- true:
			default:
			}
		}
		return done("done")
	})
	w.Queues = map[string]int{"": 1, "other": 1}
	r.send(Prompt{Thread: "a0", Text: "wait", Key: "k"})
	for i := 1; i < 5; i++ {
		r.send(Prompt{Thread: fmt.Sprint("a", i), Text: "x", Key: "k"})
		if _, err := other.Send(t.Context(), Prompt{Thread: fmt.Sprint("b", i), Agent: "support", Text: "x", Key: "k"}); err != nil {
			t.Fatal(err)
		}
	}
	r.start(w)
	for i := 1; i < 5; i++ {
		r.await(fmt.Sprint("a", i), "k", StateDone)
		r.await(fmt.Sprint("b", i), "k", StateDone)
	}
	if tooMany.Load() {
		t.Error("a tenant had two turns at once")
	}
}

// TestPrioritiesOrderThreads sends prompts to several threads before the worker starts. It runs them by priority.
func TestPrioritiesOrderThreads(t *testing.T) {
	r := newRig(t)
	for _, priority := range []int{4, 0, 3, 1} {
		r.send(Prompt{Thread: fmt.Sprint(priority), Text: "x", Key: "k", Priority: priority})
	}
	var order log
	w := r.runner(func(_ context.Context, work Work) (Result, error) {
		order.add("%s", work.Thread)
		return done("done")
	})
	w.Slots = 1
	r.start(w)
	r.await("4", "k", StateDone)
	if got := order.String(); got != "1, 0, 3, 4" {
		t.Errorf("the order was %s", got)
	}
}

// TestARefusedPromptOfASealedFleet has a turn of a sealed fleet send a prompt under a key that another prompt has. The turn learns
// why the prompt was refused, and the queue does not contain the key.
func TestARefusedPromptOfASealedFleet(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Key = bytes.Repeat([]byte{7}, 32) })
	r.send(Prompt{Thread: "other", Text: "hello", Key: "secret-key"})
	r.send(Prompt{Thread: "t", Text: "child", Key: "k"})
	stop := r.start(r.Worker(r.with(tool("child", func(ctx context.Context) (string, error) {
		_, err := agent.Child(ctx, segno.Child{Thread: "other", Agent: "support", Prompt: "another", Key: "secret-key"})
		return fmt.Sprint(err), nil
	}))))
	if p := r.await("t", "k", StateDone); !strings.Contains(p.Outcome, `the key "secret-key" was used for another prompt`) {
		t.Errorf("the turn learned %q", p.Outcome)
	}
	stop()
	var jobs, secret int
	err := r.pool.QueryRow(t.Context(), r.sql(`SELECT count(*) FILTER (WHERE kind = 'segno_answer'), count(*) FILTER (WHERE args::text LIKE '%secret%') FROM {}river_job`)).
		Scan(&jobs, &secret)
	if err != nil || jobs == 0 || secret > 0 {
		t.Errorf("%d of the jobs contain the key, %d answer, %v", secret, jobs, err)
	}
}

// TestASealedFleetHasNoTexts verifies that the tables of a fleet with a key contain neither prompts nor answers, keys or agents.
func TestASealedFleetHasNoTexts(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 32)
	r := newRig(t, func(c *Config) { c.Key = key })
	r.send(Prompt{Thread: "t", Agent: "support", Text: "secret-text", Key: "secret-key", Actor: "secret-actor"})
	if again := r.send(Prompt{Thread: "t", Agent: "support", Text: "secret-text", Key: "secret-key", Actor: "secret-actor"}); again.IsNew {
		t.Error("the prompt was sent twice")
	}
	r.start(r.runner(func(context.Context, Work) (Result, error) { return done("secret-answer") }))
	p := r.await("t", "secret-key", StateDone)
	if p.Outcome != "secret-answer" || p.Key != "secret-key" || p.Actor != "secret-actor" {
		t.Errorf("the prompt is %+v", p)
	}
	var raw bytes.Buffer
	conn, err := r.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, table := range []string{"fleet_prompts", "river_job"} {
		if _, err := conn.Conn().PgConn().CopyTo(t.Context(), &raw, r.sql(`COPY {}`+table+` TO STDOUT (FORMAT binary)`)); err != nil {
			t.Fatal(err)
		}
	}
	for _, secret := range []string{"secret", "support"} {
		if raw.Len() == 0 || bytes.Contains(raw.Bytes(), []byte(secret)) {
			t.Errorf("the %d bytes of the tables contain %q", raw.Len(), secret)
		}
	}
	wrong := bytes.Repeat([]byte{8}, 32)
	if _, err := Open(t.Context(), Config{Pool: r.pool, Schema: r.schema, Key: wrong}); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("opening with another key: %v", err)
	}
}
