package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// entrant is one way to do a contest's work. Only run is timed.
type entrant struct {
	name  string
	most  int                         // the number of its rounds; 0 means all
	ready func(context.Context) error // before each run; may be nil
	run   func(context.Context) error
	check func(context.Context) error // after each run: checks the work; may be nil
}

// contest runs its entrants alternately, round by round, so that other work on the machine
// affects all of them equally.
type contest struct {
	rounds    int
	warm      bool       // run one more round first, which does not count
	settle    bool       // before each run, wait until all earlier writes are on disk
	inOrder   bool       // begin every round with the same entrant
	processes *processes // if not nil, it runs the processes of the entrants; one more round measures their memory
	round     func(ctx context.Context, i int) error
	entrants  []entrant
}

// sample has the time of each run of one entrant.
type sample []time.Duration

func (s sample) median() time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[len(sorted)/2]
}

// quantile returns the time that a share of the runs does not exceed.
func (s sample) quantile(share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

func (s sample) over(t sample) float64 { return float64(s.median()) / float64(t.median()) }

// hold runs the contest, and returns the sample of each entrant by its name.
func (c contest) hold(ctx context.Context) (map[string]sample, error) {
	times := make(map[string]sample)
	first := 0
	if c.warm {
		first = -1
	}
	for i := first; i < c.rounds; i++ {
		if c.round != nil {
			if err := c.round(ctx, i-first); err != nil {
				return nil, fmt.Errorf("begin round: %w", err)
			}
		}
		for k := range c.entrants {
			if !c.inOrder {
				k = (k + i - first) % len(c.entrants)
			}
			e := &c.entrants[k]
			if e.most > 0 && i >= e.most {
				continue
			}
			took, err := c.measure(ctx, e)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.name, err)
			}
			if i >= 0 {
				times[e.name] = append(times[e.name], took)
			}
		}
	}
	for k := range c.entrants {
		if c.processes == nil {
			break
		}
		c.processes.entrant = c.entrants[k].name
		if _, err := c.measure(ctx, &c.entrants[k]); err != nil {
			return nil, fmt.Errorf("memory of %s: %w", c.entrants[k].name, err)
		}
		c.processes.entrant = ""
	}
	return times, nil
}

func (c contest) measure(ctx context.Context, e *entrant) (time.Duration, error) {
	if e.ready != nil {
		if err := e.ready(ctx); err != nil {
			return 0, fmt.Errorf("get ready: %w", err)
		}
	}
	if c.settle {
		unix.Sync()
	}
	runtime.GC() // this run must not pay for the garbage of earlier ones
	start := time.Now()
	err := e.run(ctx)
	took := time.Since(start)
	if err == nil && e.check != nil {
		err = e.check(ctx)
	}
	return took, err
}
