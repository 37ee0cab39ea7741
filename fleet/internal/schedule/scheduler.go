package schedule

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Mailbox is the store of the prompts, and the part of the queue that changes together with them. Each method is one
// transaction.
type Mailbox interface {
	// Front returns the prompt whose turn it is; nil if the mailbox has none.
	Front(ctx context.Context, thread string) (*Front, error)
	// Claim marks f as running by the job, in its attempt f.Attempt. It returns false if f has changed since it was read, and
	// [ErrReplaced] if the queue no longer has the job.
	Claim(ctx context.Context, job *Job, f *Front) (bool, error)
	// Leave records the job's commit for the attempt that runs f: if the attempt ends waiting, and began before the commit, its end
	// inserts another job. Leave returns false if f has changed since it was read.
	Leave(ctx context.Context, job *Job, f *Front) (bool, error)
	// Finish applies the end of an attempt and inserts the jobs that it causes. The job is complete unless c.IsAgain.
	// Finish returns false if the job no longer runs f.
	Finish(ctx context.Context, job *Job, f *Front, c Change) (bool, error)
	// Seq returns the number of the thread's newest commit.
	Seq(ctx context.Context, thread string) (int64, error)
	// Lease returns for how long another run has the thread; 0 if no run has it.
	Lease(ctx context.Context, thread string) (time.Duration, error)
}

// ErrReplaced is the error of a claim by a job that another worker replaced, because this one was stopped. Nothing would repeat the job.
var ErrReplaced = errors.New("another job replaces this one")

// Runner runs one attempt at the prompt f.
type Runner interface {
	Run(ctx context.Context, job *Job, f *Front) (Result, error)
}

// Scheduler works jobs.
type Scheduler struct {
	Mailbox Mailbox
	Runner  Runner
	Policy  Policy
	// IsHeld reports whether an attempt failed because another run has the thread.
	IsHeld func(error) bool
	// Outage is the pause of a job after the mailbox could not be reached.
	Outage time.Duration
	Log    *slog.Logger
}

// Verdict is what becomes of a job.
type Verdict struct {
	IsAgain bool          // the job is repeated
	Pause   time.Duration // IsAgain: after this time
}

// Work works a job. It has no error: a job whose mailbox cannot be reached is repeated. If ctx ends, the attempt is cut, and does not count.
func (s *Scheduler) Work(ctx context.Context, job Job) Verdict {
	for {
		f, err := s.Mailbox.Front(ctx, job.Thread)
		if err != nil {
			return s.again(ctx, &job, "read mailbox", err)
		}
		isCurrent := true
		switch step := s.Policy.Admit(&job, f); step.Action {
		case Drop:
			return Verdict{}
		case Sleep:
			return Verdict{IsAgain: true, Pause: step.Pause}
		case Leave:
			if isCurrent, err = s.Mailbox.Leave(ctx, &job, f); err == nil && isCurrent {
				return Verdict{}
			}
		case Run, Park:
			f.Attempt = nextAttempt(&job, f)
			if isCurrent, err = s.Mailbox.Claim(ctx, &job, f); err == nil && isCurrent {
				if step.Action == Park {
					return s.finish(ctx, &job, f, abandon(f))
				}
				return s.run(ctx, &job, f)
			}
		}
		if errors.Is(err, ErrReplaced) {
			return Verdict{}
		}
		if err != nil {
			return s.again(ctx, &job, "claim prompt", err)
		}
	}
}

// again is the verdict for a job whose mailbox cannot be reached.
func (s *Scheduler) again(ctx context.Context, job *Job, op string, err error) Verdict {
	s.Log.WarnContext(ctx, "the job is repeated", "op", op, "thread", job.Thread, "error", err)
	return Verdict{IsAgain: true, Pause: s.Outage}
}

// run runs a claimed prompt.
func (s *Scheduler) run(ctx context.Context, job *Job, f *Front) Verdict {
	var seen int64
	var err error
	if f.State == Waiting {
		if seen, err = s.Mailbox.Seq(ctx, job.Thread); err != nil {
			return s.again(ctx, job, "read head", err)
		}
	}
	result, runErr := s.Runner.Run(ctx, job, f)
	isCut := runErr != nil && ctx.Err() != nil
	ctx = context.WithoutCancel(ctx)
	var lease time.Duration
	if runErr != nil && s.IsHeld(runErr) {
		if lease, err = s.Mailbox.Lease(ctx, job.Thread); err != nil {
			return s.again(ctx, job, "read lease", err)
		}
		lease = max(lease, time.Millisecond) // the run that had the thread has just ended
	}
	return s.finish(ctx, job, f, s.Policy.Finish(f, seen, result, runErr, isCut, lease))
}

// finish ends the attempt at a claimed prompt.
func (s *Scheduler) finish(ctx context.Context, job *Job, f *Front, change Change) Verdict {
	held, err := s.Mailbox.Finish(ctx, job, f, change)
	switch {
	case err != nil:
		// The prompt stays claimed by this job, which runs it again: the runner then finds the turn where it was.
		return s.again(ctx, job, "finish prompt", err)
	case !held:
		return Verdict{} // another worker runs it, or it was cancelled
	case change.IsAgain:
		return Verdict{IsAgain: true, Pause: change.Pause}
	}
	return Verdict{}
}
