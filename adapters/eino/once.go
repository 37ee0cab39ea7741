package segnoeino

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/cloudwego/eino/components"
	"github.com/cloudwego/eino/compose"
	"github.com/dalsegno/segno"
)

// InvokableLambda is [compose.InvokableLambda] for a node that may run at the same time as others. If a crash interrupts
// the step, a node that ended returns its recorded output and does not run again. The output must be equal to itself
// after it was encoded as JSON and decoded; if it is not, the node is reported in a [LostError], as other nodes are.
func InvokableLambda[I, O any](fn func(context.Context, I) (O, error), opts ...compose.LambdaOpt) *compose.Lambda {
	return compose.InvokableLambda(func(ctx context.Context, in I) (out O, err error) {
		n, ok := ctx.Value(nodeKey{}).(*node)
		if !ok {
			return fn(ctx, in)
		}
		if n.recorded != nil {
			err = json.Unmarshal(n.recorded, &out)
			return out, err
		}
		if out, err = fn(ctx, in); err == nil {
			n.output = lossless(out)
		}
		return out, err
	}, opts...)
}

// lossless returns a value as JSON, or nil if decoding it does not give the same value.
func lossless[T any](v T) json.RawMessage {
	var again T
	data, err := json.Marshal(v)
	if err != nil || json.Unmarshal(data, &again) != nil || !reflect.DeepEqual(v, again) {
		return nil
	}
	return data
}

// OnceTools is a middleware of tools: if a crash interrupts a step, a tool that ended returns its recorded
// result and does not run again. It is for tools that return text and that do not stream.
func OnceTools() compose.ToolMiddleware {
	return compose.ToolMiddleware{Invokable: func(next compose.InvokableToolEndpoint) compose.InvokableToolEndpoint {
		return func(ctx context.Context, in *compose.ToolInput) (*compose.ToolOutput, error) {
			call := segno.HashOf([]byte(in.Name + "\x00" + in.Arguments))
			if r, ok := ctx.Value(runKey{}).(*run); ok {
				var text string
				if recorded := r.takeOutput(outputKey{components.ComponentOfTool, in.CallID, call}); recorded != nil && json.Unmarshal(recorded, &text) == nil {
					return &compose.ToolOutput{Result: text}, nil
				}
			}
			return next(context.WithValue(ctx, onceKey{}, call), in)
		}
	}}
}

// onceKey marks the context of a tool with the hash of its call. segno records the output, because a later run does not make the
// call again.
type onceKey struct{}

// outputKey identifies a node of a step, by its path, or a tool, by the id, name and arguments of its call: a model may give
// several calls the same id.
type outputKey struct {
	tool components.Component // ComponentOfTool, or "" for a node
	id   string
	call segno.Hash
}

// takeOutput returns a recorded output once, because a loop may run the node again.
func (r *run) takeOutput(key outputKey) json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	recorded := r.outputs[key]
	delete(r.outputs, key)
	return recorded
}

// InRun reports whether ctx belongs to a node of a run, whose step will be saved.
func InRun(ctx context.Context) bool {
	_, ok := ctx.Value(runKey{}).(*run)
	return ok
}
