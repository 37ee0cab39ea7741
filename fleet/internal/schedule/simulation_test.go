package schedule_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dalsegno/segno/fleet/internal/schedule"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// fleetSize is one fleet and its load.
type fleetSize struct {
	workers int     // processes
	slots   int     // turns that a worker runs at the same time
	threads int     // that wait
	rate    float64 // wakes a second: half of them decisions, half of them timers
	cores   int     // of the server
	// River's settings
	poll     time.Duration // between two fetches of a worker, if it is not notified
	cooldown time.Duration // between two fetches of a worker, at least
	notify   time.Duration // between two notifications of a client, at least

	steps  int           // of a turn
	model  time.Duration // of a step
	length time.Duration // for which threads wake; then the simulation continues until all wait again
	deaths int           // workers that are killed, and replaced, in that time
	lease  time.Duration
}

// latencies are the times between wakes and the first step.
type latencies []time.Duration

func (l *latencies) add(d time.Duration) { *l = append(*l, d) }

func (l latencies) quantile(share float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(l))[int(share*float64(len(l)-1))].Round(time.Millisecond)
}

// simulation runs the decisions of package schedule for a fleet, on the clock of a synctest bubble. It models the server, the
// queue and the models.
type simulation struct {
	fleetSize
	test   *testing.T
	ctx    context.Context
	policy schedule.Policy
	log    *slog.Logger
	group  sync.WaitGroup
	server server
	queue  queue
	random *rand.Rand // of the goroutine that wakes threads

	mu        sync.Mutex
	threads   []thread
	decisions latencies // of the wakes that found their thread idle
	timers    latencies
	woken     int // decisions
	handled   int // decisions that a run took into account
}

// result is the outcome of a simulation.
type result struct {
	decisions, timers latencies
	busy              float64       // the share of the server's cores that statements used while threads woke
	statements        float64       // a second
	lag               time.Duration // how long the last turns ended after the last wake
	memory            uint64
}

func (s *simulation) now() time.Duration { return time.Since(s.server.began) }

// at returns a moment of the simulation; 0 is the zero time.
func (s *simulation) at(d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return s.server.began.Add(d)
}

// simulate runs one fleet until each thread waits again.
func simulate(t *testing.T, size fleetSize, seed uint64) (r result) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &simulation{fleetSize: size, test: t, ctx: ctx, log: slog.New(slog.NewTextHandler(io.Discard, nil)),
			policy:  schedule.Policy{MaxAttempts: 5, FirstPause: time.Second, MaxPause: time.Minute},
			server:  server{began: time.Now(), free: make([]time.Duration, size.cores)},
			queue:   queue{listeners: map[*worker]bool{}, notify: size.notify, notified: map[any]time.Duration{}},
			threads: make([]thread, size.threads), random: rand.New(rand.NewPCG(seed, 1))}
		s.sleepAll()
		workers := make([]*worker, size.workers)
		for i := range workers {
			workers[i] = s.startWorker()
		}
		s.group.Go(s.lead)
		s.wakeThreads(workers)
		busy, calls := s.server.totals()
		end := s.now()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		s.waitUntilQuiet()
		r = result{decisions: s.decisions, timers: s.timers, lag: s.now() - end, memory: stats.HeapAlloc,
			busy:       float64(busy) / float64(end) / float64(size.cores),
			statements: float64(calls) / end.Seconds()}
		cancel()
		s.group.Wait()
		s.check()
	})
	return r
}

// sleepAll gives each thread a timer. Together they have the wanted rate.
func (s *simulation) sleepAll() {
	span := time.Duration(float64(s.fleetSize.threads) / (s.rate / 2) * float64(time.Second))
	for i := range s.threads {
		due := 1 + time.Duration(s.random.Int64N(int64(span)))
		s.threads[i] = thread{state: schedule.Waiting, seq: 1, seen: 1, due: due}
		if due > s.length {
			continue // its job is a row that no statement of the simulation reads
		}
		s.queue.last++
		s.queue.scheduled = append(s.queue.scheduled, queuedJob{Job: schedule.Job{ID: s.queue.last, Wake: s.at(due)}, thread: int32(i), at: due})
	}
	slices.SortFunc(s.queue.scheduled, func(a, b queuedJob) int { return int(a.at - b.at) }) // a sorted list is a heap
}

// lead is River's leader: its scheduler.
func (s *simulation) lead() {
	for s.ctx.Err() == nil {
		n := s.queue.schedule(s.now())
		s.server.execute(costSchedule, n)
		if n == scheduleBatch {
			continue
		}
		select {
		case <-s.ctx.Done():
		case <-time.After(scheduleInterval):
		}
	}
}

// api is a process that commits decisions.
type api int

// wakeThreads commits decisions about random threads, and kills workers.
func (s *simulation) wakeThreads(workers []*worker) {
	const apis = 4
	death := s.length / time.Duration(s.deaths+1)
	nextDeath := death
	for {
		time.Sleep(time.Duration(s.random.ExpFloat64() / (s.rate / 2) * float64(time.Second)))
		if s.now() > s.length {
			return
		}
		by, of := api(s.random.IntN(apis)), int32(s.random.IntN(len(s.threads)))
		s.group.Go(func() { s.decide(by, of) })
		if s.deaths > 0 && s.now() > nextDeath {
			i := s.random.IntN(len(workers))
			s.kill(workers[i])
			workers[i] = s.startWorker()
			nextDeath += death
		}
	}
}

