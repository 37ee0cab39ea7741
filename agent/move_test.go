package agent_test

import (
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

func (r *rig) undo(n int) agent.Status {
	r.Helper()
	w, err := r.agent.Undo(r.ctx, thread, n)
	r.ok(err)
	return w
}

func (r *rig) redo(n int) agent.Status {
	r.Helper()
	w, err := r.agent.Redo(r.ctx, thread, n)
	r.ok(err)
	return w
}

func (r *rig) restore(at segno.CommitID) agent.Status {
	r.Helper()
	w, err := r.agent.Restore(r.ctx, thread, at)
	r.ok(err)
	return w
}

func (r *rig) fork(at segno.CommitID, id string) agent.Status {
	r.Helper()
	w, err := r.agent.Fork(r.ctx, at, id)
	r.ok(err)
	return w
}

// stands checks the contents of a thread: its prompts, todos and files.
func (r *rig) stands(w agent.Status, turn, messages, todos, files int) {
	r.Helper()
	if w.Turn != turn || w.Messages != messages || w.Todos != todos || w.Files != files {
		r.Errorf("it stands on turn %d with %d messages, %d todos, %d files; want %d, %d, %d, %d",
			w.Turn, w.Messages, w.Todos, w.Files, turn, messages, todos, files)
	}
}

func TestUndoAndRedoMoveByTurns(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.prompt("write a.txt: one\ntodo x")
		r.prompt("edit a.txt: one -> two ; todo y")
		r.prompt("write b.txt: three")
		r.stands(r.undo(1), 2, 11, 2, 1)
		r.stands(r.undo(1), 1, 6, 1, 1)
		r.restart()
		r.stands(r.undo(1), 0, 0, 0, 0)
		_, err := r.agent.Undo(r.ctx, thread, 1)
		r.wants(err, segno.KindNotFound)
		r.stands(r.redo(2), 2, 11, 2, 1)
		r.stands(r.redo(1), 3, 15, 2, 2)
		_, err = r.agent.Redo(r.ctx, thread, 1)
		r.wants(err, segno.KindNotFound)
		r.stands(r.undo(2), 1, 6, 1, 1)
		if done := r.one(r.prompt("read a.txt"), agent.EventDone); !contains(done.Text, "one") || done.Turn != 4 {
			r.Errorf("turn %d after undo reads %q", done.Turn, done.Text)
		}
		_, err = r.agent.Redo(r.ctx, thread, 1)
		r.wants(err, segno.KindNotFound)
	})
}

func TestTheModelIsShownTheLineAndNothingElse(t *testing.T) {
	r := newRig(t)
	r.prompt("remember x is 1")
	r.prompt("remember x is 2")
	two := r.heads(thread)[0].ID
	r.undo(1)
	if done := r.one(r.prompt("recall x"), agent.EventDone); done.Text != "x is 1" {
		t.Errorf("after undo: %q", done.Text)
	}
	r.restore(two)
	if done := r.one(r.prompt("recall x"), agent.EventDone); done.Text != "x is 2" {
		t.Errorf("after restore: %q", done.Text)
	}
}

func TestABrokenOffTurnCanBeUndone(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.asking().prompt("write a.txt: one")
		r.prompt("write b.txt: two\n" + askMail)
		old := r.question()
		r.stands(r.undo(1), 1, 4, 0, 1)
		if len(r.open(thread)) > 0 {
			r.Error("a question of the turn that was undone waits")
		}
		r.refused(decisions(approve(old)), segno.KindNotFound)
		r.prompt("say hi")
		r.sent()
	})
}

func TestTimeTravelToAQuestionAsksItAnew(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.asking().prompt("write a.txt: one\n" + askMail)
		asked := r.heads(thread)[0].ID
		first := r.question()
		r.finish(approve(first))
		r.sent("bob")
		w := r.restore(asked)
		if len(w.Interrupts) != 1 {
			r.Fatalf("after restore there wait %+v", w.Interrupts)
		}
		second := w.Interrupts[0]
		if second.ID == first.ID || second.Replaces != first.ID || second.Call != first.Call || string(second.Args) != string(first.Args) {
			r.Errorf("asked as %+v, and anew as %+v", first, second)
		}
		r.restart()
		if q := r.question(); q.ID != second.ID {
			r.Errorf("restore says %s waits, and later it is %s", second.ID, q.ID)
		}
		r.replaced(thread, first)
		r.sent("bob")
		r.finish(edit(second, `{"to":"eve"}`))
		r.sent("bob", "eve")
	})
}

func TestTimeTravelBeforeAQuestionAsksItAnew(t *testing.T) {
	r := newRig(t).asking()
	r.prompt("write a.txt: one\n" + askMail)
	first := r.question()
	before := r.heads(thread)[1].ID
	r.finish(reject(first, "no"))
	w := r.restore(before)
	if len(w.Interrupts) > 0 {
		t.Fatalf("before the question there wait %+v", w.Interrupts)
	}
	all := r.run(agent.Input{})
	second := r.one(all, agent.EventApproval).Interrupt
	if second.ID == first.ID {
		t.Error("it is asked under the old id")
	}
	_, err := r.try(decisions(approve(first)))
	if err == nil {
		t.Error("the old question can be answered")
	}
	r.sent()
	r.finish(approve(*second))
	r.sent("bob")
}

