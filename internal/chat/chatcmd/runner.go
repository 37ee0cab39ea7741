package chatcmd

import (
	"os"
	"slices"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/proc"
)

// runnerRecord records for 'segno generations pause' that this process runs segno's own agent.
type runnerRecord struct {
	store *local.Store
	mu    sync.Mutex
	spool.Runner
}

// newRunnerRecord returns the record of this process, which runs a verb in a directory. It is not written yet.
func newRunnerRecord(store *local.Store, verb, dir string) *runnerRecord {
	self := spool.Process{PID: os.Getpid(), Start: proc.Start(os.Getpid())}
	return &runnerRecord{store: store, Runner: spool.Runner{Process: self, Verb: verb, Dir: dir}}
}

// announce records that this process runs a thread, and that the thread is no longer paused. It is best effort: without
// the record, only 'segno generations pause' does not work.
func (r *runnerRecord) announce(thread string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := segno.ThreadID(thread)
	if r.store.ReadOnly() || slices.Contains(r.Threads, id) {
		return
	}
	r.Threads = append(r.Threads, id)
	if r.store.Spool().KeepRunner(r.Runner) == nil {
		_ = r.store.Spool().ClearPaused(id)
	}
}

func (r *runnerRecord) remove() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.Threads) > 0 {
		_ = r.store.Spool().RemoveRunner(r.Process) // a record of an ended process has no effect
	}
}
