package fleet

import (
	"testing"

	"github.com/dalsegno/segno/agent"
)

// TestAPromptIsAnswered sends a prompt twice, and a worker answers it once.
func TestAPromptIsAnswered(t *testing.T) {
	r := newRig(t)
	first := r.send(Prompt{Thread: "t", Text: "say hello", Key: "order-17"})
	again := r.send(Prompt{Thread: "t", Text: "say hello", Key: "order-17"})
	if !first.IsNew || again.IsNew || again.N != first.N {
		t.Errorf("sent as %+v and again as %+v", first, again)
	}
	r.start(r.Worker(map[string]*agent.Agent{"support": r.agent()}))
	p := r.await("t", "order-17", StateDone)
	if p.Outcome == "" || p.Text != "say hello" {
		t.Errorf("the prompt is %+v", p)
	}
	head, err := r.Store().Head(t.Context(), "t")
	if err != nil || head.Turn != 1 {
		t.Errorf("the thread is at %+v, %v", head, err)
	}
}
