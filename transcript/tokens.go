package transcript

import (
	"context"

	"github.com/dalsegno/segno"
)

// Tokens are those of calls of a model. In has whole prompts, whether they were cached or not.
type Tokens struct {
	In, Out int64
}

// Add returns the sum.
func (t Tokens) Add(more Tokens) Tokens { return Tokens{t.In + more.In, t.Out + more.Out} }

// TokenCounter is an ability of a [segno.Transcript] whose sessions record what the calls of the model cost.
type TokenCounter interface {
	// Tokens sums the calls of a session, with those of its subagents, up to its last whole line. The result is nil if no record has a
	// number of tokens.
	Tokens(ctx context.Context, src segno.Source) (*Tokens, error)
}
