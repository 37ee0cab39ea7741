package agent_test

import (
	"errors"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// TestATurnIsUndoneByItsPrompt undoes a turn that waits. A turn of another prompt is not undone, nor is one that has ended.
func TestATurnIsUndoneByItsPrompt(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.asking()
		isOver := func(key string) {
			t.Helper()
			before, err := r.agent.Status(r.ctx, thread)
			r.ok(err)
			if _, err := r.agent.UndoTurn(r.ctx, thread, key); !errors.Is(err, agent.ErrTurnOver) {
				t.Errorf("undoing the turn of %q: %v", key, err)
			}
			after, err := r.agent.Status(r.ctx, thread)
			r.ok(err)
			if after.Head != before.Head || after.Phase != before.Phase {
				t.Errorf("the thread was moved from %s to %s", before.Head, after.Head)
			}
		}
		r.run(agent.Input{Prompt: askMail, Key: "one"})
		isOver("")
		isOver("two")
		s, err := r.agent.UndoTurn(r.ctx, thread, "one")
		r.ok(err)
		if s.Phase != agent.PhaseDone || len(s.Interrupts) > 0 {
			t.Errorf("after the undo, the thread is %s and waits for %v", s.Phase, s.Interrupts)
		}
		r.run(agent.Input{Prompt: askMail, Key: "one"})
		r.finish(approve(r.question()))
		isOver("one")
	})
}

// TestATurnThatWasUndoneDoesNotBeginAgain continues a turn by its prompt, and does so again after the turn was undone.
func TestATurnThatWasUndoneDoesNotBeginAgain(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.asking()
		in := agent.Input{Prompt: askMail, Key: "one", Begun: true}
		r.refused(in, segno.KindNotFound) // the thread, which is not made
		r.prompt("say hello")
		if err := r.refused(in, segno.KindConflict); !errors.Is(err, agent.ErrUndone) {
			t.Errorf("a turn that never began: %v", err)
		}
		r.run(agent.Input{Prompt: askMail, Key: "one"})
		r.one(r.run(in), agent.EventInterrupted)
		_, err := r.agent.Undo(r.ctx, thread, 1)
		r.ok(err)
		before, err := r.agent.Status(r.ctx, thread)
		r.ok(err)
		if err := r.refused(in, segno.KindConflict); !errors.Is(err, agent.ErrUndone) {
			t.Errorf("a turn that was undone: %v", err)
		}
		if after, err := r.agent.Status(r.ctx, thread); err != nil || after.Head != before.Head {
			t.Errorf("the head is %s and was %s, %v", after.Head, before.Head, err)
		}
		r.sent()
	})
}
