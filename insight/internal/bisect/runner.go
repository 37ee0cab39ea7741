package bisect

import (
	"context"
	"time"
)

// Result is the result of a test.
type Result struct {
	Verdict Verdict
	Code    int // the exit code of the command; -1 if it did not run
	Took    time.Duration
	Why     string // why the state was skipped without running the command
	Output  string // the end of what the command printed
}

// Runner tests states until the search has its result.
type Runner struct {
	Search *Search
	Jobs   int // how many tests run at once
	// Test tests a state. worker is a number below Jobs; one worker tests one state at a time. Test stops its command
	// when ctx ends, and returns after that.
	Test func(ctx context.Context, worker, state int) (Result, error)
	// Record makes a result durable. Run does not call it concurrently.
	Record func(state int, r Result) error
}

// Run runs the tests. When a result makes a test unnecessary that still runs, Run stops that test. Run returns after all
// tests have ended, with the first error of a test, of Record or of the search. An error leaves the recorded results.
func (r *Runner) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u := &underTest{Runner: r, results: make(chan tested), stops: map[int]context.CancelFunc{}}
	for i := range r.Jobs {
		u.idle = append(u.idle, i)
	}
	for {
		if u.failed == nil {
			u.failed = ctx.Err()
		}
		if u.failed == nil {
			u.start(ctx)
		}
		if len(u.stops) == 0 {
			return u.failed
		}
		u.add(<-u.results)
	}
}

// underTest has the tests that run.
type underTest struct {
	*Runner
	results chan tested
	stops   map[int]context.CancelFunc // by state
	idle    []int                      // workers
	failed  error
}

type tested struct {
	worker, state int
	Result
	err error
}

func (u *underTest) has(state int) bool { return u.stops[state] != nil }

// start gives each idle worker a state to test, as long as there is one.
func (u *underTest) start(ctx context.Context) {
	for len(u.idle) > 0 {
		state, ok := u.Search.Next(u.has)
		if !ok {
			return
		}
		worker := u.idle[0]
		u.idle = u.idle[1:]
		testCtx, stop := context.WithCancel(ctx)
		u.stops[state] = stop
		go func() {
			res, err := u.Test(testCtx, worker, state)
			u.results <- tested{worker, state, res, err}
		}()
	}
}

// add adds the result of a test, and stops the tests that are not needed any more.
func (u *underTest) add(t tested) {
	u.stops[t.state]()
	delete(u.stops, t.state)
	u.idle = append(u.idle, t.worker)
	if u.failed != nil || !u.Search.Needs(t.state) {
		return
	}
	if u.failed = t.err; u.failed == nil {
		u.failed = u.Search.Record(t.state, t.Result)
	}
	if u.failed == nil {
		u.failed = u.Record(t.state, t.Result)
	}
	for state, stop := range u.stops {
		if u.failed != nil || !u.Search.Needs(state) {
			stop()
		}
	}
}
