package segnogenkit_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dalsegno/segno"
	segnogenkit "github.com/dalsegno/segno/adapters/genkit"
	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/store/memory"
	"github.com/firebase/genkit/go/genkit"
)

// durable returns a durable flow. The input of the flow names the thread.
func durable(t *testing.T, store *memory.Store, repeat func(string) bool, fn func(context.Context, string) (string, error)) func(context.Context, string) (string, error) {
	options := segnogenkit.Options[string]{Store: store, Repeat: repeat, Thread: func(id string) string { return id }}
	return genkit.DefineFlow(genkit.Init(t.Context()), "flow", segnogenkit.Durable(options, fn)).Run
}

// payment is a durable flow that retries a step, and then asks a question.
func payment(t *testing.T, store *memory.Store, pay func() error) func(context.Context, string) (string, error) {
	return durable(t, store, nil, func(ctx context.Context, _ string) (string, error) {
		var err error
		for range 3 {
			attempt, cancel := context.WithCancel(ctx)
			if _, err = segnogenkit.Run(attempt, "pay", func() (string, error) {
				err := pay()
				if errors.Is(err, context.Canceled) {
					cancel()
				}
				return "paid", err
			}); err == nil {
				cancel()
				break
			}
			cancel()
		}
		if err != nil {
			return "", err
		}
		return segnogenkit.Ask[string](ctx, "next", "what next?")
	})
}

// A flow retries a step until it ends. When the flow continues after a question, the step does not run again.
func TestARetriedStepIsNotRepeated(t *testing.T) {
	for _, failure := range []error{errors.New("no connection"), context.Canceled} {
		store, calls := memory.New(nil), 0
		flow := payment(t, store, func() error {
			if calls++; calls < 3 {
				return failure
			}
			return nil
		})
		var waits *segnogenkit.WaitingError
		for range 2 {
			if _, err := flow(t.Context(), "t"); !errors.As(err, &waits) || calls != 3 {
				t.Errorf("%v: %d calls, %v", failure, calls, err)
			}
		}
		if err := segnogenkit.Answer(t.Context(), store, "t", "next", "done"); err != nil {
			t.Fatal(err)
		}
		if out, err := flow(t.Context(), "t"); out != "done" || err != nil || calls != 3 {
			t.Errorf("%v: %q, %v, %d calls", failure, out, err, calls)
		}
		store.Close()
	}
}

// The last attempt of a step that failed is repeated in the next call of the flow.
func TestAFailedStepRunsAgain(t *testing.T) {
	store, calls := memory.New(nil), 0
	defer store.Close()
	flow := payment(t, store, func() error {
		if calls++; calls < 4 {
			return errors.New("no connection")
		}
		return nil
	})
	if _, err := flow(t.Context(), "t"); err == nil || err.Error() != "no connection" || calls != 3 {
		t.Fatalf("%v, %d calls", err, calls)
	}
	var waits *segnogenkit.WaitingError
	if _, err := flow(t.Context(), "t"); !errors.As(err, &waits) || calls != 4 {
		t.Errorf("%v, %d calls", err, calls)
	}
}

// A step that was cancelled may have had its effect, as one that a crash interrupted.
func TestACancelledStepIsNotRepeatedSilently(t *testing.T) {
	store, calls := memory.New(nil), 0
	defer store.Close()
	ctx, cancel := context.WithCancel(t.Context())
	may := false
	flow := durable(t, store, func(string) bool { return may }, func(ctx context.Context, _ string) (string, error) {
		return segnogenkit.Run(ctx, "pay", func() (string, error) {
			if calls++; calls == 1 {
				cancel()
				return "", ctx.Err()
			}
			return "paid", nil
		})
	})
	if _, err := flow(ctx, "t"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	var lost *segnogenkit.LostError
	if _, err := flow(t.Context(), "t"); !errors.As(err, &lost) || lost.Step != "pay" || calls != 1 {
		t.Errorf("%v, %d calls", err, calls)
	}
	may = true
	if out, err := flow(t.Context(), "t"); out != "paid" || err != nil || calls != 2 {
		t.Errorf("%q, %v, %d calls", out, err, calls)
	}
}

// A person answers a question while another step of the flow runs. The result of that step is not lost.
func TestAnAnswerDuringAStep(t *testing.T) {
	store, calls := memory.New(nil), 0
	defer store.Close()
	flow := durable(t, store, nil, func(ctx context.Context, _ string) (string, error) {
		answer, asked := segnogenkit.Ask[string](ctx, "approve", "may I?")
		done, err := segnogenkit.Run(ctx, "prepare", func() (string, error) {
			calls++
			return "prepared", segnogenkit.Answer(ctx, store, "t", "approve", "yes")
		})
		return done + " " + answer, errors.Join(asked, err)
	})
	var waits *segnogenkit.WaitingError
	if _, err := flow(t.Context(), "t"); !errors.As(err, &waits) {
		t.Fatal(err)
	}
	if out, err := flow(t.Context(), "t"); out != "prepared yes" || err != nil || calls != 1 {
		t.Errorf("%q, %v, %d calls", out, err, calls)
	}
}

// troubled is a store that fails once, before or after it applied the commit with the result of a step.
type troubled struct {
	*memory.Store
	kind      segno.Kind
	isApplied bool
	failed    bool
}

func (s *troubled) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	if s.failed || c.Checkpoint == nil || c.Checkpoint.Meta["genkit"] != "step ends" {
		return s.Store.Commit(ctx, c)
	}
	s.failed = true
	if s.isApplied {
		if _, err := s.Store.Commit(ctx, c); err != nil {
			return segno.Head{}, err
		}
	}
	return segno.Head{}, segno.Errorf(s.kind, "commit", string(c.ID), "no connection")
}

