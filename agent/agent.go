package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/timeline"
)

// Config configures an agent. Only Model is required.
type Config struct {
	Name   string // in checkpoints and traces; "" is "agent"
	Model  Model
	System string // the system prompt
	// Store keeps the threads. Without a store, and in a run without a thread, the agent keeps
	// nothing after the run.
	Store segno.Store
	// Durability is that of the steps. With [segno.Batched], a power failure may remove the newest steps
	// and their events, and the run repeats them. The intents of calls that may not run again, signals and
	// decisions are always [segno.Synced], and so are commits with files.
	Durability segno.Durability
	// Timeline is the workspace of the tools. Set it if the workspace's files belong to the
	// checkpoints: the agent saves them where a turn begins and where a run ends. Timeline must
	// use Store. See [OpenTimeline]. If a run was killed, the changes until the next run of its turn
	// belong to the turn, because segno does not see who made them. Only if another thread worked in the directory
	// meanwhile, an undo leaves those that no tool of the turn names, as conflicts.
	Timeline *timeline.Timeline
	// FilesAt is set if the directory of Timeline is a copy of the files of a commit that was made for one run, and may be
	// lost with its machine. The run then saves the files with each step, and its error has [segno.KindConflict]
	// if the head of its thread is another commit.
	FilesAt segno.CommitID
	Tools   []Tool
	// Subagents are offered to the model through the tool "task"; see [Subagent].
	Subagents []Subagent
	// Agents are the agents that [Child] may prompt in this process, by name. If it is nil, a call of
	// Child waits until another program runs the prompt.
	Agents map[string]*Agent
	// Approve decides which calls need approval; nil approves all. See [RequireApproval].
	Approve Approver
	// Answer is called during a run, after the interrupts are committed. It receives those that a
	// person answers, and may answer any number of them. If an interrupt remains, or if Answer is nil, the run ends interrupted.
	Answer func(ctx context.Context, open []segno.Interrupt) ([]segno.Decision, error)
	// MaxSteps limits the steps of a run; 0 is 100. Retries and summaries do not count.
	MaxSteps int
	// Parallel limits the calls of a step that run concurrently; 0 is 16.
	Parallel int
	// MaxTokens limits an answer of the model; 0 is the model's default.
	MaxTokens int
	// Retry bounds the retries after transient failures of the model.
	Retry Retry
	// StoreRetry bounds the retries after transient failures of the store. The zero value is 12
	// attempts with waits from 50 ms to 5 s, about 20 s in all.
	StoreRetry Retry
	// LeaseTime is how long a run keeps its thread from runs on other machines after it stopped
	// renewing its lease, because its machine failed or lost its network. 0 is 30 s; the minimum
	// is 3 s. On the same machine, and in the same PID namespace, the end of the run's process
	// frees the thread at once.
	LeaseTime time.Duration
	// Summarize configures summaries of long conversations.
	Summarize Summarize
	// Evict is the length in bytes above which a result is moved to a file of the state. The
	// model then receives only its beginning and its end. 0 is 80,000, negative is never.
	Evict int
	// Tracer creates the spans; nil is the process's default.
	Tracer trace.Tracer
	// Now is the clock; nil is the system's.
	Now func() time.Time
}

// Agent runs turns of threads. It is safe for concurrent use. If two runs use one thread at the
// same time, one of them returns [ErrRunning]. Config has the defaults filled in and must not be
// changed.
type Agent struct {
	Config
	unsaved  bool // the store is not the caller's
	registry *registry
	tools    map[string]Tool
	specs    []ToolSpec
	schemas  map[string]*schema
}

// New returns an agent. If the config is invalid, the first run returns the error.
func New(c Config) *Agent {
	a := &Agent{Config: c, registry: newRegistry(), tools: map[string]Tool{}, schemas: map[string]*schema{}}
	a.Name, a.MaxSteps, a.Parallel, a.Evict = cmp.Or(a.Name, "agent"), cmp.Or(a.MaxSteps, 100), cmp.Or(a.Parallel, 16), cmp.Or(a.Evict, 80_000)
	a.LeaseTime = cmp.Or(a.LeaseTime, 30*time.Second)
	if a.Store == nil {
		a.Store, a.unsaved = memory.New(time.Now), true
	}
	a.Retry = a.Retry.withDefaults(Retry{Attempts: 5, Wait: time.Second, MaxWait: time.Minute})
	a.StoreRetry = a.StoreRetry.withDefaults(Retry{Attempts: 12, Wait: 50 * time.Millisecond, MaxWait: 5 * time.Second})
	if a.Tracer == nil {
		a.Tracer = otel.Tracer("github.com/dalsegno/segno/agent")
	}
	if a.Now == nil {
		a.Now = time.Now
	}
	tools := a.Tools
	if len(a.Subagents) > 0 {
		tools = append(tools[:len(tools):len(tools)], a.taskTool())
	}
	for _, t := range tools {
		a.tools[t.Name], a.schemas[t.Name] = t, parseSchema(t.Schema)
	}
	a.specs = specsOf(tools)
	return a
}

