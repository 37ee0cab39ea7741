// Package bisect finds the checkpoint that made a command fail. A [Search] chooses the states to test, a [Runner] tests
// several of them at once, a [Tester] runs the command in scratch copies of the workspace, and a [Session] keeps the
// answers on disk, so that a bisect continues after its process was killed.
package bisect

import (
	"fmt"
	"math/bits"
)

// Verdict is the answer about one state.
type Verdict string

// The verdicts. The zero Verdict means that the state is not tested yet.
const (
	Good Verdict = "good"
	Bad  Verdict = "bad"
	Skip Verdict = "skip" // it cannot be tested
)

// Search finds the first bad one of several states in order. The first state is taken as good and the last one as bad.
type Search struct {
	// TestEnds makes Next also return the two ends that have no verdict yet.
	TestEnds bool

	verdicts  []Verdict
	good, bad int // the newest good state, and the oldest bad one
}

// NewSearch returns a search in n states, at least two.
func NewSearch(n int) *Search { return &Search{verdicts: make([]Verdict, n), bad: n - 1} }

// Ends returns the newest state that is good, and the oldest one that is bad.
func (s *Search) Ends() (good, bad int) { return s.good, s.bad }

// EndError is the error of an answer that contradicts what is known about an end, or the order of the answers.
type EndError struct {
	State int
	Result
}

func (e *EndError) Error() string { return fmt.Sprintf("state %d is %s", e.State, e.Verdict) }

// Record adds an answer. A skipped end, a good state after a bad one, and a bad state before a good one are an
// [EndError]. An answer that adds nothing is ignored.
func (s *Search) Record(i int, r Result) error {
	switch v := r.Verdict; {
	case v == Good && i >= s.bad, v == Bad && i <= s.good, v == Skip && (i == s.good || i == s.bad):
		return &EndError{i, r}
	case v == Good:
		s.good = max(s.good, i)
	case v == Bad:
		s.bad = min(s.bad, i)
	}
	s.verdicts[i] = r.Verdict
	return nil
}

// Needs reports whether the verdict about a state may still change the result.
func (s *Search) Needs(i int) bool {
	isEnd := i == s.good || i == s.bad
	return s.verdicts[i] == "" && (s.good < i && i < s.bad || s.TestEnds && isEnd)
}

// Next returns the state to test next while others are being tested: an end, or else the middle of the largest part
// that the known states and those under test leave. After a skip it goes to other places in that part, because the
// neighbours of a state that cannot be tested often cannot be tested either.
func (s *Search) Next(underTest func(i int) bool) (i int, ok bool) {
	for _, end := range []int{s.bad, s.good} {
		if s.Needs(end) && !underTest(end) {
			return end, true
		}
	}
	var part, largest []int
	skipped := 0
	for i := s.good + 1; i <= s.bad; i++ {
		switch {
		case i == s.bad || underTest(i):
			if len(part) > len(largest) {
				largest = part
			}
			part = nil
		case s.verdicts[i] == "":
			part = append(part, i)
		default:
			skipped++
		}
	}
	if len(largest) == 0 {
		return 0, false
	}
	// The fractions 1/2, 1/4, 3/4, 1/8, 5/8, … are the numbers of skips with their bits reversed.
	n := uint32(skipped + 1)
	at := uint64(len(largest)) * uint64(bits.Reverse32(n)) >> 32
	return largest[at], true
}

// Left returns how many states between the ends are not tested yet.
func (s *Search) Left() (n int) {
	for i := s.good + 1; i < s.bad; i++ {
		if s.verdicts[i] == "" {
			n++
		}
	}
	return n
}

// Result returns the states one of which is the first bad one, once all others are excluded. There are several if
// skipped states hide it.
func (s *Search) Result() (states []int, done bool) {
	if s.Left() > 0 {
		return nil, false
	}
	for i := s.good + 1; i <= s.bad; i++ {
		states = append(states, i)
	}
	return states, true
}
