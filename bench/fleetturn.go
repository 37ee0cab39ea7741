package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	goagent "github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/fleet"
	"github.com/dalsegno/segno/store/postgres"
)

// wakeBar is the limit of the median time from a wake to the first step.
const wakeBar = 100.0 // ms

// wakeCount is the number of wakes of each kind.
const wakeCount = 200

// wakes measures the time from a wake to the first step, one at a time.
func (t *fleetTest) wakes(ctx context.Context) error {
	alone, inserts, err := riverWakes(ctx, t.url, t.pool, wakeCount)
	if err != nil {
		return err
	}
	t.add("", "fleet: River alone: insert of a job", inserts)
	t.add("", "fleet: River alone, 1 worker: from the insert of a job to its work", alone, late(alone))
	f, err := openFleet(ctx, t.pool)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, n := range []int{1, 2, 4} {
		sent, decided, err := t.fleetWakes(ctx, f, n)
		if err != nil {
			return err
		}
		t.add("", fmt.Sprintf("fleet: %d workers: from the send of a prompt to the model's call", n), sent,
			atMost(wakeBar, milliseconds(sent.median()), "ms"), late(sent), is(sent.over(alone), "× River alone"))
		t.add("", fmt.Sprintf("fleet: %d workers: from a decision to the call that it allows", n), decided,
			atMost(wakeBar, milliseconds(decided.median()), "ms"), late(decided))
	}
	return nil
}

// late is the time that one of a hundred exceeds.
func late(s sample) claim { return is(milliseconds(s.quantile(0.99)), "ms at the 99th of 100") }

// fleetWakes wakes threads of n workers: new threads by a prompt, and waiting threads by a decision.
func (t *fleetTest) fleetWakes(ctx context.Context, f *fleet.Fleet, n int) (sent, decided sample, err error) {
	workers, err := startWorkers(ctx, n, "fleetworker", t.url, "prints")
	if err != nil {
		return nil, nil, err
	}
	steps := followSteps(workers)
	defer func() { err = errors.Join(err, stopWorkers(workers)) }()
	a := goagent.New(goagent.Config{Store: f.Store(), Model: steadyModel{}})
	for i := range wakeCount {
		thread := fmt.Sprintf("sent-%d-%d", n, i)
		took, err := steps.after(ctx, thread, func() error { return send(ctx, f, thread, promptAnswer) })
		if err != nil {
			return nil, nil, err
		}
		sent = append(sent, took)
		asks := fmt.Sprintf("asks-%d-%d", n, i)
		if err := send(ctx, f, asks, promptApprove); err != nil {
			return nil, nil, err
		}
		open, err := question(ctx, a, f, asks)
		if err != nil {
			return nil, nil, err
		}
		took, err = steps.after(ctx, asks, func() error {
			return f.Decide(ctx, asks, segno.Decision{Interrupt: open, Kind: segno.Approve, Actor: "bench"})
		})
		if err != nil {
			return nil, nil, err
		}
		decided = append(decided, took)
	}
	return sent, decided, nil
}

func send(ctx context.Context, f *fleet.Fleet, thread, text string) error {
	_, err := f.Send(ctx, fleet.Prompt{Thread: thread, Agent: "steady", Text: text, Key: "1"})
	return err
}

// question waits until a thread waits, and returns the id of its question.
func question(ctx context.Context, a *goagent.Agent, f *fleet.Fleet, thread string) (string, error) {
	for {
		for p, err := range f.Prompts(ctx, fleet.PromptQuery{Thread: thread}) {
			if err != nil {
				return "", err
			}
			if p.State != fleet.StateWaiting {
				continue
			}
			status, err := a.Status(ctx, thread)
			if err != nil || len(status.Interrupts) != 1 {
				return "", fmt.Errorf("%s has %d questions: %w", thread, len(status.Interrupts), err)
			}
			return status.Interrupts[0].ID, nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return "", err
		}
	}
}

// firstSteps receives the first steps of threads from workers.
type firstSteps struct {
	mu      sync.Mutex
	waiting map[string]chan time.Time
}

func followSteps(workers []*workerProcess) *firstSteps {
	s := &firstSteps{waiting: map[string]chan time.Time{}}
	for _, w := range workers {
		go func() { // it ends with the worker
			for w.lines.Scan() {
				var thread string
				var at int64
				if _, err := fmt.Sscan(w.lines.Text(), &thread, &at); err != nil {
					continue
				}
				s.mu.Lock()
				if c := s.waiting[thread]; c != nil {
					delete(s.waiting, thread)
					c <- time.Unix(0, at)
				}
				s.mu.Unlock()
			}
		}()
	}
	return s
}

// after wakes a thread and returns the time from the begin of the wake to the next step.
func (s *firstSteps) after(ctx context.Context, thread string, wake func() error) (time.Duration, error) {
	if err := pause(ctx, 4*riverFetchCooldown); err != nil {
		return 0, err
	}
	c := make(chan time.Time, 1)
	s.mu.Lock()
	s.waiting[thread] = c
	s.mu.Unlock()
	began := time.Now()
	if err := wake(); err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case at := <-c:
		return at.Sub(began), nil
	}
}

