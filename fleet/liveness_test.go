package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// TestJobsOfDeadWorkersAreReplaced makes jobs look as if their worker had died: before it claimed the prompt, during the turn, and too
// often. A job of the living worker looks as if its acknowledgement had been lost.
func TestJobsOfDeadWorkersAreReplaced(t *testing.T) {
	r := newRig(t)
	const running = `UPDATE {}river_job SET state = 'running', attempt = 1, attempted_at = now() - interval '1 hour', attempted_by = ARRAY[$2] WHERE args->>'thread' = $1`
	const claimed = `UPDATE {}fleet_prompts SET state = 'running', begun = true, worker = $2, attempts = $3,
		claim = (SELECT id FROM {}river_job WHERE args->>'thread' = $1) WHERE thread = convert_to($1, 'UTF8')`
	for _, thread := range []string{"unclaimed", "claimed", "poison"} {
		r.send(Prompt{Thread: thread, Text: "x", Key: "k"})
		r.execute(running, thread, "dead")
	}
	r.execute(claimed, "claimed", "dead", 2)
	r.execute(claimed, "poison", "dead", 3)
	attempts := make(chan int, 10)
	w := r.runner(func(_ context.Context, work Work) (Result, error) {
		attempts <- work.Attempt
		return done("done")
	})
	w.LeaseTime, w.MaxAttempts = 12*time.Second, 3
	r.start(w)
	for _, thread := range []string{"unclaimed", "claimed"} {
		r.await(thread, "k", StateDone)
	}
	if sum := <-attempts + <-attempts; sum != 1+3 {
		t.Errorf("the attempts are numbered %d in all", sum)
	}
	if p := r.await("poison", "k", StateParked); p.Attempts != 3 || p.Error == "" {
		t.Errorf("the prompt whose workers died is %+v", p)
	}
	if s, err := r.Status(t.Context()); err != nil || len(s.Workers) != 1 || len(s.Open) != 1 || s.Open[0].State != StateParked || s.Open[0].Count != 1 {
		t.Errorf("the status is %+v, %v", s, err)
	}
	// The worker is alive and does not run this job.
	r.send(Prompt{Thread: "lost", Text: "x", Key: "k", At: time.Now().Add(time.Hour)})
	r.execute(`UPDATE {}fleet_prompts SET next = NULL WHERE thread = 'lost'`)
	r.execute(running, "lost", w.id)
	r.execute(claimed, "lost", w.id, 1)
	r.await("lost", "k", StateDone)
	if attempt := <-attempts; attempt != 1 {
		t.Errorf("a lost acknowledgement counted as attempt %d", attempt-1)
	}
}

// TestADeadWorkerAfterTheClockWasSetBack lets a worker die, and sets the clock of the server back by an hour. The worker was last seen in
// the future then, and its turn continues on another worker all the same.
func TestADeadWorkerAfterTheClockWasSetBack(t *testing.T) {
	r := newRig(t)
	r.send(Prompt{Thread: "t", Agent: "support", Text: "hi", Key: "k"})
	r.execute(`UPDATE {}river_job SET state = 'running', attempt = 1, attempted_at = now() + interval '1 hour', attempted_by = ARRAY['dead']`)
	r.execute(`UPDATE {}fleet_prompts SET state = 'running', begun = true, attempts = 1, worker = 'dead', claim = (SELECT id FROM {}river_job)`)
	r.execute(`INSERT INTO {}fleet_workers (id, host, pid, seen, lease, queues, agents) VALUES ('dead', 'host', 1, now() + interval '1 hour', interval '2 seconds', 'null', ARRAY['support'])`)
	w := r.runner(func(context.Context, Work) (Result, error) { return done("done") })
	w.LeaseTime = 3 * time.Second
	r.start(w)
	r.await("t", "k", StateDone)
	status, err := r.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range status.Workers {
		if x.Alive != (x.ID != "dead") {
			t.Errorf("the status of the worker %s is %+v", x.ID, x)
		}
	}
}

// TestAReplacedJobDoesNotClaim works a job that another worker replaced while this one was stopped. The queue no longer has the job, so
// that nothing would repeat it. The prompt is left to the other job.
func TestAReplacedJobDoesNotClaim(t *testing.T) {
	r := newRig(t)
	attempts := make(chan int, 10)
	w := r.runner(func(_ context.Context, work Work) (Result, error) {
		attempts <- work.Attempt
		return done("done")
	})
	r.start(w)
	r.send(Prompt{Thread: "t", Text: "x", Key: "k", At: time.Now().Add(time.Hour)})
	r.execute(`UPDATE {}fleet_prompts SET next = NULL`)
	replaced := &river.Job[threadJob]{JobRow: &rivertype.JobRow{ID: 1 << 40}, Args: threadJob{Thread: "t"}}
	if err := (&threadWorker{worker: w, scheduler: w.scheduler()}).Work(t.Context(), replaced); err != nil {
		t.Errorf("the replaced job ends with %v", err)
	}
	if len(attempts) > 0 {
		t.Error("the replaced job ran the prompt")
	}
	r.execute(`UPDATE {}river_job SET state = 'available', scheduled_at = now() WHERE args->>'thread' = 't'`)
	r.await("t", "k", StateDone)
	if attempt := <-attempts; attempt != 1 {
		t.Errorf("the prompt is done by attempt %d", attempt)
	}
}
