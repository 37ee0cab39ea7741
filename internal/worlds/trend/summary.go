package trend

import (
	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/generation"
)

// Summary is an experiment in a few numbers.
type Summary struct {
	Experiment  string `json:"experiment"`
	Generations int    `json:"generations"` // complete generations
	// Attempts has the number of attempts by status.
	Attempts map[generation.RowStatus]int `json:"attempts"`
	// Seconds is the duration of all attempts. CompletedSeconds is the duration of the attempts that completed a
	// generation.
	Seconds          float64       `json:"duration_seconds"`
	CompletedSeconds float64       `json:"completed_seconds"`
	SimTime          segno.SimTime `json:"sim_seconds"` // the sum of all complete generations
	Ticks            int           `json:"ticks"`       // the sum of all complete generations
	Checkpoints      int           `json:"checkpoints"` // the sum of all attempts
	// TokensIn and TokensOut are the sums of all attempts, or nil if the number of one agent is unknown.
	TokensIn  *int64 `json:"tokens_in,omitempty"`
	TokensOut *int64 `json:"tokens_out,omitempty"`
	// WhyNot is why the experiment is not reproducible; "" if it is.
	WhyNot   string             `json:"why_not_reproducible,omitempty"`
	Outcomes map[string]Outcome `json:"outcomes"`
}

// Outcome summarizes one outcome of a world over the complete generations.
type Outcome struct {
	Last float64 `json:"last"` // in the last generation that has it
	Mean float64 `json:"mean"`
	// Generations is the number of generations that have the outcome.
	Generations int `json:"generations"`
	last        int // the generation of Last
}

// Summarize returns the summary of an experiment's rows.
func Summarize(experiment string, rows []generation.Row) Summary {
	s := Summary{Experiment: experiment, Attempts: map[generation.RowStatus]int{}, Outcomes: map[string]Outcome{}, TokensIn: new(int64), TokensOut: new(int64)}
	seen := map[string]bool{}
	for _, r := range rows {
		s.TokensIn, s.TokensOut = addTokens(s.TokensIn, r.TokensIn), addTokens(s.TokensOut, r.TokensOut)
		if seen[r.Run] { // all rows of an attempt have the same numbers of the world
			continue
		}
		seen[r.Run] = true
		s.Attempts[r.Status]++
		s.Seconds += r.Seconds
		s.Checkpoints += r.Checkpoints
		if r.Status == generation.RowCompleted {
			s.addCompleted(r)
		}
	}
	return s
}

// addCompleted adds the attempt that completed a generation.
func (s *Summary) addCompleted(r generation.Row) {
	s.Generations++
	s.CompletedSeconds += r.Seconds
	s.SimTime += r.SimTime
	s.Ticks += r.Ticks
	if s.WhyNot == "" {
		s.WhyNot = r.WhyNot
	}
	for name, value := range r.Outcomes {
		o := s.Outcomes[name]
		o.Generations++
		o.Mean += (value - o.Mean) / float64(o.Generations)
		if r.Generation >= o.last {
			o.Last, o.last = value, r.Generation
		}
		s.Outcomes[name] = o
	}
}

// addTokens adds two numbers. The sum is unknown (nil) if one of them is.
func addTokens(sum, more *int64) *int64 {
	if sum == nil || more == nil {
		return nil
	}
	total := *sum + *more
	return &total
}