func TestRedoKeepsOpenQuestion(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.asking().prompt(askMail)
		r.undo(1)
		w := r.redo(1)
		if len(w.Interrupts) != 1 {
			r.Fatalf("after redo there wait %+v", w.Interrupts)
		}
		r.finish(approve(w.Interrupts[0]))
		r.sent("bob")
	})
}

func TestAnAnswerOfAnotherLineDoesNotCount(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.asking().prompt(askMail)
		asked := r.heads(thread)[0].ID
		r.finish(approve(r.question()))
		r.restore(asked)
		all := r.run(agent.Input{})
		if all[len(all)-1].Kind != agent.EventInterrupted {
			r.Errorf("the run ends with %v", all.kinds())
		}
		r.sent("bob")
	})
}

func TestAForkAtAQuestionAsksInBothThreads(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.asking().prompt("write a.txt: one\n" + askMail)
		here := r.question()
		w := r.fork(r.heads(thread)[0].ID, "fork")
		r.stands(w, 1, 4, 0, 1)
		if len(w.Interrupts) != 1 || w.Interrupts[0].ID == here.ID {
			r.Fatalf("the fork asks %+v, the thread asks %s", w.Interrupts, here.ID)
		}
		there := w.Interrupts[0]
		r.restart()
		if q := r.open("fork"); len(q) != 1 || q[0].ID != there.ID {
			r.Errorf("the fork said %s waits, later it is %+v", there.ID, q)
		}
		r.replaced("fork", here)
		r.refused(decisions(approve(there)), segno.KindNotFound)
		r.run(agent.Input{Thread: "fork", Decide: decisions(edit(there, `{"to":"fork"}`)).Decide})
		r.sent("fork")
		if r.question().ID != here.ID {
			r.Error("the answer in the fork moved the question of the thread")
		}
		r.finish(approve(here))
		r.sent("bob", "fork")
	})
}

func TestAForkAsksAQuestionOnce(t *testing.T) {
	r := newRig(t).asking()
	r.prompt(askMail)
	r.fork(r.heads(thread)[0].ID, "fork")
	var ids []string
	for range 3 {
		r.run(agent.Input{Thread: "fork"})
		ids = append(ids, r.open("fork")[0].ID)
	}
	if ids[0] != ids[1] || ids[1] != ids[2] {
		t.Errorf("each run of the fork asks under another id: %v", ids)
	}
	r.run(agent.Input{Thread: "fork", Decide: []segno.Decision{approve(r.open("fork")[0])}})
	r.sent("bob")
}

func TestAForkDoesNotShareATaskUnderWay(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.helped().prompt("task helper: write a.txt: one\\n" + askMail + "\\nwrite b.txt: two")
		here := r.question()
		r.fork(r.heads(thread)[0].ID, "fork")
		r.run(agent.Input{Thread: "fork"})
		open := r.open("fork")
		if len(open) != 1 || open[0].ID == here.ID || open[0].Thread == here.Thread {
			r.Fatalf("the thread asks %+v, the fork %+v", here, open)
		}
		task := len(r.messages(string(here.Thread), ""))
		r.run(agent.Input{Thread: "fork", Decide: decisions(edit(open[0], `{"to":"fork"}`)).Decide})
		r.sent("fork")
		if n := len(r.messages(string(here.Thread), "")); n != task {
			r.Errorf("the fork's answer went on with the thread's task: %d messages, before %d", n, task)
		}
		r.finish(approve(here))
		r.sent("bob", "fork")
	})
}

func TestRestoreToUnfinishedTaskKeepsOtherLine(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.helped().prompt("task helper: write a.txt: one\\n" + askMail)
		asked := r.heads(thread)[0].ID
		first := r.question()
		r.finish(approve(first))
		done := r.heads(thread)[0].ID
		inside := outline(r.messages(string(first.Thread), ""))
		w := r.restore(asked)
		r.run(agent.Input{})
		open := r.open(thread)
		if len(open) != 1 || open[0].ID == first.ID {
			r.Fatalf("after restore: %+v, then %+v", w.Interrupts, open)
		}
		r.finish(reject(open[0], "no"))
		r.sent("bob")
		r.restore(done)
		if again := outline(r.messages(string(first.Thread), "")); len(again) != len(inside) {
			r.Errorf("the task of the other line was\n%q\nand is\n%q", inside, again)
		}
	})
}

