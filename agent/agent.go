package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"runtime"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/timeline"
)

// Config says what an agent is. Only Model is needed.
type Config struct {
	Name   string // what it is called in checkpoints and traces; "" is "agent"
	Model  Model
	System string // the system prompt
	// Store keeps the threads. Without one, or in a run without a thread, nothing
	// outlives the run.
	Store segno.Store
	// Site is the workspace the tools work in, if its files belong to the
	// checkpoints: they are saved where a turn begins and where a run ends. Its
	// store must be Store. See [OpenTimeline].
	Timeline *timeline.Timeline
	Tools    []Tool
	// Subagents make up the task tool; see [Subagent].
	Subagents []Subagent
	// Approve says which calls need leave; nil lets all pass. See [RequireApproval].
	Approve Approver
	// Answer is asked, in the run's own process, once the interrupts are
	// committed. It may answer some of them, all, or none. Without it, and with an
	// interrupt left, the run ends interrupted.
	Answer func(ctx context.Context, open []segno.Interrupt) ([]segno.Decision, error)
	// MaxSteps is how many steps a run may take, each a model's answer and its calls; 0
	// is 100. Asking again after a failure, and summaries, are no steps.
	MaxSteps int
	// Parallel is how many calls of a step are made at once; 0 is 16.
	Parallel int
	// MaxTokens is how long an answer of the model may be; 0 is the model's default.
	MaxTokens int
	// Retry says how often a model is asked again that failed in passing.
	Retry Retry
	// StoreRetry bounds how often a store that fails in passing is asked again; the
	// zero value is 12 times with waits from 50 ms to 5 s, about 20 s in all.
	StoreRetry Retry
	// Summarize says when the model is shown a summary in place of old messages.
	Summarize Summarize
	// Evict is the length in bytes above which a result goes to a file of the
	// state and the model is shown its ends; 0 is 80,000, negative never.
	Evict int
	// Tracer makes the spans; nil is the process's own provider's.
	Tracer trace.Tracer
	// Now is the clock; nil is the system's.
	Now func() time.Time
}

// Agent runs turns of threads. Its methods may be called at once; of two runs on
// one thread one gets [segno.KindConflict]. Config is what New was given, its gaps
// filled: to be read, not changed.
type Agent struct {
	Config
	unsaved  bool
	registry *registry
	tools    map[string]Tool
	specs    []ToolSpec
	schemas  map[string]*schema
}

// New returns an agent.
func New(c Config) *Agent {
	a := &Agent{Config: c, registry: newRegistry()}
	if a.Name == "" {
		a.Name = "agent"
	}
	if a.Store == nil {
		a.Store, a.unsaved = memory.New(time.Now), true // asked where a thread stands, it knows none
	}
	if a.MaxSteps == 0 {
		a.MaxSteps = 100
	}
	if a.Parallel == 0 {
		a.Parallel = 16
	}
	if a.Evict == 0 {
		a.Evict = 80_000
	}
	a.StoreRetry.Attempts = cmp.Or(a.StoreRetry.Attempts, 12)
	a.StoreRetry.Wait = cmp.Or(a.StoreRetry.Wait, 50*time.Millisecond)
	a.StoreRetry.MaxWait = cmp.Or(a.StoreRetry.MaxWait, 5*time.Second)
	if a.Tracer == nil {
		a.Tracer = otel.Tracer("github.com/dalsegno/segno/agent")
	}
	if a.Now == nil {
		a.Now = time.Now
	}
	a.tools = map[string]Tool{}
	for _, t := range a.allTools() {
		a.tools[t.Name] = t
		a.specs = append(a.specs, t.ToolSpec)
	}
	a.schemas = schemasOf(a.tools)
	return a
}

func (a *Agent) allTools() []Tool {
	if len(a.Subagents) == 0 {
		return a.Tools
	}
	return append(a.Tools[:len(a.Tools):len(a.Tools)], a.task())
}

// Input is what a run is given. With a prompt it begins a turn; without one it
// goes on with the turn that was broken off or interrupted, and of a turn that is over
// it returns the outcome. After any error a caller may run the same input again.
type Input struct {
	Thread string // "" runs unsaved
	Prompt string
	Parts  []Part // beside the prompt: images, files
	// Key is the prompt's idempotency key, unique in its thread. The same key again
	// continues the turn that the prompt began or returns its outcome, whatever came
	// after it; with another prompt it is a [segno.KindConflict]. Without a key a prompt
	// that repeats that of a turn which is not over continues the turn, and otherwise it
	// begins a turn. A turn that was undone is not on the line, so its key is free.
	Key string
	// Decide answers interrupts of this thread or of its subagents. Each answers
	// once; the first one recorded wins, and any other is a [segno.KindConflict] with
	// [ErrAnswered]. The recorded decision itself may be given again.
	Decide []segno.Decision
	Actor  string // who answers, where a decision does not say
	// Output is a JSON Schema. The turn's answer is then an object that fits it, in
	// the done event's Output.
	Output json.RawMessage
}

