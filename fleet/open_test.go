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
