package agent_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/store/memory"
)

func (r *rig) found(q agent.FindQuery) (ids []string) {
	r.Helper()
	for f, err := range r.agent.Find(r.ctx, q) {
		r.ok(err)
		if f.Phase != q.Phase {
			r.Errorf("thread %s is listed as %s among those that are %s", f.Thread.ID, f.Phase, q.Phase)
		}
		ids = append(ids, string(f.Thread.ID))
	}
	return ids
}

// inbox returns the open questions, by thread.
func (r *rig) inbox(after string) (all []agent.Question) {
	r.Helper()
	for q, err := range r.agent.Inbox(r.ctx, after) {
		r.ok(err)
		all = append(all, q)
	}
	return all
}

func TestTheInboxHasEachOpenQuestionOnce(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.asking()
		for i := range 3 {
			_, err := r.try(agent.Input{Thread: fmt.Sprint("asks ", i), Prompt: askMail})
			r.ok(err)
			_, err = r.try(agent.Input{Thread: fmt.Sprint("done ", i), Prompt: "hello"})
			r.ok(err)
		}
		all := r.inbox("")
		var threads []string
		for _, q := range all {
			threads = append(threads, q.Thread)
		}
		if !slices.Equal(threads, []string{"asks 0", "asks 1", "asks 2"}) {
			r.Fatalf("the inbox has questions of %v", threads)
		}
		if rest := r.inbox("asks 1"); len(rest) != 1 || rest[0].Thread != "asks 2" {
			r.Errorf("after the first two threads the inbox has %v", rest)
		}
		r.ok(r.agent.Decide(r.ctx, all[1].Thread, approve(all[1].Interrupt)))
		if left := r.inbox(""); len(left) != 2 || left[1].Thread != "asks 2" {
			r.Errorf("after a decision the inbox has %v", left)
		}
		if got := r.found(agent.FindQuery{Phase: agent.PhaseBrokenOff}); !slices.Equal(got, []string{"asks 1"}) {
			r.Errorf("broken off are %v", got)
		}
		if got := r.found(agent.FindQuery{Phase: agent.PhaseDone, After: "done 0", Limit: 1}); !slices.Equal(got, []string{"done 1"}) {
			r.Errorf("the second page of one done thread is %v", got)
		}
		r.restart()
		if left := r.inbox(""); len(left) != 2 {
			r.Errorf("another process finds %v", left)
		}
		for _, err := range r.agent.Find(r.ctx, agent.FindQuery{Phase: "waitng"}) {
			r.wants(err, segno.KindInvalid)
		}
	})
}

// readsOf is a store that counts the commits that it loads.
type readsOf struct {
	segno.Store
	n int
}

func (s *readsOf) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	line, err := s.Store.Load(ctx, at, w)
	if err == nil {
		s.n += len(line.Commits)
	}
	return line, err
}

// TestTheInboxReadsTheEndsOfThreads lists the questions of threads with long histories, of which most sleep. It must not
// read the histories.
func TestTheInboxReadsTheEndsOfThreads(t *testing.T) {
	r := newRig(t)
	c := r.waiting(agent.LostRetry, func(ctx context.Context, _ *agent.Invocation) (string, error) {
		agent.Sleep(ctx, time.Hour)
		a, err := agent.Interrupt(ctx, agent.Ask{Text: "really?"})
		return a.Text, err
	})
	const threads, turns = 5, 20
	for i := range threads {
		id := fmt.Sprint("t", i)
		for n := range turns {
			_, err := r.try(agent.Input{Thread: id, Prompt: fmt.Sprint("say ", n)})
			r.ok(err)
		}
		_, err := r.try(agent.Input{Thread: id, Prompt: callWork})
		r.ok(err)
	}
	c.advance(time.Hour)
	_, err := r.try(agent.Input{Thread: "t2"})
	r.ok(err)
	counted := &readsOf{Store: r.store}
	var asked []string
	for q, err := range agent.New(agent.Config{Store: counted}).Inbox(r.ctx, "") {
		r.ok(err)
		asked = append(asked, q.Thread+" "+q.Interrupt.Question)
	}
	if !slices.Equal(asked, []string{"t2 really?"}) {
		t.Errorf("the inbox is %q", asked)
	}
	if most := 8 * threads; counted.n > most {
		t.Errorf("%d commits were read, want at most %d", counted.n, most)
	}
}

// TestASaversQuestionIsInTheInbox saves a question through a saver, without an agent.
func TestASaversQuestionIsInTheInbox(t *testing.T) {
	store := memory.New(nil)
	sv := saver.New(store)
	asks := saver.Snapshot{ThreadKey: saver.ThreadKey{Thread: "asks"}, Interrupts: []segno.Interrupt{{ID: "1", Tool: "deploy", Args: []byte(`{}`)}}}
	asked, err := sv.Save(t.Context(), asks)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sv.Save(t.Context(), saver.Snapshot{ThreadKey: saver.ThreadKey{Thread: "saves"}}); err != nil {
		t.Fatal(err)
	}
	a := agent.New(agent.Config{Store: store})
	questions := func() (all []string) {
		for q, err := range a.Inbox(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, q.Thread+" "+q.Interrupt.Tool)
		}
		return all
	}
	if got := questions(); !slices.Equal(got, []string{"asks deploy"}) {
		t.Errorf("the inbox is %v", got)
	}
	asked.Decisions = []segno.Decision{{Interrupt: "1", Kind: segno.Approve}}
	if _, err := sv.Save(t.Context(), asked); err != nil {
		t.Fatal(err)
	}
	if got := questions(); len(got) != 0 {
		t.Errorf("after the decision the inbox is %v", got)
	}
	n := 0
	for _, err := range a.Find(t.Context(), agent.FindQuery{Phase: agent.PhaseDone}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d threads are done, want 2: each save is whole", n)
	}
}

// BenchmarkInbox finds ten waiting threads among others that are done.
func BenchmarkInbox(b *testing.B) {
	for _, others := range []int{0, 100, 10_000} {
		for name, open := range map[string]func(testing.TB) *rig{
			"memory": newRig, "sqlite": func(t testing.TB) *rig { return onDisk(t, b.TempDir()) },
		} {
			b.Run(fmt.Sprintf("%s/others=%d", name, others), func(b *testing.B) {
				r := open(b).asking()
				for i := range 10 {
					_, err := r.try(agent.Input{Thread: fmt.Sprint("asks ", i), Prompt: askMail})
					r.ok(err)
				}
				for i := range others {
					id := segno.ThreadID(fmt.Sprint("done ", i))
					_, err := r.store.Commit(b.Context(), segno.Commit{ID: segno.CommitID(id), Thread: id, Create: &segno.Thread{ID: id},
						Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1}})
					r.ok(err)
				}
				b.ResetTimer()
				for b.Loop() {
					if n := len(r.inbox("")); n != 10 {
						b.Fatalf("the inbox has %d questions", n)
					}
				}
			})
		}
	}
}
