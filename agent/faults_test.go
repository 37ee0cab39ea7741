package agent_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/retryrig"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/file"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/store/sqlite"
)

// openers open the stores that are tested with callers in separate processes.
var openers = map[string]retryrig.Opener{
	"file": func(ctx context.Context, where string, disk func() error) (retryrig.Store, error) {
		return file.Open(ctx, where, file.Options{FS: (&faultfs.Faults{When: disk}).Wrap(vfs.OS)})
	},
	"sqlite": func(ctx context.Context, where string, _ func() error) (retryrig.Store, error) {
		return sqlite.Open(ctx, filepath.Join(where, "agent.db"), sqlite.Options{})
	},
}

// TestACallerThatRunsAgainOnAnyErrorFinishesOnce runs tasks while the store, the model, the
// tools and the disk fail at random and the caller's process is killed. After any error it
// runs the same input again. Every task finishes, and each of its effects happens once.
// Under SEGNO_SOAK there are 1,000 faults on each store. The tests of Redis and PostgreSQL are
// beside their stores.
func TestACallerThatRunsAgainOnAnyErrorFinishesOnce(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	inMemory, err := kv.Open(t.Context(), kvtest.NewMap(nil), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	trials := map[string]retryrig.RetryTrial{"memory": {Memory: memory.New(nil)}, "kv": {Memory: inMemory}}
	for name := range openers {
		trials[name] = retryrig.RetryTrial{Open: name, Where: t.TempDir()}
	}
	for name, trial := range trials {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Faults = retryrig.Faults(t)
			retryrig.Run(t, trial)
		})
	}
}
