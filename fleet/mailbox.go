package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/fleet/internal/schedule"
	"github.com/dalsegno/segno/store/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// mailbox implements [schedule.Mailbox] for one worker.
type mailbox struct {
	*Fleet
	worker string
	expiry time.Duration // how long a worker is unseen before it counts as dead
}

// isOpen is the condition of the index of open prompts.
const isOpen = `state NOT IN ('done', 'cancelled')`

// selectFront selects the prompt whose turn it is in the thread $1: the one that has begun, or else the first one whose time has come, or
// else the first one. Each of them is one search in an index, because a mailbox may contain very many prompts.
const selectFront = ` FROM {}fleet_prompts WHERE n = coalesce(
	(SELECT n FROM {}fleet_prompts WHERE thread = $1 AND ` + isOpen + ` AND begun),
	(SELECT n FROM {}fleet_prompts WHERE thread = $1 AND ` + isOpen + ` AND coalesce(next <= now(), true) ORDER BY n LIMIT 1),
	(SELECT n FROM {}fleet_prompts WHERE thread = $1 AND ` + isOpen + ` ORDER BY n LIMIT 1))`

// Front implements [schedule.Mailbox].
func (m mailbox) Front(ctx context.Context, thread string) (f *schedule.Front, err error) {
	err = m.store.OnConn(ctx, "read mailbox", thread, func(ctx context.Context, conn postgres.Conn) error {
		var next, wake pgtype.Timestamptz
		f = new(schedule.Front)
		err := conn.QueryRow(ctx, m.sql(`SELECT n, state, attempts, next, wake, seen, claim, now(),
			EXISTS (SELECT FROM {}fleet_workers w WHERE w.id = worker AND w.seen BETWEEN now() - $2::interval AND now() + $2::interval)`+selectFront), []byte(thread), m.expiry).
			Scan(&f.N, &f.State, &f.Attempts, &next, &wake, &f.Seen, &f.Claim, &f.Now, &f.IsOwned)
		f.Next, f.Wake = next.Time, wake.Time
		if errors.Is(err, pgx.ErrNoRows) {
			f, err = nil, nil
		}
		return err
	})
	return f, err
}

// Claim implements [schedule.Mailbox]. It locks the job, so that a worker that replaces the job at this moment does so after the claim: the
// new job then continues the attempt if this worker has died.
func (m mailbox) Claim(ctx context.Context, job *schedule.Job, f *schedule.Front) (isCurrent bool, err error) {
	var hasJob bool
	err = m.store.OnConn(ctx, "claim prompt", job.Thread, func(ctx context.Context, conn postgres.Conn) error {
		return conn.QueryRow(ctx, m.sql(`WITH job AS (SELECT id FROM {}river_job WHERE id = $4 FOR SHARE),
			claimed AS (UPDATE {}fleet_prompts SET state = 'running', begun = true, attempts = $6, next = NULL, wake = NULL,
				again = 0, claim = $4, worker = $5, started = clock_timestamp()
				WHERE n = $1 AND EXISTS (SELECT FROM job) AND (state = $2 AND claim = $3 OR state = 'running' AND claim = $4 AND worker = $5)
				AND NOT EXISTS (SELECT FROM {}fleet_prompts o WHERE o.thread = $7 AND o.n <> $1 AND o.begun AND o.state NOT IN ('done', 'cancelled'))
				RETURNING n)
			SELECT EXISTS (SELECT FROM claimed), EXISTS (SELECT FROM job)`),
			f.N, f.State, f.Claim, job.ID, m.worker, f.Attempt, []byte(job.Thread)).Scan(&isCurrent, &hasJob)
	})
	if err == nil && !hasJob {
		err = schedule.ErrReplaced
	}
	return isCurrent, err
}

// Leave implements [schedule.Mailbox].
func (m mailbox) Leave(ctx context.Context, job *schedule.Job, f *schedule.Front) (isCurrent bool, err error) {
	err = m.store.OnConn(ctx, "leave prompt", job.Thread, func(ctx context.Context, conn postgres.Conn) error {
		tag, err := conn.Exec(ctx, m.sql(`UPDATE {}fleet_prompts SET again = greatest(again, $3) WHERE n = $1 AND state = 'running' AND claim = $2`),
			f.N, f.Claim, job.Seq)
		isCurrent = tag.RowsAffected() > 0
		return err
	})
	return isCurrent, err
}

// Seq implements [schedule.Mailbox].
func (m mailbox) Seq(ctx context.Context, thread string) (int64, error) {
	head, err := m.store.Head(ctx, segno.ThreadID(thread))
	if segno.KindOf(err) == segno.KindNotFound {
		return 0, nil
	}
	return head.Seq, err
}

// Lease implements [schedule.Mailbox].
func (m mailbox) Lease(ctx context.Context, thread string) (time.Duration, error) {
	l, err := m.store.LeaseOf(ctx, segno.ThreadID(thread))
	if err != nil || l.Owner == "" {
		return 0, err
	}
	return max(0, time.Until(l.Expires)), nil
}

