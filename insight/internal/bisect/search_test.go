package bisect

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/dalsegno/segno/internal/testing/soak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model is a history of states: those from culprit on are bad, and some cannot be tested.
type model struct {
	n, culprit int
	skipped    map[int]bool
	breaks     map[int]bool // the first test of the state ends with an error
	tests      atomic.Int64
}

func newModel(r *rand.Rand) *model {
	m := &model{n: 2 + r.IntN(60), skipped: map[int]bool{}, breaks: map[int]bool{}}
	m.culprit = 1 + r.IntN(m.n-1)
	if share := []float64{0, 0, 0.2, 0.9}[r.IntN(4)]; share > 0 {
		from, to := r.IntN(m.n), m.n
		for i := max(1, from); i < to-1; i++ {
			m.skipped[i] = r.Float64() < share
		}
	}
	return m
}

func (m *model) verdict(i int) Verdict {
	switch {
	case m.skipped[i]:
		return Skip
	case i >= m.culprit:
		return Bad
	}
	return Good
}

// linear returns the result of testing all states in order.
func (m *model) linear() (states []int) {
	for i := 1; i < m.n; i++ {
		switch m.verdict(i) {
		case Good:
			states = nil
		case Skip:
			states = append(states, i)
		case Bad:
			return append(states, i)
		}
	}
	panic("the last state is bad")
}

var errBroken = errors.New("the command was killed")

func (m *model) test(ctx context.Context, _, i int) (Result, error) {
	m.tests.Add(1)
	for range rand.IntN(20) {
		runtime.Gosched() // tests end in any order
	}
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	if m.breaks[i] {
		return Result{}, errBroken
	}
	return Result{Verdict: m.verdict(i)}, nil
}

// TestBisectFindsWhatALinearSearchFinds compares random bisects with a linear search: with skipped states, several tests at
// once, tests that end the bisect, and processes that are killed before or after an answer is durable.
func TestBisectFindsWhatALinearSearchFinds(t *testing.T) {
	for _, seed := range soak.Seeds(t, 200, 100_000) {
		r := rand.New(rand.NewPCG(seed, 0))
		m := newModel(r)
		for range r.IntN(3) {
			m.breaks[r.IntN(m.n)] = true
		}
		var answers []int // what is durable, in order
		jobs := 1 + r.IntN(5)
		for rounds := 0; ; rounds++ {
			s := NewSearch(m.n)
			for _, i := range answers {
				if err := s.Record(i, Result{Verdict: m.verdict(i)}); err != nil {
					t.Fatalf("seed %d: an answer cannot be replayed: %v", seed, err)
				}
			}
			s.TestEnds = true
			lifetime := r.IntN(20)
			run := Runner{Search: s, Jobs: jobs, Test: m.test, Record: func(i int, res Result) error {
				if lifetime--; lifetime == 0 {
					return errors.New("killed before the answer is durable")
				}
				answers = append(answers, i)
				if lifetime--; lifetime == 0 {
					return errors.New("killed after the answer is durable")
				}
				return nil
			}}
			err := run.Run(t.Context())
			if errors.Is(err, errBroken) {
				clear(m.breaks)
			}
			if err != nil {
				continue
			}
			got, done := s.Result()
			if want := m.linear(); !done || !slices.Equal(got, want) {
				t.Fatalf("seed %d: %d states, the culprit is %d, skipped %v: got %v, want %v", seed, m.n, m.culprit, m.skipped, got, want)
			}
			if good, bad := s.Ends(); !slices.Contains(answers, good) || !slices.Contains(answers, bad) {
				t.Fatalf("seed %d: an end was not tested: %v", seed, answers)
			}
			break
		}
	}
}

// TestBisectTestsFewStates checks the number of tests without skips: both ends, and the binary logarithm of the rest.
func TestBisectTestsFewStates(t *testing.T) {
	for n := 2; n < 200; n++ {
		for culprit := 1; culprit < n; culprit += 1 + n/20 {
			m := &model{n: n, culprit: culprit}
			s := NewSearch(n)
			s.TestEnds = true
			run := Runner{Search: s, Jobs: 1, Test: m.test, Record: func(int, Result) error { return nil }}
			if err := run.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if most := int64(2 + bits.Len(uint(n-2))); m.tests.Load() > most {
				t.Errorf("%d states, the culprit is %d: %d tests, want at most %d", n, culprit, m.tests.Load(), most)
			}
		}
	}
}

// TestBisectRefusesWrongEnds gives an end that is not good, not bad, or cannot be tested.
func TestBisectRefusesWrongEnds(t *testing.T) {
	for _, c := range []struct {
		state int
		is    Verdict
	}{{0, Bad}, {0, Skip}, {4, Good}, {4, Skip}} {
		for jobs := 1; jobs < 4; jobs++ {
			m := &model{n: 5, culprit: 2}
			run := Runner{Search: NewSearch(5), Jobs: jobs, Record: func(i int, _ Result) error { return nil },
				Test: func(ctx context.Context, worker, i int) (Result, error) {
					if i == c.state {
						return Result{Verdict: c.is, Output: "why"}, nil
					}
					return m.test(ctx, worker, i)
				}}
			run.Search.TestEnds = true
			err := run.Run(t.Context())
			var end *EndError
			if !errors.As(err, &end) || end.State != c.state || end.Verdict != c.is || end.Output != "why" {
				t.Errorf("state %d is %s, %d jobs: %v", c.state, c.is, jobs, err)
			}
		}
	}
}

// TestARunStopsItsTests checks that the end of the context, and a result that makes a test unnecessary, stop the test.
func TestARunStopsItsTests(t *testing.T) {
	started, stopped := make(chan int, 3), make(chan int, 3)
	hang := func(ctx context.Context, i int) (Result, error) {
		started <- i
		<-ctx.Done()
		stopped <- i
		return Result{}, ctx.Err()
	}
	ctx, interrupt := context.WithCancel(t.Context())
	run := Runner{Search: NewSearch(8), Jobs: 3, Test: func(ctx context.Context, _, i int) (Result, error) { return hang(ctx, i) }}
	go func() {
		for range 3 {
			<-started
		}
		interrupt()
	}()
	if err := run.Run(ctx); !errors.Is(err, context.Canceled) || len(stopped) != 3 {
		t.Errorf("%v, %d tests stopped", err, len(stopped))
	}
	for len(stopped) > 0 {
		<-stopped
	}
	run = Runner{Search: NewSearch(8), Jobs: 2, Record: func(int, Result) error { return nil }, Test: func(ctx context.Context, _, i int) (Result, error) {
		switch i {
		case 4: // it hangs until state 2 is known to be bad
			return hang(ctx, i)
		case 2:
			<-started
		}
		return Result{Verdict: Bad}, nil
	}}
	if err := run.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ := run.Search.Result(); fmt.Sprint(got) != "[1]" || len(stopped) != 1 {
		t.Errorf("found %v, %d tests stopped", got, len(stopped))
	}
}
