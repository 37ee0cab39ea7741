package agent_test

import (
	"errors"

	"github.com/dalsegno/segno/agent"
)

func modelBreaksOff(r *rig) {
	model := replies(calls("c1", "send_email", `{"to":"bob"}`))
	model.answer = func(n int, _ agent.Request, _ func(agent.Chunk)) (agent.Reply, error) {
		switch n {
		case 1:
			return calls("c1", "send_email", `{"to":"bob"}`), nil
		case 2:
			return agent.Reply{}, &agent.ModelError{Status: 400, Err: errors.New("no credit")}
		}
		return says("done"), nil
	}
	r.with(func(c *agent.Config) { c.Model = model })
	all, err := r.try(agent.Input{Prompt: "go"})
	if err == nil || !contains(err.Error(), "no credit") {
		r.Fatalf("the run ends with %v", err)
	}
	if last := all[len(all)-1]; last.Kind != agent.EventError || !contains(last.Text, "no credit") {
		r.Errorf("the last event is %+v", last)
	}
	r.restart()
	r.answers("sent to bob")
	r.finish()
	r.sent("bob")
	if n := len(model.requests()); n != 3 {
		r.Errorf("the model was asked %d times, want 3", n)
	}
}
