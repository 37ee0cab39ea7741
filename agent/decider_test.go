package agent_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
)

// TestDecidersBesideARun has 20 goroutines record one decision each while runs act on the recorded
// ones. Each call is made once. The race detector watches the store and the agent.
func TestDecidersBesideARun(t *testing.T) {
	open := map[string]func() segno.Store{
		"memory": func() segno.Store { return newRig(t).store },
		"kv": func() segno.Store {
			store, err := kv.Open(t.Context(), kvtest.NewMap(time.Now), kv.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return store
		},
	}
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			store := open()
			r := rigOn(t, func() segno.Store { return store }).asking()
			var calls, want []string
			for n := range 20 {
				want = append(want, fmt.Sprintf("to %02d", n))
				calls = append(calls, fmt.Sprintf(`call send_email {"to":%q}`, want[n]))
			}
			r.prompt(strings.Join(calls, " ; "))
			var deciders sync.WaitGroup
			for _, q := range r.open(thread) {
				deciders.Go(func() {
					if err := agent.New(r.config).Decide(r.ctx, thread, approve(q)); err != nil {
						t.Errorf("decide %s: %v", q.ID, err)
					}
				})
			}
			decided := make(chan struct{})
			go func() { deciders.Wait(); close(decided) }()
			for working := true; working; {
				select {
				case <-decided:
					working = false // the next run acts on the last decision
				default:
				}
				r.run(agent.Input{})
			}
			r.finish()
			r.sent(want...)
		})
	}
}
