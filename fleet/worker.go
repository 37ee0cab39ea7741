package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/fleet/internal/schedule"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
)

// Worker runs the turns of a fleet's threads. Its fields are set before [Worker.Run].
type Worker struct {
	// Runners run the turns of other agents, by name.
	Runners map[string]Runner
	// Slots is how many turns run at once, unless Queues is set; 0 is 10.
	Slots int
	// Queues has the tenants that the worker serves, and for each one how many of its turns run at once. nil is the tenant of the
	// fleet, with Slots. If the store has tenants, a worker serves that one only.
	Queues map[string]int
	// LeaseTime is how long a worker that is not seen keeps its turns; 0 is 30 s. It is the same for all workers.
	LeaseTime time.Duration
	// MaxAttempts is how often a turn fails before it is parked; 0 is 5.
	MaxAttempts int
	// Retry is the pause after the first failure; 0 is 5 s. It doubles with each failure, up to five minutes.
	Retry time.Duration
	// Drain is how long the turns may continue after ctx ends; 0 is 30 s. They are then cut after their last step, and another
	// worker continues them.
	Drain time.Duration

	fleet  *Fleet
	agents map[string]*agent.Agent
	id     string
	client *river.Client[pgx.Tx]

	mu   sync.Mutex
	jobs map[int64]time.Time // that run; and when those that ran recently ended
}

// Worker returns a worker for agents, by the name in [Prompt.Agent]. Their store must be [Fleet.Store].
func (f *Fleet) Worker(agents map[string]*agent.Agent) *Worker {
	return &Worker{fleet: f, agents: agents, jobs: map[int64]time.Time{}}
}

// Run works until ctx ends, drains, and returns nil. A worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	if w.client != nil {
		return segno.Errorf(segno.KindInvalid, "run worker", w.id, "it has run before")
	}
	for tenant := range w.Queues {
		if w.fleet.hasTenants && tenant != w.fleet.config.Tenant {
			return segno.Errorf(segno.KindRefused, "run worker", tenant, "the store has tenants, and a worker serves one").WithHint("start a worker for each tenant")
		}
	}
	w.id = segno.NewID()
	w.LeaseTime, w.Drain = cmp.Or(w.LeaseTime, 30*time.Second), cmp.Or(w.Drain, 30*time.Second)
	workers := river.NewWorkers()
	river.AddWorker(workers, &threadWorker{worker: w, scheduler: w.scheduler()})
	river.AddWorker(workers, &answerWorker{worker: w})
	river.AddWorker(workers, &cronWorker{worker: w})
	client, err := river.NewClient(riverpgxv5.New(w.fleet.pool), &river.Config{
		ID: w.id, Schema: w.fleet.schema, Logger: w.fleet.queueLog, Queues: w.queues(), Workers: workers,
		FetchCooldown: 5 * time.Millisecond, JobTimeout: -1, RescueStuckJobsAfter: rescueAfter, SoftStopTimeout: w.Drain,
		CompletedJobRetentionPeriod: time.Hour, RetryPolicy: retryPolicy{},
	})
	if err != nil {
		return segno.NewError(segno.KindInvalid, "run worker", "", err)
	}
	w.client = client
	if err := w.fleet.store.InTx(context.WithoutCancel(ctx), "run worker", w.id, w.insert); err != nil {
		return err
	}
	beats, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var group sync.WaitGroup
	group.Go(func() { w.beat(beats) })
	err = client.Start(ctx)
	if err == nil {
		<-client.Stopped()
	}
	stop()
	group.Wait()
	if ctx.Err() != nil {
		err = nil // it ended while the worker started
	}
	if err != nil {
		err = segno.NewError(segno.KindIO, "run worker", "", err).WithHint("check that the database can be reached, then try again")
	}
	return errors.Join(w.fleet.store.InTx(context.WithoutCancel(ctx), "run worker", w.id, w.unregister), err)
}

// rescueAfter is when the queue itself gives a job to another worker. The fleet does so much earlier, see [Worker.replaceJobs].
const rescueAfter = 7 * 24 * time.Hour

// retryPolicy is that of jobs whose function panicked: prompts have separate pauses.
type retryPolicy struct{}

// NextRetry implements [river.ClientRetryPolicy].
func (retryPolicy) NextRetry(*rivertype.JobRow) time.Time { return time.Now().Add(10 * time.Second) }

func (w *Worker) queues() map[string]river.QueueConfig {
	tenants := w.Queues
	if tenants == nil {
		tenants = map[string]int{w.fleet.config.Tenant: cmp.Or(w.Slots, 10)}
	}
	queues := map[string]river.QueueConfig{}
	for tenant, slots := range tenants {
		queues[QueueOf(tenant)] = river.QueueConfig{MaxWorkers: slots}
	}
	return queues
}

