package acpagent_test

import (
	"context"
	"iter"

	"github.com/dalsegno/segno/agent"
)

// slow is a model that does not answer after its first call until the context ends.
type slow struct {
	agent.Model
	generating chan struct{} // closed when it begins to wait
}

func (m slow) Generate(ctx context.Context, r agent.Request) iter.Seq2[agent.Chunk, error] {
	if r.Messages[len(r.Messages)-1].Role != agent.ToolRole {
		return m.Model.Generate(ctx, r)
	}
	return func(yield func(agent.Chunk, error) bool) {
		close(m.generating)
		<-ctx.Done()
		yield(agent.Chunk{}, ctx.Err())
	}
}

// limited is a model that reaches its limit of tokens in every longer answer.
type limited struct{ agent.Model }

func (m limited) Generate(ctx context.Context, r agent.Request) iter.Seq2[agent.Chunk, error] {
	r.MaxTokens = 2
	return m.Model.Generate(ctx, r)
}
