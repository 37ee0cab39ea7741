package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// beat records that the worker is alive, and replaces the jobs of dead workers, until ctx ends.
func (w *Worker) beat(ctx context.Context) {
	tick := time.NewTicker(w.LeaseTime / 6)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := w.fleet.store.InTx(ctx, "record worker", w.id, func(ctx context.Context, tx pgx.Tx) error {
			isCurrent, err := w.markSeen(ctx, tx)
			if err != nil || !isCurrent {
				return err
			}
			return w.replaceJobs(ctx, tx)
		})
		if err != nil && ctx.Err() == nil {
			w.fleet.log.WarnContext(ctx, "the worker was not recorded", "error", err)
		}
	}
}

// markSeen records that the worker is alive. It returns false if the worker was not seen for so long that others may count it as
// dead: the database could not be reached, probably by no worker, so this one must not judge others yet. The same holds if the worker
// was last seen in the future, because the clock of the server was set back.
func (w *Worker) markSeen(ctx context.Context, tx pgx.Tx) (isCurrent bool, err error) {
	err = tx.QueryRow(ctx, w.fleet.sql(`UPDATE {}fleet_workers w SET seen = clock_timestamp()
		FROM (SELECT id, seen FROM {}fleet_workers WHERE id = $1 FOR UPDATE) old WHERE w.id = old.id RETURNING old.seen BETWEEN now() - $2::interval AND now() + $2::interval`),
		w.id, w.expiry()).Scan(&isCurrent)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, w.insert(ctx, tx) // it was not seen for so long that it was removed
	}
	return isCurrent, err
}

// replaceJobs replaces the jobs of dead workers in the queues of this worker, and its own jobs that it does not run: the acknowledgement
// of such a job was lost. In a store with tenants, it does not see the workers of other queues. The new job has another id, so that a worker that was stopped and continues cannot acknowledge it.
func (w *Worker) replaceJobs(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, w.fleet.sql(`DELETE FROM {}fleet_workers WHERE seen < now() - interval '1 day'`)); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, w.fleet.sql(`DELETE FROM {}river_job j WHERE state = 'running' AND kind = ANY($1) AND queue = ANY($5) AND CASE
			WHEN attempted_by[array_upper(attempted_by, 1)] = $2 THEN attempted_at < now() - $3::interval AND id <> ALL($4::bigint[])
			ELSE NOT EXISTS (SELECT FROM {}fleet_workers w WHERE w.id = j.attempted_by[array_upper(attempted_by, 1)] AND w.seen BETWEEN now() - $3::interval AND now() + $3::interval) END
		RETURNING id, kind, args, queue, priority`), []string{threadJob{}.Kind(), answerJob{}.Kind(), cronJob{}.Kind()}, w.id, w.expiry(), w.tracked(),
		slices.Collect(maps.Keys(w.queues())))
	if err != nil {
		return err
	}
	var id int64
	var args []byte
	var kind, queue string
	var priority int
	var jobs []river.InsertManyParams
	if _, err := pgx.ForEachRow(rows, []any{&id, &kind, &args, &queue, &priority}, func() error {
		job, err := replacementOf(id, kind, args)
		if err != nil {
			return err
		}
		jobs = append(jobs, river.InsertManyParams{Args: job, InsertOpts: &river.InsertOpts{Queue: queue, Priority: priority, MaxAttempts: maxRiverAttempts}})
		return nil
	}); err != nil || len(jobs) == 0 {
		return err
	}
	w.fleet.log.InfoContext(ctx, "jobs of dead workers are replaced", "jobs", len(jobs))
	_, err = w.fleet.queue.InsertManyTx(ctx, tx, jobs)
	return err
}

// replacementOf returns a job that does the work of another one.
func replacementOf(id int64, kind string, args []byte) (river.JobArgs, error) {
	switch kind {
	case answerJob{}.Kind():
		var job answerJob
		err := json.Unmarshal(args, &job)
		return job, err
	case cronJob{}.Kind():
		var job cronJob
		err := json.Unmarshal(args, &job)
		return job, err
	}
	var job threadJob
	err := json.Unmarshal(args, &job)
	job.Replaces = append(job.Replaces, id)
	return job, err
}

// tracked returns the jobs that run, and those that ended so recently that their acknowledgement may be under way.
func (w *Worker) tracked() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := make([]int64, 0, len(w.jobs))
	for id, ended := range w.jobs {
		if !ended.IsZero() && time.Since(ended) > w.expiry() {
			delete(w.jobs, id)
			continue
		}
		ids = append(ids, id)
	}
	return ids
}
