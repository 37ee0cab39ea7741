package fleet

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// interposer calls a function once, before the first statement with a text that a marked context sends.
type interposer struct {
	text string
	do   func()
	once sync.Once
}

// isMarked is the key of contexts: an interposer sees only statements under a context that has it.
type isMarked struct{}

func (i *interposer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if ctx.Value(isMarked{}) != nil && strings.Contains(q.SQL, i.text) {
		i.once.Do(i.do)
	}
	return ctx
}

func (i *interposer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// newTracedRig returns a rig with an interposer between its pool and the server.
func newTracedRig(t *testing.T, i *interposer) *rig {
	t.Helper()
	return newRig(t, func(c *Config) {
		config, err := pgxpool.ParseConfig(server.URL + "&synchronous_commit=off&pool_max_conns=8")
		if err != nil {
			t.Fatal(err)
		}
		config.ConnConfig.Tracer = i
		if c.Pool, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Pool.Close)
	})
}

// marked returns a context for statements that an interposer must see.
func marked(t *testing.T) context.Context { return context.WithValue(t.Context(), isMarked{}, true) }

// TestACancelledPromptIsAnsweredMeanwhile cancels a prompt that waits. Before the turn is undone, its question is answered and the turn
// ends; in the second case the turn of the next prompt ends, too. Neither turn may be undone.
func TestACancelledPromptIsAnsweredMeanwhile(t *testing.T) {
	for _, last := range []string{"k", "next"} {
		t.Run(last, func(t *testing.T) {
			between := &interposer{text: "owner"} // of the lease under which a thread is moved
			r := newTracedRig(t, between)
			r.start(r.Worker(r.with(tool("ask", func(ctx context.Context) (string, error) {
				a, err := agent.Interrupt(ctx, agent.Ask{Text: "really?"})
				return a.Text, err
			}))))
			r.send(Prompt{Thread: "t", Text: "ask", Key: "k"})
			question := r.awaitQuestion("t")
			isAnswered := false
			between.do = func() {
				if err := r.Decide(t.Context(), "t", segno.Decision{Interrupt: question.ID, Kind: segno.Respond, Text: "yes"}); err != nil {
					t.Error(err)
				}
				if last != "k" {
					r.send(Prompt{Thread: "t", Text: "hello", Key: last})
				}
				r.await("t", last, StateDone)
				isAnswered = true
			}
			err := r.Cancel(marked(t), "t", "k")
			if !isAnswered || segno.KindOf(err) != segno.KindRefused {
				t.Errorf("cancelling a prompt that was answered (%v) meanwhile: %v", isAnswered, err)
			}
			for _, key := range []string{"k", last} {
				if has, err := r.hasTurn(t.Context(), "t", key); err != nil || !has {
					t.Errorf("the prompt %s is %s, and its turn was undone: %v", key, r.prompt("t", key).State, err)
				}
			}
		})
	}
}

// TestTheQuestionOfACancelledSessionIsClosed cancels a prompt while its turn waits in a session of an agent. Such a turn is not undone, and
// its question must not stay among the open ones.
func TestTheQuestionOfACancelledSessionIsClosed(t *testing.T) {
	r := newRig(t)
	var head segno.Head
	commit := func(c segno.Commit) {
		c.ID, c.Thread, c.Parent, c.Expect = segno.CommitID(segno.NewID()), "t", head.Head, head.Head
		var err error
		if head, err = r.Store().Commit(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	r.start(r.runner(func(_ context.Context, work Work) (Result, error) {
		if work.Prompt.Key == "next" {
			return done("hello")
		}
		q := segno.Interrupt{ID: "q", Thread: "t", Call: "1", Tool: "pay bob", Args: []byte("null"), Reason: segno.ReasonApproval, Question: "really?",
			Allowed: []segno.DecisionKind{segno.Approve, segno.Reject}, Asked: time.Now()}
		q.ArgsHash = segno.HashArgs(q.Args)
		e, err := q.Entry()
		commit(segno.Commit{Create: &segno.Thread{ID: "t", Agent: "claude"}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1, Interrupted: true,
			Session: &segno.Position{Agent: "claude", Session: "s"}, Time: time.Now()}})
		commit(segno.Commit{Entries: []segno.Entry{e}})
		return Result{Phase: agent.PhaseWaiting, Text: q.Question}, err
	}))
	r.send(Prompt{Thread: "t", Text: "pay bob", Key: "k"})
	r.await("t", "k", StateWaiting)
	r.send(Prompt{Thread: "t", Text: "hello", Key: "next"})
	if err := r.Cancel(t.Context(), "t", "k"); err != nil {
		t.Fatal(err)
	}
	r.await("t", "next", StateDone)
	for q, err := range r.agentFor().Inbox(t.Context(), "") {
		t.Errorf("a user is asked for a prompt that was cancelled: %+v, %v", q, err)
	}
}

// TestATurnIsUndoneWhileItContinues undoes a turn that waits, while a worker is about to continue it. The worker must not begin the turn
// again: what it did, it would do twice.
func TestATurnIsUndoneWhileItContinues(t *testing.T) {
	between := &interposer{text: "owner"} // of the lease under which a turn runs
	r := newTracedRig(t, between)
	var did log
	agents := r.with(tool("ask", func(ctx context.Context) (string, error) {
		did.add("mail")
		a, err := agent.Interrupt(ctx, agent.Ask{Text: "really?"})
		return a.Text, err
	}))
	work := Work{Thread: "t", Prompt: Prompt{Thread: "t", Agent: "support", Text: "ask", Key: "k"}}
	run := agentRunner{r.Fleet, agents["support"]}
	between.do = func() {
		if _, err := r.agentFor().Undo(t.Context(), "t", 1); err != nil {
			t.Error(err)
		}
	}
	if result, err := run.Run(t.Context(), work); err != nil || result.Phase != agent.PhaseWaiting {
		t.Fatalf("the turn is %+v, %v", result, err)
	}
	work.HasWaited = true
	if result, err := run.Run(marked(t), work); err != nil || !result.isUndone {
		t.Errorf("a turn that was undone is %+v, %v", result, err)
	}
	if got := did.String(); got != "mail" {
		t.Errorf("the turn did %s", got)
	}
}