func TestAForkGoesOnByItself(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.prompt("remember x is 1\nwrite a.txt: one ; todo t")
		at := r.heads(thread)[0].ID
		r.prompt("remember x is 2\nedit a.txt: one -> two")
		w := r.fork(at, "a/b")
		r.stands(w, 1, 5, 1, 1)
		recall := agent.Input{Thread: "a/b", Prompt: "read a.txt\nrecall x"}
		if done := r.one(r.run(recall), agent.EventDone); !contains(done.Text, "x is 1", "one") {
			r.Errorf("the fork says %q", done.Text)
		}
		if done := r.one(r.prompt(recall.Prompt), agent.EventDone); !contains(done.Text, "x is 2", "two") {
			r.Errorf("the thread says %q", done.Text)
		}
		_, err := r.agent.Fork(r.ctx, at, thread)
		r.wants(err, segno.KindConflict)
		_, err = r.agent.Fork(r.ctx, "no-such-checkpoint", "other")
		r.wants(err, segno.KindNotFound)
		_, err = r.agent.Restore(r.ctx, "a/b", r.heads(thread)[0].ID)
		r.wants(err, segno.KindRefused)
	})
}

func TestAMessageKeepsItsIDInEveryFork(t *testing.T) {
	r := newRig(t)
	r.prompt("say one")
	r.fork(r.heads(thread)[0].ID, "fork")
	here, there := r.messages(thread, ""), r.messages("fork", "")
	for i := range here {
		if here[i].ID == "" || here[i].ID != there[i].ID {
			t.Errorf("message %d is %q here and %q in the fork", i, here[i].ID, there[i].ID)
		}
	}
}

func TestEveryCheckpointCanBeGoneBackTo(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.prompt("write a.txt: one\nedit a.txt: one -> two\nedit a.txt: two -> three")
		whole := outline(r.messages(thread, ""))
		for _, c := range r.heads(thread) {
			r.restore(c.ID)
			if c.Kind == segno.CheckpointStep && c.Turn == 1 {
				r.finish()
				if got := outline(r.messages(thread, "")); len(got) != len(whole) || got[len(got)-1] != whole[len(whole)-1] {
					r.Errorf("from step %d on:\n%q\nwant\n%q", c.Step, got, whole)
				}
			}
		}
	})
}

func TestThereIsNoUndoOfNothing(t *testing.T) {
	r := newRig(t)
	r.prompt("say one")
	for _, n := range []int{0, -1, 2, 100} {
		if _, err := r.agent.Undo(r.ctx, thread, n); err == nil {
			t.Errorf("undo of %d turns succeeds", n)
		}
		if _, err := r.agent.Redo(r.ctx, thread, n); err == nil {
			t.Errorf("redo of %d turns succeeds", n)
		}
	}
	_, err := r.agent.Restore(r.ctx, thread, "no-such-checkpoint")
	r.wants(err, segno.KindNotFound)
	if m := r.messages(thread, ""); len(m) != 2 {
		t.Errorf("%d messages, want 2", len(m))
	}
}

func TestUndoInAForkCountsTurnsAndNothingElse(t *testing.T) {
	r := newRig(t)
	r.prompt("write a.txt: one")
	r.prompt("write b.txt: two")
	r.fork(r.heads(thread)[0].ID, "fork")
	r.run(agent.Input{Thread: "fork", Prompt: "write c.txt: three"})
	for i, files := range []int{2, 1, 0} {
		w, err := r.agent.Undo(r.ctx, "fork", 1)
		r.ok(err)
		if w.Files != files || w.Turn != files {
			t.Errorf("after undo %d it stands on turn %d with %d files, want %d", i+1, w.Turn, w.Files, files)
		}
	}
}

func TestMessagesAreOfTheThreadAlone(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.run(agent.Input{Thread: "alice", Prompt: "say a secret"})
		r.run(agent.Input{Thread: "bob", Prompt: "say hi"})
		alice, err := r.agent.Status(r.ctx, "alice")
		r.ok(err)
		messages, err := r.agent.Messages(r.ctx, "bob", alice.Head)
		r.wants(err, segno.KindNotFound, "no such checkpoint")
		if len(messages) > 0 {
			r.Errorf("bob is shown %+v", messages)
		}
		_, err = r.agent.Fork(r.ctx, alice.Head, "carol")
		r.ok(err)
		if n := len(r.messages("carol", alice.Head)); n != 2 {
			r.Errorf("carol, a fork of alice, is shown %d messages", n)
		}
	})
}

func TestRedoSaysHowFarItGoes(t *testing.T) {
	r := newRig(t)
	for range 3 {
		r.prompt("say hi")
	}
	_, err := r.agent.Undo(r.ctx, thread, 2)
	r.ok(err)
	_, err = r.agent.Redo(r.ctx, thread, 5)
	r.wants(err, segno.KindNotFound, "only 2 turns can be redone")
	_, err = r.agent.Redo(r.ctx, thread, 2)
	r.ok(err)
	_, err = r.agent.Redo(r.ctx, thread, 1)
	r.wants(err, segno.KindNotFound, "nothing to redo")
}
