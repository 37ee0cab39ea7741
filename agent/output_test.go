package agent_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

var verdict = json.RawMessage(`{"type":"object","properties":{"good":{"type":"boolean"},"why":{"type":"string"}},"required":["good","why"],"additionalProperties":false}`)

func TestAStructuredAnswerFitsItsSchema(t *testing.T) {
	eachStore(t, func(r *rig) {
		all := r.run(agent.Input{Prompt: "write a.txt: one", Output: verdict})
		done := r.one(all, agent.EventDone)
		out, ok := object(done.Output)
		if !ok || out["good"] == nil || out["why"] == nil {
			r.Errorf("the answer is %#v", done.Output)
		}
		again := r.replayed(thread, 0)
		if last := again[len(again)-1]; !reflect.DeepEqual(last.Output, done.Output) {
			r.Errorf("told again it is %#v", last.Output)
		}
		// The next turn has an answer in words.
		if done := r.one(r.prompt("say hi"), agent.EventDone); done.Output != nil || done.Text != "hi" {
			r.Errorf("the next answer is %#v, %q", done.Output, done.Text)
		}
	})
}

func TestAModelIsHeldToTheSchema(t *testing.T) {
	for name, c := range map[string]struct {
		replies []agent.Reply
		asked   int
	}{
		"it answers at once":        {[]agent.Reply{calls("1", "final_answer", `{"good":true,"why":"so"}`)}, 1},
		"it answers in words first": {[]agent.Reply{says("good!"), calls("1", "final_answer", `{"good":true,"why":"so"}`)}, 2},
		"it forgets twice":          {[]agent.Reply{says("good!"), says("really"), calls("1", "final_answer", `{"good":true,"why":"so"}`)}, 3},
		"it answers wrongly first":  {[]agent.Reply{calls("1", "final_answer", `{"good":"yes"}`), calls("1", "final_answer", `{"good":true,"why":"so"}`)}, 2},
		"it answers no JSON first":  {[]agent.Reply{calls("1", "final_answer", `{"good":`), calls("1", "final_answer", `{"good":true,"why":"so"}`)}, 2},
		"it works and answers":      {[]agent.Reply{calls("1", "send_email", `{"to":"a"}`, "2", "final_answer", `{"good":true,"why":"so"}`)}, 1},
		"it answers twice in one":   {[]agent.Reply{calls("1", "final_answer", `{"good":"?"}`, "2", "final_answer", `{"good":true,"why":"so"}`)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			model := replies(c.replies...)
			r := newRig(t).with(func(conf *agent.Config) { conf.Model = model })
			o, err := r.agent.Run(r.ctx, agent.Input{Thread: thread, Prompt: "well?", Output: verdict})
			r.ok(err)
			want := map[string]any{"good": true, "why": "so"}
			if got, _ := object(o.Output); !reflect.DeepEqual(got, want) {
				t.Errorf("the answer is %#v", o.Output)
			}
			if n := len(model.requests()); n != c.asked {
				t.Errorf("asked %d times, want %d", n, c.asked)
			}
			r.restart()
			r.with(func(conf *agent.Config) { conf.Model = replies(says("bye")) })
			r.one(r.prompt("thanks"), agent.EventDone)
		})
	}
}

func TestAStructuredAnswerSurvivesAQuestion(t *testing.T) {
	r := newRig(t).asking()
	r.run(agent.Input{Prompt: askMail, Output: verdict})
	r.restart()
	done := r.one(r.run(agent.Input{Decide: decisions(approve(r.question())).Decide, Output: verdict}), agent.EventDone)
	if out, ok := object(done.Output); !ok || len(out) != 2 {
		t.Errorf("the answer is %#v", done.Output)
	}
	r.sent("bob")
}

func TestAModelThatNeverAnswersRunsOutOfSteps(t *testing.T) {
	r := newRig(t).with(func(c *agent.Config) { c.Model, c.MaxSteps = replies(says("no")), 3 })
	_, err := r.try(agent.Input{Prompt: "well?", Output: verdict})
	if err == nil || !contains(err.Error(), "3 steps") {
		t.Errorf("it ends with %v", err)
	}
}

