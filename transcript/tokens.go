package transcript

import (
	"context"

	"github.com/dalsegno/segno"
)

// Tokens are the tokens of model calls. In counts whole prompts, cached or not.
type Tokens struct {
	In, Out int64
}

// Add returns the sum of t and more.
func (t Tokens) Add(more Tokens) Tokens { return Tokens{t.In + more.In, t.Out + more.Out} }

// TokenCounter is the ability of a [segno.Transcript] to report the tokens that the calls of a session used.
type TokenCounter interface {
	// Tokens sums the calls of a session and of its subagents, up to the last whole line. The result is
	// nil if no record has a number of tokens.
	Tokens(ctx context.Context, src segno.Source) (*Tokens, error)
}
