package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/timeline"
)

// log records what tools did, in order.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, ", ")
}

// caller is a model that calls the tool named by a prompt, and then answers with the tool's result.
type caller struct{}

func (caller) Name() string { return "test/caller" }

func (caller) Generate(_ context.Context, r agent.Request) iter.Seq2[agent.Chunk, error] {
	return func(yield func(agent.Chunk, error) bool) {
		last := r.Messages[len(r.Messages)-1]
		reply := agent.Reply{Message: agent.Message{Role: agent.Assistant}, Stop: agent.StopEnd}
		for _, p := range last.Parts {
			switch {
			case p.Result != nil:
				reply.Message.Parts = append(reply.Message.Parts, agent.Part{Text: p.Result.Text})
			case slices.ContainsFunc(r.Tools, func(t agent.ToolSpec) bool { return t.Name == p.Text }):
				reply.Stop = agent.StopTools
				reply.Message.Parts = append(reply.Message.Parts, agent.Part{Call: &agent.Call{ID: segno.NewID(), Name: p.Text, Args: json.RawMessage(`{}`)}})
			default:
				reply.Message.Parts = append(reply.Message.Parts, agent.Part{Text: "you said " + p.Text})
			}
		}
		yield(agent.Chunk{Reply: &reply}, nil)
	}
}

// tool returns a tool without arguments.
func tool(name string, run func(ctx context.Context) (string, error)) agent.Tool {
	return agent.Tool{ToolSpec: agent.ToolSpec{Name: name, Schema: json.RawMessage(`{"type":"object"}`)},
		Run: func(ctx context.Context, _ *agent.Invocation) (agent.Result, error) {
			text, err := run(ctx)
			return agent.Result{Text: text}, err
		}}
}

// with returns an agent that calls tools.
func (r *rig) with(tools ...agent.Tool) map[string]*agent.Agent {
	return map[string]*agent.Agent{"support": r.agent(func(c *agent.Config) { c.Model, c.Tools = caller{}, tools })}
}

// TestAThreadWaitsInTheDatabase makes a turn wait for a person, a signal, a time and another thread. Nothing runs while it waits:
// another worker continues it.
func TestAThreadWaitsInTheDatabase(t *testing.T) {
	r := newRig(t)
	agents := r.with(
		tool("ask", func(ctx context.Context) (string, error) {
			a, err := agent.Interrupt(ctx, agent.Ask{Text: "really?"})
			return a.Text, err
		}),
		tool("signal", func(ctx context.Context) (string, error) {
			a, err := agent.Await(ctx, "paid")
			return a.Text, err
		}),
		tool("sleep", func(ctx context.Context) (string, error) {
			agent.Sleep(ctx, 50*time.Millisecond)
			return "slept", nil
		}),
		tool("child", func(ctx context.Context) (string, error) {
			a, err := agent.Child(ctx, segno.Child{Agent: "support", Prompt: "hello"})
			return a.Text, err
		}),
		tool("refused", func(ctx context.Context) (string, error) {
			_, err := agent.Child(ctx, segno.Child{Agent: "support", Prompt: "hello", Thread: "\x00"})
			return fmt.Sprint(err), nil
		}))
	for _, text := range []string{"ask", "signal", "sleep", "child", "refused"} {
		r.send(Prompt{Thread: text, Text: text, Key: "k"})
	}
	stop := r.start(r.Worker(agents))
	question := r.awaitQuestion("ask")
	r.await("signal", "k", StateWaiting)
	for _, text := range []string{"sleep", "child", "refused"} {
		r.await(text, "k", StateDone)
	}
	stop()
	if err := r.Decide(t.Context(), "ask", segno.Decision{Interrupt: question.ID, Kind: segno.Respond, Text: "yes"}); err != nil {
		t.Fatal(err)
	}
	if err := r.Signal(t.Context(), "signal", "paid", "1", 7); err != nil {
		t.Fatal(err)
	}
	r.start(r.Worker(agents))
	for thread, want := range map[string]string{"ask": "yes", "signal": "7", "sleep": "slept", "child": "you said hello"} {
		if p := r.await(thread, "k", StateDone); p.Outcome != want {
			t.Errorf("%s ended with %q and the error %q", thread, p.Outcome, p.Error)
		}
	}
}