// decide commits a decision and, in its transaction, a job. The wake begins when the server has it.
func (s *simulation) decide(by api, of int32) {
	s.server.execute(costWake, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	t, now := &s.threads[of], s.now()
	t.seq++
	s.woken++
	t.pending++
	if t.state == schedule.Waiting && t.runs == 0 && t.woken == 0 {
		t.woken = now
	}
	s.queue.insert(by, now, queuedJob{Job: schedule.Job{Seq: t.seq}, thread: of})
}

// kill ends a process. Once it was not seen for the lease, its jobs are replaced.
func (s *simulation) kill(w *worker) {
	s.queue.mu.Lock()
	delete(s.queue.listeners, w)
	s.queue.mu.Unlock()
	s.mu.Lock()
	w.died = s.now()
	w.kill()
	for i := range s.threads {
		if t := &s.threads[i]; t.runs > 0 && t.runner == w {
			t.runs, t.lease = 0, w.died+s.lease
		}
	}
	s.mu.Unlock()
	s.group.Go(func() {
		time.Sleep(s.lease)
		w.mu.Lock()
		defer w.mu.Unlock()
		for id, j := range w.running {
			s.server.execute(costInsert, 0)
			s.queue.insert(s, s.now(), queuedJob{Job: schedule.Job{Seq: j.Seq, Wake: j.Wake, Replaces: append(j.Replaces, id)}, thread: j.thread})
		}
	})
}

// waitUntilQuiet waits until no job is available and no thread has work.
func (s *simulation) waitUntilQuiet() {
	const bound = 10 * time.Minute
	for end := s.now() + bound; ; {
		time.Sleep(time.Second)
		busy := s.busyThread()
		if busy < 0 {
			return
		}
		if s.now() > end {
			available, scheduled := s.queue.lengths()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.test.Fatalf("thread %d did not continue within %v: %+v; the queue has %d jobs, and %d for later", busy, bound, s.threads[busy], available, scheduled)
		}
	}
}

// busyThread returns a thread that has work, or -1.
func (s *simulation) busyThread() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.IndexFunc(s.threads, func(t thread) bool {
		return t.pending > 0 || t.due > 0 && t.due <= s.length || t.state != schedule.Waiting || t.runs > 0
	})
}

// check fails if a wake was lost or counted twice.
func (s *simulation) check() {
	if s.handled != s.woken {
		s.test.Errorf("%d decisions were taken into account, of %d", s.handled, s.woken)
	}
}

func (r result) row(size fleetSize) string {
	return fmt.Sprintf("| %d × %d | %d | %v | %g | %.0f | %.0f %% | %v | %v | %v | %v | %v |", size.workers, size.slots, size.threads, size.cooldown, size.rate,
		r.statements, 100*r.busy, r.decisions.quantile(0.5), r.decisions.quantile(0.99), r.decisions.quantile(1), r.timers.quantile(0.5), r.timers.quantile(0.99))
}

// standard is a fleet with the settings of package fleet.
func standard(workers, threads int, rate float64) fleetSize {
	return fleetSize{workers: workers, slots: 10, threads: threads, rate: rate, cores: 16, poll: time.Second, cooldown: 5 * time.Millisecond, notify: time.Millisecond,
		steps: 2, model: 2 * time.Second, length: 20 * time.Second, lease: 30 * time.Second}
}

// TestASmallFleetWakesEachThread simulates fleets with workers that die.
func TestASmallFleetWakesEachThread(t *testing.T) {
	for _, seed := range soak.Seeds(t, 1, 300) {
		size := standard(20, 5000, 30)
		size.deaths = 4
		r := simulate(t, size, seed)
		t.Log(r.row(size))
		if len(r.decisions) == 0 || len(r.timers) == 0 {
			t.Errorf("%d decisions and %d timers woke threads", len(r.decisions), len(r.timers))
		}
	}
}

// tableOfFleets has the fleets of the table in docs/fleet-sizing.md.
func tableOfFleets() (all []fleetSize) {
	for _, of := range []struct {
		workers, threads int
		rates            []float64
	}{
		{10, 10_000, []float64{10}},
		{10, 1_000_000, []float64{10}},
		{100, 10_000, []float64{10, 100}},
		{100, 1_000_000, []float64{10, 100, 200}},
		{1000, 1_000_000, []float64{10, 100, 1000, 2000}},
		{10_000, 1_000_000, []float64{10, 100, 1000, 2000}},
	} {
		for _, rate := range of.rates {
			all = append(all, standard(of.workers, of.threads, rate))
		}
	}
	// The same fleets, in which a worker fetches at most once a second, as it polls.
	for _, rate := range []float64{100, 1000, 2000} {
		slow := standard(10_000, 1_000_000, rate)
		slow.cooldown, slow.notify = time.Second, time.Second
		all = append(all, slow)
	}
	// The same number of slots in fewer processes.
	for _, rate := range []float64{1000, 2000} {
		wide := standard(100, 1_000_000, rate)
		wide.slots = 1000
		all = append(all, wide)
	}
	return all
}

// TestWhereAFleetSaturates simulates the fleets of the table: by default the first, which are small.
func TestWhereAFleetSaturates(t *testing.T) {
	all := tableOfFleets()
	if !soak.IsWhole() {
		all = all[:1]
	}
	var table strings.Builder
	for _, size := range all {
		r := simulate(t, size, 1)
		fmt.Fprintln(&table, r.row(size))
		t.Log(r.row(size))
		const most = 1 << 30
		if r.memory > most {
			t.Errorf("%d workers and %d threads take %d MB of memory", size.workers, size.threads, r.memory>>20)
		}
	}
	t.Logf("the fleets of docs/fleet-sizing.md:\n%s", table.String())
}
