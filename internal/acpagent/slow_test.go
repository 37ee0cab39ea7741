package acpagent_test

import (
	"context"
	"iter"

	"github.com/dalsegno/segno/agent"
)

// slow is a model that never answers after its first call.
type slow struct {
	agent.Model
	thinking chan struct{} // closed when it does
}

func (m slow) Generate(ctx context.Context, r agent.Request) iter.Seq2[agent.Chunk, error] {
	if r.Messages[len(r.Messages)-1].Role != agent.ToolRole {
		return m.Model.Generate(ctx, r)
	}
	return func(yield func(agent.Chunk, error) bool) {
		close(m.thinking)
		<-ctx.Done()
		yield(agent.Chunk{}, ctx.Err())
	}
}

// brief is a model whose answers run into its limit.
type brief struct{ agent.Model }

func (m brief) Generate(ctx context.Context, r agent.Request) iter.Seq2[agent.Chunk, error] {
	r.MaxTokens = 2
	return m.Model.Generate(ctx, r)
}
