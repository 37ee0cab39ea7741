package schedule_test

import (
	"context"
	"errors"
	"time"

	"github.com/dalsegno/segno/fleet/internal/schedule"
)

// thread is the state of one thread: its only prompt, whose turn waits again and again, and its lease.
type thread struct {
	state   schedule.State
	claim   int64
	seq     int64 // the number of the newest commit
	seen    int64
	left    int64         // the newest commit of a job that was left to the running attempt
	due     time.Duration // when its timer ends; 0 if it has none
	pause   time.Duration // Sent: until when
	lease   time.Duration // until when its lease lasts if its owner has died
	owner   *worker       // of the claim
	runner  *worker       // of the run
	pending int32         // decisions that no run has taken into account
	woken   time.Duration // when the first of them was committed, if the thread was idle then
	ended   time.Duration // when its last run ended
	runs    int32         // how many runs it has now
}

type threadKey struct{}

var errHeld, errKilled = errors.New("another run has the thread"), errors.New("the process was killed")

func isHeld(err error) bool { return errors.Is(err, errHeld) }

// mailbox is a [schedule.Mailbox] of the modelled server, for one worker.
type mailbox struct{ *worker }

// transaction executes a statement and then calls f with the thread. If the process was killed meanwhile, its outcome is not known.
func (m mailbox) transaction(ctx context.Context, c cost, f func(t *thread, now time.Duration)) error {
	if m.ctx.Err() != nil {
		return errKilled
	}
	m.sim.server.execute(c, 0)
	s := m.sim
	s.mu.Lock()
	f(&s.threads[ctx.Value(threadKey{}).(int32)], s.now())
	s.mu.Unlock()
	if m.ctx.Err() != nil {
		return errKilled
	}
	return nil
}

func (m mailbox) Front(ctx context.Context, _ string) (f *schedule.Front, err error) {
	err = m.transaction(ctx, costRead, func(t *thread, now time.Duration) {
		f = &schedule.Front{N: 1, State: t.state, Claim: t.claim, Seen: t.seen, Next: m.sim.at(t.pause), Wake: m.sim.at(t.due), Now: m.sim.at(now),
			IsOwned: t.owner != nil && t.owner.isSeen(now)}
	})
	return f, err
}

// isSeen reports whether the process was seen within the lease. The simulation has its lock.
func (w *worker) isSeen(now time.Duration) bool { return w.died == 0 || now < w.died+w.sim.lease }

func (t *thread) isFront(f *schedule.Front) bool { return t.state == f.State && t.claim == f.Claim }

func (m mailbox) Claim(ctx context.Context, job *schedule.Job, f *schedule.Front) (ok bool, err error) {
	err = m.transaction(ctx, costChange, func(t *thread, _ time.Duration) {
		if ok = t.isFront(f); ok {
			t.state, t.claim, t.owner, t.left = schedule.Running, job.ID, m.worker, 0
		}
	})
	return ok, err
}

func (m mailbox) Leave(ctx context.Context, job *schedule.Job, f *schedule.Front) (ok bool, err error) {
	err = m.transaction(ctx, costChange, func(t *thread, _ time.Duration) {
		if ok = t.isFront(f); ok {
			t.left = max(t.left, job.Seq)
		}
	})
	return ok, err
}

func (m mailbox) Finish(ctx context.Context, job *schedule.Job, _ *schedule.Front, c schedule.Change) (ok bool, err error) {
	err = m.transaction(ctx, costWake, func(t *thread, now time.Duration) {
		if ok = t.state == schedule.Running && t.claim == job.ID; !ok {
			return
		}
		t.state, t.seen, t.pause = c.State, c.Seen, 0
		if c.Pause > 0 {
			t.pause = now + c.Pause
		}
		if c.State != schedule.Waiting || c.IsAgain {
			return
		}
		next := queuedJob{thread: ctx.Value(threadKey{}).(int32)}
		switch {
		case t.left > c.Seen:
			next.Seq = t.left
		case !c.Wake.IsZero() && c.Wake.Sub(m.sim.server.began) <= m.sim.length:
			next.Wake, next.at = c.Wake, c.Wake.Sub(m.sim.server.began)
		default:
			return
		}
		m.sim.queue.insert(m.worker, now, next)
	})
	return ok, err
}

func (m mailbox) Seq(ctx context.Context, _ string) (seq int64, err error) {
	err = m.transaction(ctx, costRead, func(t *thread, _ time.Duration) { seq = t.seq })
	return seq, err
}

func (m mailbox) Lease(ctx context.Context, _ string) (rest time.Duration, err error) {
	err = m.transaction(ctx, costRead, func(t *thread, now time.Duration) { rest = t.lease - now })
	return rest, err
}

// runner is a [schedule.Runner] whose turns read the thread, call a model and commit. They wait again at their end.
type runner struct{ *worker }

func (r runner) Run(ctx context.Context, _ *schedule.Job, _ *schedule.Front) (schedule.Result, error) {
	m, s := mailbox{r.worker}, r.sim
	var err error
	isWoken := false
	isLeased := true
	if err := m.transaction(ctx, costChange, func(t *thread, now time.Duration) { // acquire the lease
		isLeased = t.lease <= now && t.runs == 0
		switch {
		case isLeased && r.died > 0: // the process was killed after it had sent the statement
			t.lease = now + s.lease
		case isLeased:
			t.runs, t.runner = 1, r.worker
		}
	}); err != nil {
		return schedule.Result{}, err
	}
	if !isLeased {
		return schedule.Result{}, errHeld
	}
	if err = m.transaction(ctx, costLoad, func(t *thread, now time.Duration) {
		if t.due > 0 && t.due <= now {
			if t.ended < t.due {
				s.timers.add(now - t.due)
			}
			t.due, isWoken = 0, true
		}
		if t.woken > 0 {
			s.decisions.add(now - t.woken)
		}
		s.handled += int(t.pending)
		isWoken = isWoken || t.pending > 0
		t.pending, t.woken = 0, 0
	}); err == nil && isWoken {
		for range s.steps {
			time.Sleep(s.model)
			if err = m.transaction(ctx, costCommit, func(t *thread, _ time.Duration) { t.seq++ }); err != nil {
				break
			}
		}
	}
	var due time.Duration
	if released := m.transaction(ctx, costChange, func(t *thread, now time.Duration) { t.runs, t.ended, due = 0, now, t.due }); err == nil {
		err = released
	}
	return schedule.Result{IsWaiting: true, Wake: s.at(due)}, err
}
