package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// latin1 is a text that is not UTF-8, as a file of another encoding has it. The log has it with a replacement character.
const latin1 = "caf\xe9"

// TestRepeatedInputsThatAreNotUTF8 repeats a prompt, a decision and a signal. Each is recognized although the log has
// other bytes.
func TestRepeatedInputsThatAreNotUTF8(t *testing.T) {
	eachStore(t, func(r *rig) {
		in := agent.Input{Prompt: "say " + latin1, Key: "request-1"}
		for range 2 {
			r.one(r.run(in), agent.EventDone)
			r.restart()
		}
		if n := len(r.messages(thread, "")); n != 2 {
			r.Errorf("%d messages, want 2: the prompt once", n)
		}
	})
	eachStore(t, func(r *rig) {
		in := agent.Input{Prompt: askMail + "\nsay " + latin1}
		r.asking().run(in)
		r.run(in)
		if n := len(r.messages(thread, "")); n != 2 {
			r.Errorf("%d messages, want 2: the unfinished turn continues", n)
		}
		d := segno.Decision{Interrupt: r.question().ID, Kind: segno.Respond, Text: "n\xf6", Actor: "J\xfcrgen"}
		for range 2 {
			r.ok(r.agent.Decide(r.ctx, thread, d))
		}
	})
	eachStore(t, func(r *rig) {
		r.waiting(agent.LostAsk, func(ctx context.Context, _ *agent.Invocation) (string, error) {
			s, err := agent.Await(ctx, "order "+latin1)
			return s.Text, err
		})
		r.prompt("say hello")
		for range 2 {
			r.ok(r.agent.Signal(r.ctx, thread, "order "+latin1, "key "+latin1, latin1))
		}
		n := 0
		for _, e := range r.replayed(thread, 0) {
			if e.Kind == agent.EventSignal {
				n++
			}
		}
		if n != 1 {
			r.Errorf("%d signals, want 1", n)
		}
		r.one(r.run(agent.Input{Prompt: callWork}), agent.EventDone)
	})
}

// TestCallIDsThatAreNotUTF8 has a model give its calls ids that are equal in the log. Each call has its own id there.
func TestCallIDsThatAreNotUTF8(t *testing.T) {
	eachStore(t, func(r *rig) {
		model := &script{answer: func(n int, q agent.Request, _ func(agent.Chunk)) (agent.Reply, error) {
			if n > 1 {
				return says("done"), nil
			}
			reply := calls("a\xff", "send_email", `{"to":"bob"}`)
			reply.Message.Parts = append(reply.Message.Parts, calls("a\xfe", "send_email", `{"to":"eve"}`).Message.Parts...)
			return reply, nil
		}}
		r.with(func(c *agent.Config) { c.Model = model })
		r.asking().run(agent.Input{Prompt: "go"})
		open := r.open(thread)
		if len(open) != 2 || open[0].Call == open[1].Call {
			r.Fatalf("the questions are %+v", open)
		}
		r.finish(approve(open[0]), segno.Decision{Interrupt: open[1].ID, Kind: segno.Reject})
		r.sent("bob")
		if all := r.results(thread); len(all) != 2 || all[0].Error == all[1].Error {
			r.Errorf("the results are %+v", all)
		}
	})
}

// TestASignalThatIsNotUTF8EndsOneWait sends a signal to a thread that waits for it. The signal does not end the next wait, too.
func TestASignalThatIsNotUTF8EndsOneWait(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.waiting(agent.LostAsk, func(ctx context.Context, _ *agent.Invocation) (string, error) {
			first, err := agent.Await(ctx, "order "+latin1)
			if err != nil {
				return "", err
			}
			second, err := agent.Await(ctx, "order "+latin1)
			return first.Text + second.Text, err
		})
		r.waits(agent.Input{Prompt: callWork}, segno.ReasonSignal)
		r.ok(r.agent.Signal(r.ctx, thread, "order "+latin1, "key \xe8", 1))
		r.waits(agent.Input{}, segno.ReasonSignal)
		r.waits(agent.Input{}, segno.ReasonSignal)
		r.ok(r.agent.Signal(r.ctx, thread, "order "+latin1, "key \xe9", 1))
		r.finish()
		r.answers("11")
	})
}

// TestAStepThatIsNotUTF8RunsOnce has a tool that waits after a step. The step is recognized when the tool runs again.
func TestAStepThatIsNotUTF8RunsOnce(t *testing.T) {
	eachStore(t, func(r *rig) {
		var did diary
		c := r.waiting(agent.LostAsk, func(ctx context.Context, _ *agent.Invocation) (string, error) {
			_, err := agent.Do(ctx, latin1, func(context.Context) (int, error) { did.add("one"); return 1, nil })
			agent.Sleep(ctx, time.Hour)
			return "done", err
		})
		r.waits(agent.Input{Prompt: callWork}, segno.ReasonSleep)
		c.advance(time.Hour)
		r.restart()
		r.finish()
		did.has(t, "one")
	})
}
