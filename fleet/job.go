package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// threadJob is a job of the queue: a thread has work. It may be repeated or stale.
type threadJob struct {
	Thread   string    `json:"thread"`
	Seq      int64     `json:"seq,omitempty"`      // the number of the commit that caused it
	Wake     time.Time `json:"wake,omitzero"`      // the time for which it is scheduled, if the thread waits for it
	Replaces []int64   `json:"replaces,omitempty"` // see [schedule.Job]
}

// Kind implements [river.JobArgs].
func (threadJob) Kind() string { return "segno_thread" }

// maxRiverAttempts is the largest number that the queue can store: a job is repeated until it succeeds, because prompts count
// their own attempts.
const maxRiverAttempts = 1<<15 - 1

// wake inserts a job for a thread. at is the earliest time; zero is now.
func (f *Fleet) wake(ctx context.Context, tx pgx.Tx, job threadJob, tenant string, priority int, at time.Time) error {
	_, err := f.queue.InsertTx(ctx, tx, job, &river.InsertOpts{Queue: QueueOf(tenant), Priority: priority, ScheduledAt: at, MaxAttempts: maxRiverAttempts})
	return err
}

// QueueOf returns the name of the queue with the jobs of a tenant.
func QueueOf(tenant string) string {
	if tenant == "" {
		return river.QueueDefault
	}
	h := sha256.Sum256([]byte(tenant))
	return "t-" + hex.EncodeToString(h[:8])
}