// Stream runs a thread until its turn is over, until it waits for a decision, or
// until something fails. It yields what happens; the caller may stop at any time,
// and loses nothing but the step in flight.
//
// The last event is done, interrupted or error, and an error is also the
// sequence's. Errors are [segno.Error]s: [segno.KindConflict] with [ErrRunning] and a
// [segno.ConflictError] if another run has the thread, [segno.KindRefused] if the
// thread waits for decisions or a call's outcome is unknown.
func (a *Agent) Stream(ctx context.Context, in Input) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		events, done, gone := make(chan Event), make(chan error, 1), make(chan struct{})
		var fell *panicked
		exited := true
		defer close(gone)
		go func() {
			r := &run{Agent: a.forRun(in), in: in, out: events, stop: gone}
			var err error
			defer func() { done <- err }()
			fell = catch(func() { err = r.whole(ctx) })
			exited = false
		}()
		watching := true
		for {
			select {
			case e := <-events:
				if watching && !yield(e, nil) {
					watching = false
					cancel(errStopped)
				}
			case err := <-done:
				if fell != nil {
					panic(fell)
				}
				if exited {
					runtime.Goexit() // as a callback of the caller's did
				}
				if err != nil && watching {
					yield(a.failure(in, err), err)
				}
				return
			}
		}
	}
}

// failure is the last event of a run that failed.
func (a *Agent) failure(in Input, err error) Event {
	e := Event{Kind: EventError, Thread: segno.ThreadID(in.Thread), Text: err.Error(), Time: a.Now()}
	var lost *lostError
	if errors.As(err, &lost) {
		e.Interrupts = lost.open
	}
	return e
}

// panicked is a panic of a model or a callback, which ran in a goroutine of ours. It
// goes on in the caller's, who may recover.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }

// Unwrap returns what was panicked with, if that was an error.
func (p *panicked) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

func catch(f func()) (fell *panicked) {
	defer func() {
		if v := recover(); v != nil {
			fell = &panicked{value: v, stack: debug.Stack()}
		}
	}()
	f()
	return nil
}

// forRun is the agent a run is made with: one that is not saved has a store that is
// gone with the run.
func (a *Agent) forRun(in Input) *Agent {
	if !a.unsaved && in.Thread != "" {
		return a
	}
	once := *a
	once.Store, once.Timeline, once.unsaved = memory.New(a.Now), nil, true
	return &once
}

// errStopped is why a run ends whose caller has seen enough.
var errStopped = segno.NewError(segno.KindCancelled, "run agent", "", nil)

// Outcome is what a run came to.
type Outcome struct {
	Text       string            // the answer, "" if there is none yet
	Output     json.RawMessage   // the structured answer
	Stop       Stop              // length or refusal, if that cut the answer short
	Interrupts []segno.Interrupt // what it waits for
	Saved      segno.CommitID    // the newest checkpoint; "" of a run that is not saved
	Usage      Usage             // of this run, its subagents included
}

// check reports whether the agent can run at all.
func (a *Agent) check() error {
	why := ""
	names := map[string]bool{answerName: true}
	for _, t := range a.specs {
		if names[t.Name] {
			why = fmt.Sprintf("there are two tools named %q", t.Name)
		}
		names[t.Name] = true
	}
	subs := map[string]bool{}
	for _, s := range a.Subagents {
		if subs[s.Name] {
			why = fmt.Sprintf("there are two subagents named %q", s.Name)
		}
		subs[s.Name] = true
		own := map[string]bool{}
		for _, t := range s.Tools {
			if own[t.Name] {
				why = fmt.Sprintf("the subagent %q has two tools named %q", s.Name, t.Name)
			}
			own[t.Name] = true
		}
	}
	if a.Model == nil {
		why = "it has no model"
	}
	if a.Timeline != nil && otherStore(a.Timeline.Store, a.Store) {
		why = "its site has another store"
	}
	if why == "" {
		return nil
	}
	return segno.Errorf(segno.KindInvalid, "run agent", a.Name, "%s", why)
}

// otherStore reports whether two stores are plainly not one: of a kind, and not the same.
func otherStore(a, b segno.Store) bool {
	kind := reflect.TypeOf(a)
	return kind == reflect.TypeOf(b) && kind.Kind() == reflect.Pointer && a != b
}

// Run is Run for callers that want the outcome alone. Waiting for a decision is not an
// error. With the error for a lost call of a tool with [LostFail], the outcome has the
// question about it.
func (a *Agent) Run(ctx context.Context, in Input) (Outcome, error) {
	var o Outcome
	for e, err := range a.Stream(ctx, in) {
		if err != nil {
			o.Interrupts = e.Interrupts
			return o, err
		}
		if e.Usage != nil {
			o.Usage.add(*e.Usage)
		}
		if e.Agent != "" {
			continue // what a subagent asks the agent asks, too
		}
		switch e.Kind {
		case EventSaved:
			if in.Thread != "" && !a.unsaved {
				o.Saved = e.Saved
			}
		case EventInterrupted:
			o.Interrupts = e.Interrupts
		case EventDone:
			o.Text, o.Output, o.Stop = e.Text, e.Output, e.Stop
		}
	}
	return o, nil
}
