package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/agent"
)

// TestAWorkerWithAWrongClock runs a worker whose clock is an hour behind that of the store, and then one with the right clock. The first
// one can run no turn, because its leases end in the past. It must not park the prompt, which the second one runs.
func TestAWorkerWithAWrongClock(t *testing.T) {
	r := newRig(t)
	behind := newRig(t, func(c *Config) {
		c.Schema, c.Clock = r.schema, func() time.Time { return time.Now().Add(time.Hour) } // of the store, by which this worker is behind
	})
	r.send(Prompt{Thread: "t", Text: "hello", Key: "k"})
	w := behind.Worker(map[string]*agent.Agent{"support": behind.agent()})
	w.Retry = time.Hour
	stop := behind.start(w)
	p := r.awaitThat("t", "k", func(p *PromptState) bool { return p.Error != "" })
	stop()
	if p.State != StateSent || p.Attempts != 1 || !strings.Contains(p.Error, "clock") {
		t.Errorf("after the first attempt, the prompt is %+v", p)
	}
	r.start(r.Worker(map[string]*agent.Agent{"support": r.agent()}))
	if err := r.Retry(t.Context(), "t", "k"); err != nil {
		t.Fatal(err)
	}
	r.await("t", "k", StateDone)
}