// Finish implements [schedule.Mailbox].
func (m mailbox) Finish(ctx context.Context, job *schedule.Job, f *schedule.Front, c schedule.Change) (held bool, err error) {
	c.Wake = c.Wake.Truncate(time.Microsecond) // as the database stores it
	outcome, err := segno.Encode(outcomeRecord{Text: c.Text, Error: c.Error})
	if err != nil {
		return false, segno.NewError(segno.KindInvalid, "finish prompt", job.Thread, err)
	}
	err = m.store.InTx(ctx, "finish prompt", job.Thread, func(ctx context.Context, tx pgx.Tx) error {
		row := finished{n: f.N, thread: job.Thread}
		err := row.scan(tx.QueryRow(ctx, m.sql(`UPDATE {}fleet_prompts SET state = $3, attempts = $4, next = now() + $5::interval, wake = $6, seen = $7, outcome = $8,
			ended = CASE WHEN $3 IN ('done', 'parked', 'cancelled') THEN clock_timestamp() END
			WHERE n = $1 AND state = 'running' AND claim = $2`+returningFinished),
			f.N, job.ID, c.State, c.Attempts, pauseOrNull(c), orNull(c.Wake), c.Seen, m.sealer.Seal(outcome, "outcome", job.Thread, fmt.Sprint(f.N))))
		held = err == nil
		if errors.Is(err, pgx.ErrNoRows) {
			// If the answer to an earlier try was lost, that try made the change.
			return tx.QueryRow(ctx, m.sql(`SELECT EXISTS (SELECT FROM {}fleet_prompts WHERE n = $1 AND claim = $2 AND state = $3 AND attempts = $4)`),
				f.N, job.ID, c.State, c.Attempts).Scan(&held)
		}
		if err != nil {
			return err
		}
		if err := m.wakeNext(ctx, tx, &row, c); err != nil || c.IsAgain {
			return err
		}
		_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, &river.Job[threadJob]{JobRow: jobOf(ctx)})
		return err
	})
	if a := attemptOf(ctx); a != nil && held && err == nil {
		a.change = &c
	}
	return held, err
}

func pauseOrNull(c schedule.Change) any {
	if c.Pause == 0 || c.State != schedule.Sent {
		return nil
	}
	return c.Pause
}

// finished is a prompt whose attempt has ended.
type finished struct {
	n              int64
	thread, tenant string
	priority       int
	again          int64
	parent         []byte
	question       pgtype.Text
	others         []origin
}

const returningFinished = ` RETURNING tenant, priority, again, parent, question, others`

func (p *finished) scan(row pgx.Row) error {
	return row.Scan(&p.tenant, &p.priority, &p.again, &p.parent, &p.question, &p.others)
}

// minSleep is the shortest time after which a turn that waits is continued because of the time.
const minSleep = 100 * time.Millisecond

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// wakeNext inserts the job that the end of an attempt causes.
func (m mailbox) wakeNext(ctx context.Context, tx pgx.Tx, row *finished, c schedule.Change) error {
	switch {
	case c.State == schedule.Waiting && !c.IsAgain:
		if row.again > c.Seen {
			return m.wake(ctx, tx, threadJob{Thread: row.thread, Seq: row.again}, row.tenant, row.priority, time.Time{})
		}
		if !c.Wake.IsZero() {
			// The clock by which the turn waits may be behind, so that the turn waits again for the same time.
			at := later(c.Wake, time.Now().Add(minSleep))
			return m.wake(ctx, tx, threadJob{Thread: row.thread, Wake: c.Wake}, row.tenant, row.priority, at)
		}
	case !c.State.IsOpen():
		if err := m.answerParents(ctx, tx, row); err != nil {
			return err
		}
		return m.wakeFront(ctx, tx, row.thread)
	}
	return nil
}

// answerParents inserts the jobs that answer the threads that wait for a prompt.
func (f *Fleet) answerParents(ctx context.Context, tx pgx.Tx, p *finished) error {
	parents := p.others
	if p.parent != nil {
		parents = append([]origin{{string(p.parent), p.question.String}}, parents...)
	}
	for _, parent := range parents {
		if err := f.answer(ctx, tx, answerJob{Thread: parent.Thread, Question: parent.Question, Prompt: p.n}, p.tenant, p.priority); err != nil {
			return err
		}
	}
	return nil
}

// wakeFront inserts a job for the front of a thread, if its time has come.
func (f *Fleet) wakeFront(ctx context.Context, tx pgx.Tx, thread string) error {
	var tenant string
	var priority int
	var isLater bool
	err := tx.QueryRow(ctx, f.sql(`SELECT tenant, priority, coalesce(next > now(), false)`+selectFront), []byte(thread)).Scan(&tenant, &priority, &isLater)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && isLater {
		return nil // a prompt for later has a job
	}
	if err != nil {
		return err
	}
	return f.wake(ctx, tx, threadJob{Thread: thread}, tenant, priority, time.Time{})
}