// The store fails for a moment after a step ended. The result of the step is not lost.
func TestAStoreFailsAfterAStep(t *testing.T) {
	for _, isApplied := range []bool{false, true} {
		for _, kind := range []segno.Kind{segno.KindIO, segno.KindBusy} {
			store, calls := &troubled{Store: memory.New(nil), kind: kind, isApplied: isApplied}, 0
			options := segnogenkit.Options[string]{Store: store, Thread: func(id string) string { return id }}
			flow := genkit.DefineFlow(genkit.Init(t.Context()), "flow", segnogenkit.Durable(options, func(ctx context.Context, _ string) (string, error) {
				return segnogenkit.Run(ctx, "pay", func() (string, error) { calls++; return "paid", nil })
			}))
			for range 2 {
				if out, err := flow.Run(t.Context(), "t"); out != "paid" || err != nil || calls != 1 {
					t.Errorf("applied %v, %v: %q, %v, %d calls", isApplied, kind, out, err, calls)
				}
			}
			store.Close()
		}
	}
}

// rival is a store in which another person answers just before an answer is committed.
type rival struct {
	*memory.Store
	answer string
}

func (s *rival) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	if answer := s.answer; answer != "" && c.Checkpoint != nil && c.Checkpoint.Meta["genkit"] == "answer" {
		s.answer = ""
		if err := segnogenkit.Answer(ctx, s.Store, "t", "next", answer); err != nil {
			return segno.Head{}, err
		}
	}
	return s.Store.Commit(ctx, c)
}

// Two persons answer at the same time. The first answer counts.
func TestTwoAnswersAtTheSameTime(t *testing.T) {
	for _, second := range []string{"yes", "no"} {
		store := memory.New(nil)
		flow := durable(t, store, nil, func(ctx context.Context, _ string) (string, error) {
			return segnogenkit.Ask[string](ctx, "next", "may I?")
		})
		var waits *segnogenkit.WaitingError
		if _, err := flow(t.Context(), "t"); !errors.As(err, &waits) {
			t.Fatal(err)
		}
		err := segnogenkit.Answer(t.Context(), &rival{store, "yes"}, "t", "next", second)
		if isSame := second == "yes"; isSame != (err == nil) || !isSame && !errors.Is(err, segno.ErrAnswered) {
			t.Errorf("%s: %v", second, err)
		}
		if out, err := flow(t.Context(), "t"); out != "yes" || err != nil {
			t.Errorf("%q, %v", out, err)
		}
		store.Close()
	}
}

// The thread is moved back while a step runs. The flow does not go on from another version than its own.
func TestAMoveDuringAStep(t *testing.T) {
	store := memory.New(nil)
	defer store.Close()
	flow := durable(t, store, nil, func(ctx context.Context, _ string) (string, error) {
		for _, name := range []string{"one", "two"} {
			if _, err := segnogenkit.Run(ctx, name, func() (string, error) {
				if name == "one" {
					return name, nil
				}
				_, err := saver.New(store).Undo(ctx, saver.ThreadKey{Thread: "t"}, 1)
				return name, err
			}); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	if out, err := flow(t.Context(), "t"); segno.KindOf(err) != segno.KindConflict {
		t.Errorf("%q, %v", out, err)
	}
}

// A name that ends as the key of a repeated step does is a step like any other.
func TestANumberInANameIsNotThatOfARepeatedStep(t *testing.T) {
	store := memory.New(nil)
	defer store.Close()
	flow := durable(t, store, nil, func(ctx context.Context, _ string) (all string, err error) {
		for i, name := range []string{"item", "item", "item#2", "item#2", "item#2#2"} {
			text, err := segnogenkit.Run(ctx, name, func() (string, error) { return string(rune('a' + i)), nil })
			if err != nil {
				return "", err
			}
			all += text
		}
		return all, nil
	})
	if out, err := flow(t.Context(), "t"); out != "abcde" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}
