package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// Cron is a prompt that is sent again and again.
type Cron struct {
	Name  string        // identifies it in the fleet
	Every time.Duration // at least a second
	// First is when the prompt is sent first; zero is after Every. Later times are whole multiples of Every after it.
	First time.Time
	// Prompt is sent with the name and the time as its key. Without a thread, each one begins a thread, named in the same way.
	Prompt Prompt
}

// Cron sends a prompt periodically. It is durable on return: the schedule and its next job are rows, which survive the end of all
// workers, and each time sends one prompt. If no worker runs at a time, the prompt is sent when one runs again, once for all
// times that have passed. Cron replaces the schedule of the same name.
func (f *Fleet) Cron(ctx context.Context, c Cron) error {
	const op = "schedule prompt"
	example := c.Prompt
	example.Key = c.Name + " " + time.RFC3339Nano // as long as the longest one
	example.Thread = cmp.Or(example.Thread, example.Key)
	switch err := example.check(); {
	case err != nil:
		return err
	case strings.Contains(c.Name, "\x00"):
		return segno.Errorf(segno.KindInvalid, op, c.Name, "its name contains a zero byte, which the queue cannot store")
	case c.Every < time.Second:
		return segno.Errorf(segno.KindInvalid, op, c.Name, "its period is less than a second")
	case c.Prompt.Key != "" || !c.Prompt.At.IsZero():
		return segno.Errorf(segno.KindInvalid, op, c.Name, "its prompt has a key or a time").WithHint("leave both to the schedule")
	}
	if err := segno.CheckID(op, c.Name); err != nil {
		return err
	}
	record, err := segno.Encode(c.Prompt)
	if err != nil {
		return segno.NewError(segno.KindInvalid, op, c.Name, err)
	}
	return f.store.InTx(ctx, op, c.Name, func(ctx context.Context, tx pgx.Tx) error {
		var next time.Time
		err := tx.QueryRow(ctx, f.sql(`INSERT INTO {}fleet_crons (name, tenant, every, next, record)
			VALUES ($1, $2, $3, date_trunc('milliseconds', coalesce($4, now() + $3::interval)), $5)
			ON CONFLICT (name) DO UPDATE SET tenant = excluded.tenant, every = excluded.every, next = excluded.next, record = excluded.record RETURNING next`),
			[]byte(c.Name), f.config.Tenant, c.Every, orNull(c.First), f.sealer.Seal(record, "cron", c.Name)).Scan(&next)
		if err != nil {
			return err
		}
		return f.tick(ctx, tx, cronJob{Name: c.Name, At: next}, f.config.Tenant)
	})
}

// RemoveCron ends a schedule. Prompts that were sent remain. Removing it again is not an error.
func (f *Fleet) RemoveCron(ctx context.Context, name string) error {
	return f.store.InTx(ctx, "remove schedule", name, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, f.sql(`DELETE FROM {}fleet_crons WHERE name = $1`), []byte(name))
		return err
	})
}

// cronJob is a job of the queue: the time of a schedule has come. It is stale unless the schedule's next time is At.
type cronJob struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
}

// Kind implements [river.JobArgs].
func (cronJob) Kind() string { return "segno_cron" }

func (f *Fleet) tick(ctx context.Context, tx pgx.Tx, job cronJob, tenant string) error {
	_, err := f.queue.InsertTx(ctx, tx, job, &river.InsertOpts{Queue: QueueOf(tenant), ScheduledAt: job.At, MaxAttempts: maxRiverAttempts})
	return err
}

// cronWorker works the jobs of schedules.
type cronWorker struct {
	river.WorkerDefaults[cronJob]
	worker *Worker
}

// Work implements [river.Worker].
func (c *cronWorker) Work(ctx context.Context, job *river.Job[cronJob]) error {
	defer c.worker.track(job.ID)()
	f := c.worker.fleet
	var early time.Duration
	err := f.store.InTx(ctx, "send scheduled prompt", job.Args.Name, func(ctx context.Context, tx pgx.Tx) (err error) {
		early, err = f.sendScheduled(ctx, tx, &job.Args)
		return err
	})
	if err == nil && early > 0 {
		return river.JobSnooze(early)
	}
	if err != nil {
		f.log.WarnContext(ctx, "the job is repeated", "op", "send scheduled prompt", "cron", job.Args.Name, "error", err)
		return river.JobSnooze(time.Second)
	}
	return nil
}

// sendScheduled sends the prompt of a schedule and inserts its next job. If the time of the schedule has not come by the clock of the
// server, it sends nothing and returns how long to wait: the queue uses the clock of the worker that leads it.
func (f *Fleet) sendScheduled(ctx context.Context, tx pgx.Tx, job *cronJob) (early time.Duration, err error) {
	var tenant string
	var every time.Duration
	var at, now time.Time
	var record []byte
	err = tx.QueryRow(ctx, f.sql(`SELECT tenant, every, next, now(), record FROM {}fleet_crons WHERE name = $1 FOR UPDATE`), []byte(job.Name)).
		Scan(&tenant, &every, &at, &now, &record)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !at.Equal(job.At) {
		return 0, nil // it was removed or replaced, or the job is repeated
	}
	if err != nil || at.After(now) {
		return at.Sub(now), err
	}
	var p Prompt
	plain, err := f.sealer.Open(record, "cron", job.Name)
	if err == nil {
		err = json.Unmarshal(plain, &p)
	}
	if err != nil {
		return 0, segno.NewError(segno.KindCorrupt, "read schedule", job.Name, err)
	}
	p.Key = job.Name + " " + at.UTC().Format(time.RFC3339Nano)
	p.Thread = cmp.Or(p.Thread, p.Key)
	if _, err := f.send(ctx, tx, p, tenant, origin{}); segno.KindOf(err) == segno.KindConflict {
		// The schedule was replaced by one with the same first time and another prompt. The next time sends the new prompt.
		f.log.WarnContext(ctx, "a scheduled prompt was not sent, because another one was sent at its time", "cron", job.Name, "key", p.Key)
	} else if err != nil {
		return 0, err
	}
	next := nextTime(at, now, every)
	if _, err := tx.Exec(ctx, f.sql(`UPDATE {}fleet_crons SET next = $2 WHERE name = $1`), []byte(job.Name), next); err != nil {
		return 0, err
	}
	return 0, f.tick(ctx, tx, cronJob{Name: job.Name, At: next}, tenant)
}

// nextTime returns the first time after now, and after at, that is a multiple of every after at.
func nextTime(at, now time.Time, every time.Duration) time.Time {
	passed := max(0, now.Sub(at)) / every
	return at.Add((passed + 1) * every)
}