const (
	riverJobCount = 4000 // in the queue before workers start
	turnCount     = 1000
)

// turns measures how many turns a fleet ends in a second, beside River's jobs and the same turns without a fleet.
func (t *fleetTest) turns(ctx context.Context) error {
	alone, err := t.turnsAlone(ctx)
	if err != nil {
		return err
	}
	f, err := openFleet(ctx, t.pool)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, n := range []int{1, 2, 4} {
		var jobs, turns sample
		var jobCPU, turnCPU time.Duration
		var transactions int64
		for round := range min(t.rounds, 3) {
			one, used, err := t.withCPU(func() (time.Duration, error) { return riverJobs(ctx, t.url, t.pool, n, riverJobCount) })
			if err != nil {
				return err
			}
			jobs, jobCPU = append(jobs, one), jobCPU+used
			before, err := t.transactions(ctx)
			if err != nil {
				return err
			}
			one, used, err = t.withCPU(func() (time.Duration, error) { return t.fleetTurns(ctx, f, n, fmt.Sprintf("turn-%d-%d-", n, round)) })
			if err != nil {
				return err
			}
			turns, turnCPU = append(turns, one), turnCPU+used
			after, err := t.transactions(ctx)
			if err != nil {
				return err
			}
			transactions += after - before
		}
		t.add("", fmt.Sprintf("fleet: River alone, %d workers of %d slots: a job, of %d in the queue", n, fleetSlots, riverJobCount), jobs,
			perSecond(jobs, "jobs"), cpuEach(jobCPU, len(jobs)*riverJobCount))
		t.add("", fmt.Sprintf("fleet: %d workers of %d slots: a turn, of %d in the queue", n, fleetSlots, turnCount), turns, perSecond(turns, "turns"),
			cpuEach(turnCPU, len(turns)*turnCount), is(float64(transactions)/float64(len(turns)*turnCount), "transactions per turn, with its send"),
			atMost(1.5, float64(turns.median())/float64(jobs.median()+alone.median()), "× River's job and the turn without a fleet"))
	}
	return nil
}

// withCPU also returns the time of the server's cores.
func (t *fleetTest) withCPU(run func() (time.Duration, error)) (took, used time.Duration, err error) {
	before, err := serverCPU(t.pid)
	if err != nil {
		return 0, 0, err
	}
	if took, err = run(); err != nil {
		return 0, 0, err
	}
	after, err := serverCPU(t.pid)
	return took, after - before, err
}

// transactions returns how many transactions the server has ended.
func (t *fleetTest) transactions(ctx context.Context) (n int64, err error) {
	// A session reports its transactions when it has been idle for a second, or ends.
	err = errors.Join(pause(ctx, 1500*time.Millisecond), t.pool.QueryRow(ctx, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()").Scan(&n))
	return n, err
}

// fleetTurns returns the time per turn of n workers. The CPU of the server includes the sends.
func (t *fleetTest) fleetTurns(ctx context.Context, f *fleet.Fleet, n int, prefix string) (time.Duration, error) {
	for i := range turnCount {
		if err := send(ctx, f, prefix+strconv.Itoa(i), promptAnswer); err != nil {
			return 0, err
		}
	}
	workers, err := startWorkers(ctx, n, "fleetworker", t.url, "silent")
	if err != nil {
		return 0, err
	}
	from := fmt.Sprintf(" FROM %s.fleet_prompts WHERE thread >= '%[2]s' AND thread < '%[2]s~' AND state = 'done'", fleetSchema, prefix)
	return perItem(ctx, t.pool, "SELECT count(*)"+from, "SELECT ended"+from, turnCount, workers)
}

// turnsAlone measures the same turns in this process, without prompts in a mailbox and without jobs.
func (t *fleetTest) turnsAlone(ctx context.Context) (sample, error) {
	store, err := postgres.Open(ctx, t.url+"&pool_max_conns="+strconv.Itoa(2*fleetSlots), postgres.Options{Schema: "alone"})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	var times sample
	var cpu time.Duration
	for round := range min(t.rounds, 3) {
		one, used, err := t.withCPU(func() (time.Duration, error) {
			began := time.Now()
			err := parallel(turnCount, func(i int) error {
				_, err := steadyAgent(store, false).Run(ctx, goagent.Input{Thread: fmt.Sprintf("alone-%d-%d", round, i), Prompt: promptAnswer, Key: "1"})
				return err
			})
			return time.Since(began) / turnCount, err
		})
		if err != nil {
			return nil, err
		}
		times, cpu = append(times, one), cpu+used
	}
	t.add("", fmt.Sprintf("fleet: without a fleet: a turn, of %d by %d goroutines", turnCount, fleetSlots), times, perSecond(times, "turns"), cpuEach(cpu, len(times)*turnCount))
	return times, nil
}

// parallel calls run n times, in as many goroutines as a worker has slots.
func parallel(n int, run func(i int) error) error {
	var group sync.WaitGroup
	errs := make([]error, fleetSlots)
	for k := range fleetSlots {
		group.Go(func() {
			for i := k; i < n && errs[k] == nil; i += fleetSlots {
				errs[k] = run(i)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