func (w *Worker) scheduler() *schedule.Scheduler {
	return &schedule.Scheduler{
		Mailbox: mailbox{w.fleet, w.id, w.expiry()}, Runner: promptRunner{w}, Log: w.fleet.log, Outage: time.Second,
		IsHeld: func(err error) bool { return errors.Is(err, agent.ErrRunning) || segno.KindOf(err) == segno.KindFenced },
		Policy: schedule.Policy{MaxAttempts: cmp.Or(w.MaxAttempts, 5), FirstPause: cmp.Or(w.Retry, 5*time.Second), MaxPause: 5 * time.Minute},
	}
}

// threadWorker works the jobs of the queue.
type threadWorker struct {
	river.WorkerDefaults[threadJob]
	worker    *Worker
	scheduler *schedule.Scheduler
}

// Work implements [river.Worker].
func (t *threadWorker) Work(ctx context.Context, job *river.Job[threadJob]) error {
	defer t.worker.track(job.ID)()
	args := job.Args
	a := &attempt{prompt: PromptState{Prompt: Prompt{Thread: args.Thread}}, due: job.ScheduledAt}
	defer t.worker.fleet.end(ctx, a)
	verdict := t.scheduler.Work(context.WithValue(context.WithValue(ctx, jobKey{}, job.JobRow), attemptKey{}, a),
		schedule.Job{ID: job.ID, Thread: args.Thread, Seq: args.Seq, Wake: args.Wake, Replaces: args.Replaces})
	if verdict.IsAgain {
		return river.JobSnooze(verdict.Pause)
	}
	return nil
}

// track records that a job runs. The function that it returns records that the job has ended.
func (w *Worker) track(job int64) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs[job] = time.Time{}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.jobs[job] = time.Now()
	}
}

// jobKey is the key of the job's row in the context of an attempt.
type jobKey struct{}

func jobOf(ctx context.Context) *rivertype.JobRow { return ctx.Value(jobKey{}).(*rivertype.JobRow) }

// promptRunner implements [schedule.Runner] with the runners of a worker.
type promptRunner struct{ w *Worker }

// Run implements [schedule.Runner].
func (r promptRunner) Run(ctx context.Context, job *schedule.Job, f *schedule.Front) (_ schedule.Result, err error) {
	fleet := r.w.fleet
	prompts, err := fleet.prompts(ctx, PromptQuery{Thread: job.Thread, Before: f.N + 1, Limit: 1})
	if err != nil {
		return schedule.Result{}, err
	}
	if len(prompts) == 0 || prompts[0].N != f.N {
		return schedule.Result{}, segno.Errorf(segno.KindNotFound, "run prompt", job.Thread, "prompt %d was deleted", f.N)
	}
	p, a := prompts[0], attemptOf(ctx)
	ctx, span := fleet.begin(ctx, a, &p, f.Attempt)
	defer func() {
		if p := recover(); p != nil {
			// The queue would repeat the job without counting the attempt, and store and log the value, which may contain a part of the prompt.
			fleet.log.ErrorContext(ctx, "a runner panicked", append(a.fields(), "stack", string(debug.Stack()))...)
			err = segno.Errorf(segno.KindInternal, "run prompt", a.prompt.Agent, "the runner panicked: %v", p)
		}
		a.err = err
		endSpan(span, err)
	}()
	run, err := r.w.runner(p.Agent)
	if err != nil {
		return schedule.Result{}, err
	}
	result, err := run.Run(ctx, Work{Thread: p.Thread, Prompt: p.Prompt, N: p.N, Tenant: p.Tenant, Attempt: f.Attempt, HasWaited: f.State == schedule.Waiting})
	return schedule.Result{IsWaiting: result.Phase == agent.PhaseWaiting, IsUndone: result.isUndone, Wake: result.Wake, Text: result.Text}, err
}

func (w *Worker) runner(name string) (Runner, error) {
	if r, ok := w.Runners[name]; ok {
		return r, nil
	}
	if a, ok := w.agents[name]; ok {
		return agentRunner{w.fleet, a}, nil
	}
	return nil, segno.Errorf(segno.KindNotFound, "run prompt", name, "this worker has no such agent").WithHint("start a worker that has it")
}

// insert adds the worker to the table of workers.
func (w *Worker) insert(ctx context.Context, tx pgx.Tx) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	queues, err := json.Marshal(w.queues())
	if err != nil {
		return segno.NewError(segno.KindInternal, "run worker", w.id, err)
	}
	_, err = tx.Exec(ctx, w.fleet.sql(`INSERT INTO {}fleet_workers (id, host, pid, lease, queues, agents)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`), w.id, host, os.Getpid(), w.expiry(), queues, w.names())
	return err
}

// names returns the names of the agents that the worker runs, in order.
func (w *Worker) names() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(w.agents)), maps.Keys(w.Runners))
	slices.Sort(names)
	return slices.Compact(names)
}

func (w *Worker) unregister(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, w.fleet.sql(`DELETE FROM {}fleet_workers WHERE id = $1`), w.id)
	return err
}

// expiry is how long a worker is unseen before others take its jobs. Together with the time between two beats it is below LeaseTime.
func (w *Worker) expiry() time.Duration { return w.LeaseTime * 2 / 3 }
