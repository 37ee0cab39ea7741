package transcript

import (
	"context"

	"github.com/dalsegno/segno"
)

// Tokens are the tokens of model calls. A number that the agent does not record is nil.
type Tokens struct {
	Input      int64  `json:"input"`       // of whole prompts, cached or not
	Output     int64  `json:"output"`      // with the reasoning
	CacheRead  *int64 `json:"cache_read"`  // of Input: read from the provider's cache
	CacheWrite *int64 `json:"cache_write"` // of Input: written to it
	Reasoning  *int64 `json:"reasoning"`   // of Output
}

// Add returns the sum of t and more. A number that only one of them has is the sum.
func (t Tokens) Add(more Tokens) Tokens {
	return Tokens{t.Input + more.Input, t.Output + more.Output,
		addKnown(t.CacheRead, more.CacheRead, 1), addKnown(t.CacheWrite, more.CacheWrite, 1), addKnown(t.Reasoning, more.Reasoning, 1)}
}

// Sub returns t without less.
func (t Tokens) Sub(less Tokens) Tokens {
	return Tokens{t.Input - less.Input, t.Output - less.Output,
		addKnown(t.CacheRead, less.CacheRead, -1), addKnown(t.CacheWrite, less.CacheWrite, -1), addKnown(t.Reasoning, less.Reasoning, -1)}
}

// Known returns a number of tokens, or 0 if the agent does not record it.
func Known(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func addKnown(a, b *int64, sign int64) *int64 {
	if b == nil {
		return a
	}
	sum := sign * *b
	if a != nil {
		sum += *a
	}
	return &sum
}

// TokenCounter is the ability of a [segno.Transcript] to report the tokens that the calls of a session used.
type TokenCounter interface {
	// Tokens sums the calls of a session and of its subagents, up to the last whole line. The result is
	// nil if no record has a number of tokens.
	Tokens(ctx context.Context, src segno.Source) (*Tokens, error)
}

// ModelCall is one call of a model.
type ModelCall struct {
	ID         string // a later record with the same id replaces the call; "" for a call with one record
	Model      string // "" if it is not known
	IsSubagent bool
	Time       string // as the agent wrote it; later times are greater. "" if it is not known
	Tokens
	Cost *float64 // in US dollars, if the agent recorded it
}

// Usage is what the calls of one model used.
type Usage struct {
	Model      string
	IsSubagent bool
	Calls      int
	Tokens
	Cost   float64 // in US dollars, of the calls whose cost the agent recorded
	Costed int     // the number of these calls
}

// UsageReader is the ability of a [segno.Transcript] to report what the turns of stored sessions used.
type UsageReader interface {
	// ReadUsage returns for each position what the calls used that no position before it has, one element for
	// each model. positions are those of a thread in the order in which they were captured. The result is nil
	// for a position without a recorded call, and for one outside of positions[from:to]. The bytes come from o.
	// After an error the result lacks the positions that could not be read.
	ReadUsage(ctx context.Context, positions []segno.Position, from, to int, o segno.Objects) ([][]Usage, error)
}