// object decodes a structured answer.
func object(answer json.RawMessage) (v map[string]any, ok bool) {
	return v, json.Unmarshal(answer, &v) == nil && v != nil
}

func TestASchemaThatCannotBeCheckedIsRefused(t *testing.T) {
	for _, schema := range []string{`{"type":"array"}`, `{"type":"object","properties":{"n":{"$ref":"https://x.example/n.json"}}}`,
		`{"type":"object","properties":{"n":{"type":"integer","exclusiveMinimum":true}}}`, `nonsense`} {
		model := replies(says("x"))
		r := newRig(t).with(func(c *agent.Config) { c.Model = model })
		r.refused(agent.Input{Prompt: "go", Output: json.RawMessage(schema)}, segno.KindInvalid, "schema")
		if n := len(model.requests()); n > 0 {
			t.Errorf("%s: the model was asked %d times", schema, n)
		}
	}
}

// TestATurnWithoutTheAnswerIsOver has a model that never gives the structured answer.
// The turn has ended, and one undo reverts it.
func TestATurnWithoutTheAnswerIsOver(t *testing.T) {
	r := newRig(t).with(func(c *agent.Config) {
		c.Model = replies(says("one"), says("a"), says("b"), says("c"), says("d"), says("three"))
	})
	r.prompt("first")
	r.refused(agent.Input{Prompt: "second", Output: verdict}, segno.KindRefused, "no structured answer")
	r.refused(agent.Input{}, segno.KindInvalid, "the turn has ended")
	r.prompt("third")
	where, err := r.agent.Undo(r.ctx, thread, 1)
	r.ok(err)
	if where.Turn != 2 {
		t.Errorf("it stands at turn %d", where.Turn)
	}
	if where, err = r.agent.Undo(r.ctx, thread, 1); err != nil || where.Turn != 1 || where.Messages != 2 {
		t.Errorf("it stands at turn %d with %d messages, %v", where.Turn, where.Messages, err)
	}
}

// TestAForkOfAStructuredAnswerIsOver forks where a turn ended with a structured answer.
// The conversation itself does not end with that answer.
func TestAForkOfAStructuredAnswerIsOver(t *testing.T) {
	eachStore(t, func(r *rig) {
		model := replies(calls("1", "final_answer", `{"good":true,"why":"so"}`), says("more"))
		r.with(func(c *agent.Config) { c.Model = model })
		r.run(agent.Input{Prompt: "first", Output: verdict})
		where, err := r.agent.Status(r.ctx, thread)
		r.ok(err)
		_, err = r.agent.Fork(r.ctx, where.Head, "f")
		r.ok(err)
		if e := r.one(r.run(agent.Input{Thread: "f"}), agent.EventDone); string(e.Output) != `{"good":true,"why":"so"}` || e.Thread != "f" {
			r.Errorf("the fork's outcome is %+v", e)
		}
		r.run(agent.Input{Thread: "f", Prompt: "second"})
		turns := 0
		for _, c := range r.heads("f") {
			if c.Kind == segno.CheckpointTurn {
				turns++
			}
		}
		if turns != 1 || len(model.requests()) != 2 {
			r.Errorf("%d turns in the fork, the model was asked %d times", turns, len(model.requests()))
		}
	})
}

// TestTextBesideStructuredAnswerIsKept has a text and the answer in one message with a call that has
// consequences. The call is committed before the answer.
func TestTextBesideStructuredAnswerIsKept(t *testing.T) {
	for _, e := range []agent.OnLost{agent.LostRerun, agent.LostAsk} {
		reply := calls("1", "send_email", `{"to":"a"}`, "2", "final_answer", `{"good":true,"why":"so"}`)
		reply.Message.Parts = append([]agent.Part{{Text: "All done."}}, reply.Message.Parts...)
		r := newRig(t)
		r.with(func(c *agent.Config) { c.Model, c.Tools = replies(reply), []agent.Tool{r.mails.tool(e)} })
		all := r.run(agent.Input{Prompt: "go", Output: verdict})
		again := r.replayed(thread, 0)
		if done := r.one(all, agent.EventDone); done.Text != "All done." || again[len(again)-1].Text != done.Text {
			t.Errorf("it said %q, told again %q", done.Text, again[len(again)-1].Text)
		}
	}
}