func specsOf(tools []Tool) (specs []ToolSpec) {
	for _, t := range tools {
		specs = append(specs, t.ToolSpec)
	}
	return specs
}

// Outcome is the result of a run.
type Outcome struct {
	Text       string            // the answer, "" if there is none yet
	Output     json.RawMessage   // the structured answer
	Stop       Stop              // length or refusal, if that cut the answer short
	Interrupts []segno.Interrupt // what the turn waits for: questions, and the waits of calls
	Wake       time.Time         // when the turn continues without an answer: run the thread again then; zero if it does not
	Saved      segno.CommitID    // the newest checkpoint; "" for a run that is not saved
	Usage      Usage             // of this run and its subagents
}

// Run runs a thread until its turn ends, waits for a decision, or fails. Waiting is not an
// error: the outcome has the interrupts. It has them, too, if Run returns the error for a lost
// call of a tool with [LostFail]. The other errors are those of [Agent.Stream].
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
			continue // the agent's own events repeat a subagent's questions
		}
		switch e.Kind {
		case EventSaved:
			if in.Thread != "" && !a.unsaved {
				o.Saved = e.Saved
			}
		case EventInterrupted:
			o.Interrupts, o.Wake = e.Interrupts, e.Wake
		case EventDone:
			o.Text, o.Output, o.Stop = e.Text, e.Output, e.Stop
		}
	}
	return o, nil
}

// Stream is [Agent.Run] as a sequence of events. The caller may stop at any time and loses only
// the step in progress. While the caller handles an event, the run waits; calls of tools continue.
//
// The last event is done, interrupted or error. The sequence yields an error event together with the
// error. Errors are [segno.Error]s: [segno.KindConflict] with [ErrRunning] and a
// [segno.ConflictError] if another run has the thread, [segno.KindRefused] if the thread waits
// for decisions or a call's outcome is unknown.
func (a *Agent) Stream(ctx context.Context, in Input) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		r := a.saving(in).newRun(in)
		receiving := true
		r.send = func(e Event) {
			if receiving && !yield(e, nil) {
				receiving = false
				cancel(segno.NewError(segno.KindCancelled, "run agent", "", nil))
			}
		}
		err := cmp.Or(a.check(), checkOutput(in.Output))
		if err == nil {
			err = r.execute(ctx, r.beginRun)
		}
		if err != nil && receiving {
			yield(a.errorEvent(in, err), err)
		}
	}
}

// saving returns the agent for a run. A run that is not saved has a separate store.
func (a *Agent) saving(in Input) *Agent {
	if !a.unsaved && in.Thread != "" {
		return a
	}
	once := *a
	once.Store, once.Timeline, once.unsaved = memory.New(a.Now), nil, true
	return &once
}

// errorEvent returns the last event of a run that failed.
func (a *Agent) errorEvent(in Input, err error) Event {
	e := Event{Kind: EventError, Thread: segno.ThreadID(in.Thread), Text: err.Error(), Time: a.Now()}
	var lost *lostError
	if errors.As(err, &lost) {
		e.Interrupts = lost.open
	}
	return e
}

// check returns an error for a config that no run can use.
func (a *Agent) check() error {
	problem := ""
	require := func(ok bool, format string, args ...any) {
		if !ok {
			problem = fmt.Sprintf(format, args...)
		}
	}
	checkTools := func(owner string, specs []ToolSpec) {
		seen := map[string]bool{answerName: true}
		for _, t := range specs {
			require(!seen[t.Name], "%s has two tools named %q", owner, t.Name)
			seen[t.Name] = true
		}
	}
	checkTools("the agent", a.specs)
	names := map[string]bool{}
	for _, s := range a.Subagents {
		require(!names[s.Name], "two subagents have the name %q", s.Name)
		names[s.Name] = true
		checkTools(fmt.Sprintf("the subagent %q", s.Name), specsOf(s.Tools))
	}
	require(a.Model != nil, "the agent has no model")
	require(a.LeaseTime >= 3*time.Second, "the lease time is less than three seconds")
	require(a.Timeline == nil || !areDifferent(a.Timeline.Store, a.Store), "the timeline has another store")
	if problem == "" {
		return nil
	}
	return segno.Errorf(segno.KindInvalid, "run agent", a.Name, "%s", problem)
}

// areDifferent reports whether two stores of the same type are different stores.
func areDifferent(a, b segno.Store) bool {
	t := reflect.TypeOf(a)
	return t == reflect.TypeOf(b) && t.Kind() == reflect.Pointer && a != b
}