// TestThreadsAwaitOnePrompt has three threads await the same prompt of another thread: two while it waits, and one after it was
// answered. Each receives the answer.
func TestThreadsAwaitOnePrompt(t *testing.T) {
	r := newRig(t)
	r.start(r.Worker(r.with(
		tool("ask", func(ctx context.Context) (string, error) {
			a, err := agent.Interrupt(ctx, agent.Ask{Text: "really?"})
			return a.Text, err
		}),
		tool("child", func(ctx context.Context) (string, error) {
			a, err := agent.Child(ctx, segno.Child{Agent: "support", Prompt: "ask", Thread: "shared", Key: "k"})
			return a.Text, err
		}))))
	for _, parent := range []string{"one", "two"} {
		r.send(Prompt{Thread: parent, Text: "child", Key: "k"})
		r.await(parent, "k", StateWaiting)
	}
	q := r.awaitQuestion("shared")
	if err := r.Decide(t.Context(), "shared", segno.Decision{Interrupt: q.ID, Kind: segno.Respond, Text: "yes"}); err != nil {
		t.Fatal(err)
	}
	r.await("two", "k", StateDone) // the thread that came last, whose wait replaced the first one's
	r.send(Prompt{Thread: "three", Text: "child", Key: "k"})
	r.await("three", "k", StateDone)
	for _, parent := range []string{"one", "two", "three"} {
		if p := r.await(parent, "k", StateDone); p.Outcome != "yes" {
			t.Errorf("%s ended with %q and the error %q", parent, p.Outcome, p.Error)
		}
	}
}

// awaitQuestion waits until a thread waits, and returns what it waits for.
func (r *rig) awaitQuestion(thread string) segno.Interrupt {
	r.Helper()
	r.await(thread, "k", StateWaiting)
	s, err := r.agentFor().Status(r.Context(), thread)
	if err != nil || len(s.Interrupts) != 1 {
		r.Fatalf("%s waits for %v, %v", thread, s.Interrupts, err)
	}
	return s.Interrupts[0]
}

// TestPromptsOfAThreadRunInOrder sends prompts to two threads; the prompts of one thread run in their order, one at a time.
func TestPromptsOfAThreadRunInOrder(t *testing.T) {
	r := newRig(t)
	var steps log
	agents := r.with()
	w := r.Worker(nil)
	w.Runners = map[string]Runner{"support": runnerFunc(func(ctx context.Context, work Work) (Result, error) {
		steps.add("%s begins", work.Prompt.Text)
		defer steps.add("%s ends", work.Prompt.Text)
		return agentRunner{r.Fleet, agents["support"]}.Run(ctx, work)
	})}
	for i := range 5 {
		r.send(Prompt{Thread: "t", Text: fmt.Sprint(i), Key: fmt.Sprint(i)})
	}
	r.start(w)
	r.await("t", "4", StateDone)
	want := "0 begins, 0 ends, 1 begins, 1 ends, 2 begins, 2 ends, 3 begins, 3 ends, 4 begins, 4 ends"
	if got := steps.String(); got != want {
		t.Errorf("%s", got)
	}
}

type runnerFunc func(context.Context, Work) (Result, error)

func (f runnerFunc) Run(ctx context.Context, w Work) (Result, error) { return f(ctx, w) }

// TestAnAgentsRequestIsNotAQuestion has agents ask for permission: with a request that looks like a question to another thread, with one
// that the user answered, and with one whose field has another type than that of a question. No prompt is sent, and each turn waits
// after one run.
func TestAnAgentsRequestIsNotAQuestion(t *testing.T) {
	r := newRig(t)
	id := timeline.PermissionID("call")
	ask := func(body string) segno.Entry {
		return segno.Entry{Kind: segno.EntryInterrupt, ID: id, Body: json.RawMessage(body)}
	}
	requests := map[string][]segno.Entry{
		"child":    {ask(`{"id":"x","child":{"thread":"other","agent":"support","prompt":"obey","key":"k"}}`)},
		"answered": {ask(`{}`), {Kind: segno.EntryDecision, ID: id, Body: json.RawMessage(`{"outcome":{"outcome":"cancelled"}}`)}},
		"mistyped": {ask(`{"wake":7}`)},
	}
	var runs log
	w := r.Worker(nil)
	w.Slots, w.MaxAttempts = 1, 1 // so that the jobs run in their order
	w.Runners = map[string]Runner{"support": runnerFunc(func(ctx context.Context, work Work) (Result, error) {
		runs.add("%s", work.Thread)
		if requests[work.Thread] == nil {
			return done("")
		}
		id := segno.ThreadID(work.Thread)
		_, err := r.Store().Commit(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: id, Create: &segno.Thread{ID: id}, Entries: requests[work.Thread]})
		return Result{Phase: agent.PhaseWaiting}, err
	})}
	for _, thread := range []string{"child", "answered", "mistyped"} {
		r.send(Prompt{Thread: thread, Key: "k", Text: "x"})
	}
	r.start(w)
	for thread := range requests {
		p := r.awaitThat(thread, "k", func(p *PromptState) bool { return p.State == StateWaiting || p.State == StateParked })
		if p.State != StateWaiting {
			t.Errorf("%s: the turn does not wait: %+v", thread, p)
		}
	}
	r.send(Prompt{Thread: "last", Key: "k", Text: "x"})
	r.await("last", "k", StateDone)
	if got := runs.String(); got != "child, answered, mistyped, last" {
		t.Errorf("the worker ran %s", got)
	}
	for p, err := range r.Prompts(t.Context(), PromptQuery{Thread: "other"}) {
		t.Errorf("the agent sent %+v, %v", p, err)
	}
}
