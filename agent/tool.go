package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
)

// Tool is a function that a model can call. [NewTool] makes a Tool from a Go function.
type Tool struct {
	ToolSpec
	// OnLost is the policy for a call that loses its result in a crash. The zero value
	// asks a person: a tool that may safely run twice has to declare it.
	OnLost OnLost
	// Pages is set if the tool limits its output and can return the rest in further calls. Its
	// results are never evicted; see [Config.Evict].
	Pages bool
	// Run runs the tool. The model receives an error as the result, unless ctx has ended.
	// Calls of one step run concurrently.
	Run func(ctx context.Context, inv *Invocation) (Result, error)

	isTask bool // it runs a subagent, which continues where it stopped
}

// OnLost is a tool's policy for a call that began and has no recorded result. All
// policies but [LostRerun] commit an intent before the call and the result after it.
type OnLost string

// The policies.
const (
	// LostAsk: the call becomes an interrupt, and a person decides whether to run
	// it again. It is the zero value, for tools with consequences.
	LostAsk OnLost = ""
	// LostRetry: the call runs again under the same idempotency key. The tool, or
	// the service it calls, compares the key and does the work once. If that attempt
	// fails, the first one may still have succeeded, so the call becomes an interrupt.
	LostRetry OnLost = "retry"
	// LostFail: the run ends with an error that names the call. The question about it
	// is in the outcome and stays open until it is decided.
	LostFail OnLost = "fail"
	// LostRerun: the call runs again under another key. It is for tools that only
	// read, or only change the agent's state. Such calls have no intent.
	LostRerun OnLost = "rerun"
)

// Invocation is one call of a tool.
type Invocation struct {
	Call
	// Key is an idempotency key to send to a service. It identifies the call, also when the call
	// is retried. A call of a tool with [LostRerun] has a new key each time.
	Key string
	// State is the agent's state. Changes become durable with the step.
	State *Values
	// Emit sends an event to the caller of the run. An event of a kind that ends in "-start" is
	// live, any other is in the log. Emit drops events of the kinds that the agent sends itself,
	// and events after Run returned.
	Emit func(Event)

	run    *run                       // the run that makes the call
	child  *run                       // the run of a task
	before map[string]json.RawMessage // the state when the step's calls began
}

// NewTool returns a tool that calls a function. A is a struct whose json and jsonschema tags
// describe the arguments. The model receives a string or a [Result] as it is, and any other
// value as JSON. NewTool panics if A has no JSON Schema.
func NewTool[A, R any](name, description string, onLost OnLost, run func(ctx context.Context, inv *Invocation, args A) (R, error)) Tool {
	schema, err := jsonschema.For[A](nil)
	if err != nil {
		panic(fmt.Sprintf("segno: the arguments of tool %s have no JSON Schema: %v", name, err))
	}
	text, err := json.Marshal(schema)
	if err != nil {
		panic(fmt.Sprintf("segno: the schema of tool %s does not encode: %v", name, err))
	}
	return Tool{ToolSpec: ToolSpec{Name: name, Description: description, Schema: text}, OnLost: onLost,
		Run: func(ctx context.Context, inv *Invocation) (Result, error) {
			var args A
			if err := json.Unmarshal(inv.Args, &args); err != nil {
				return Result{}, fmt.Errorf("arguments of %s: %w", inv.Name, err)
			}
			out, err := run(ctx, inv, args)
			if err != nil {
				return Result{}, err
			}
			return resultOf(out)
		}}
}

func resultOf(out any) (Result, error) {
	switch x := out.(type) {
	case string:
		return Result{Text: x}, nil
	case Result:
		return x, nil
	case *Result:
		if x == nil {
			return Result{}, nil
		}
		return *x, nil
	}
	text, err := json.Marshal(out)
	return Result{Text: string(text)}, err
}
