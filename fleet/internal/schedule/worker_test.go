package schedule_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dalsegno/segno/fleet/internal/schedule"
)

// worker is a process with a client of River, as its producer.go runs jobs.
type worker struct {
	sim       *simulation
	scheduler schedule.Scheduler
	notified  chan struct{}
	ctx       context.Context // ends with the process
	kill      context.CancelFunc
	died      time.Duration // when it was killed, or 0; guarded by simulation.mu

	mu        sync.Mutex
	running   map[int64]queuedJob
	completed []queuedJob
	isWanting bool // it could fetch more jobs than it had slots for
}

func (s *simulation) startWorker() *worker {
	w := &worker{sim: s, notified: make(chan struct{}, 1), running: map[int64]queuedJob{}}
	w.ctx, w.kill = context.WithCancel(s.ctx)
	w.scheduler = schedule.Scheduler{Mailbox: mailbox{w}, Runner: runner{w}, Policy: s.policy, IsHeld: isHeld,
		Outage: time.Second, Log: s.log}
	s.queue.mu.Lock()
	s.queue.listeners[w] = true
	s.queue.mu.Unlock()
	s.group.Go(w.run)
	return w
}

// wake makes the worker fetch.
func (w *worker) wake() {
	select {
	case w.notified <- struct{}{}:
	default:
	}
}

// run fetches jobs when it is notified and at each interval of polls, at most once per cooldown.
func (w *worker) run() {
	jitter := func() time.Duration { return w.sim.poll + rand.N(w.sim.poll/10) }
	poll := time.NewTimer(rand.N(w.sim.poll))
	defer poll.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.notified:
		case <-poll.C:
			poll.Reset(jitter())
		}
		began := w.sim.now()
		w.fetch()
		select {
		case <-w.ctx.Done():
			return
		case <-time.After(w.sim.cooldown - (w.sim.now() - began)):
		}
	}
}

func (w *worker) fetch() {
	w.mu.Lock()
	free := w.sim.slots - len(w.running)
	w.isWanting = free <= 0
	w.mu.Unlock()
	if free <= 0 {
		return
	}
	jobs := w.sim.queue.fetch(w.sim.now(), free)
	if len(jobs) == 0 {
		w.sim.server.execute(costPoll, 0)
		return
	}
	w.mu.Lock()
	w.isWanting = len(jobs) == free
	for _, j := range jobs {
		w.running[j.ID] = j
	}
	w.mu.Unlock()
	w.sim.server.execute(costFetch, len(jobs))
	for _, j := range jobs {
		w.sim.group.Go(func() { w.work(j) })
	}
}

func (w *worker) work(j queuedJob) {
	if w.ctx.Err() != nil {
		return
	}
	v := w.scheduler.Work(context.WithValue(w.ctx, threadKey{}, j.thread), j.Job)
	if w.ctx.Err() != nil {
		return // killed: the job stays in running, and its replacement is inserted after the lease
	}
	if v.IsAgain {
		w.sim.queue.again(j, w.sim.now(), v.Pause)
	}
	w.mu.Lock()
	delete(w.running, j.ID)
	w.completed = append(w.completed, j)
	isFirst := len(w.completed) == 1
	if w.isWanting {
		w.isWanting = false
		w.wake()
	}
	w.mu.Unlock()
	if isFirst { // River's completer has a ticker, which also ticks if there is nothing to do
		w.sim.group.Go(w.complete)
	}
}

// complete completes the jobs of one interval together.
func (w *worker) complete() {
	time.Sleep(completeInterval)
	w.mu.Lock()
	n := len(w.completed)
	w.completed = w.completed[:0]
	w.mu.Unlock()
	if w.ctx.Err() == nil {
		w.sim.server.execute(costComplete, n)
	}
}
