package fleet

import (
	"fmt"
	"sync"
	"testing"
)

// Several processes that start at once create the tables of a new fleet together.
func TestProcessesOpenANewFleetAtOnce(t *testing.T) {
	schema := fmt.Sprintf("fleet_%d", schemas.Add(1))
	var group sync.WaitGroup
	for range 6 {
		pool := newPool(t)
		group.Go(func() {
			f, err := Open(t.Context(), Config{Pool: pool, Schema: schema})
			if err != nil {
				t.Error(err)
				return
			}
			f.Close()
		})
	}
	group.Wait()
}

// TestTablesOfVersion1AreUpgraded opens a fleet with the tables of the version before.
func TestTablesOfVersion1AreUpgraded(t *testing.T) {
	r := newRig(t)
	r.send(Prompt{Thread: "t", Text: "hello", Key: "k"})
	r.execute(`ALTER TABLE {}fleet_prompts DROP COLUMN others`)
	r.execute(`UPDATE {}fleet_meta SET version = 1`)
	upgraded, err := Open(t.Context(), r.config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { upgraded.Close() })
	r = &rig{t, upgraded}
	r.start(r.Worker(r.with()))
	if p := r.await("t", "k", StateDone); p.Outcome != "you said hello" {
		t.Errorf("the prompt is %+v", p)
	}
}
