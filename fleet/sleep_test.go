package fleet

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// TestSleepingThreadsAreRows lets threads sleep for weeks. They cost rows, which the test counts, and neither goroutines nor jobs that run.
func TestSleepingThreadsAreRows(t *testing.T) {
	n := 150
	if soak.IsWhole() {
		n = 100_000
	}
	r := newRig(t)
	agents := r.with(tool("sleep", func(ctx context.Context) (string, error) {
		agent.Sleep(ctx, 1000*time.Hour)
		return "slept", nil
	}))
	w := r.Worker(agents)
	w.Slots = 50
	r.start(w)
	r.send(Prompt{Thread: "first", Text: "hello", Key: "k"})
	r.await("first", "k", StateDone)
	before, bytes := runtime.NumGoroutine(), r.size()
	began := time.Now()
	var senders sync.WaitGroup
	for first := range 4 {
		senders.Go(func() {
			for i := first; i < n; i += 4 {
				if _, err := r.Send(t.Context(), Prompt{Thread: fmt.Sprint("sleeper ", i), Agent: "support", Text: "sleep", Key: "k"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
	r.awaitCount(`SELECT count(*) FROM {}fleet_prompts WHERE state = 'waiting'`, n)
	t.Logf("%d threads fell asleep in %v", n, time.Since(began))
	r.awaitCount(`SELECT count(*) FROM {}river_job WHERE state = 'running'`, 0)
	r.awaitCount(`SELECT count(*) FROM {}river_job WHERE state = 'scheduled'`, n)
	if after := runtime.NumGoroutine(); after > before+100 {
		t.Errorf("%d threads that sleep added %d goroutines", n, after-before)
	}
	r.execute(`DELETE FROM {}river_job WHERE state = 'completed'`) // the queue does so after an hour
	for _, table := range []string{"fleet_prompts", "river_job", "threads", "commits"} {
		r.execute(`VACUUM {}` + table)
	}
	t.Logf("a thread that sleeps has %d bytes in the database", (r.size()-bytes)/int64(n))
	if s, err := r.Status(t.Context()); err != nil || len(s.Open) != 1 || s.Open[0].Count != int64(n) {
		t.Errorf("the status is %+v, %v", s, err)
	}
}

// size returns how many bytes the tables of the fleet occupy, with their indexes.
func (r *rig) size() (sum int64) {
	r.Helper()
	err := r.pool.QueryRow(r.Context(), `SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind = 'r'`, r.schema).Scan(&sum)
	if err != nil {
		r.Fatal(err)
	}
	return sum
}
