// Package schedule decides what a worker of the fleet does with a job: run the turn, leave it to another worker, try again
// later, or park the prompt. It knows neither SQL nor the queue, so that a simulation can run the same decisions with a modelled store.
package schedule

import (
	"fmt"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// State is the state of a prompt in the mailbox of its thread.
type State string

// The states. A prompt is open until it is done or cancelled.
const (
	Sent      State = "sent"      // it waits for a worker, or for its next attempt
	Running   State = "running"   // a worker runs its turn
	Waiting   State = "waiting"   // its turn waits for a decision, a time, a signal or another thread
	Done      State = "done"      // its turn has ended
	Parked    State = "parked"    // it failed too often
	Cancelled State = "cancelled" // a caller cancelled it
)

// IsOpen reports whether a prompt in this state keeps later prompts of its thread waiting.
func (s State) IsOpen() bool { return s != Done && s != Cancelled }

// Job is a message of the queue: a thread has work. A job may be repeated or stale.
type Job struct {
	ID       int64
	Thread   string
	Seq      int64     // the number of the commit that caused the job; 0 if no commit did
	Wake     time.Time // the job is scheduled for this Wake of the prompt; or zero
	Replaces []int64   // the jobs of dead workers, or of lost acknowledgements, that this one replaces
}

// claims reports whether j, or the job that it replaces, runs f.
func (j *Job) claims(f *Front) bool {
	return f.Claim != 0 && (f.Claim == j.ID || slices.Contains(j.Replaces, f.Claim))
}

// continues reports whether j continues an attempt at f that has not died with its worker.
func (j *Job) continues(f *Front) bool { return f.Claim == j.ID || f.IsOwned && j.claims(f) }

// Front is the prompt whose turn it is in a thread.
type Front struct {
	N        int64
	State    State
	Attempts int       // that failed, or lost their worker, since the last one that made progress; and the present one
	Attempt  int       // the number of the attempt that a claim begins; Scheduler sets it
	Next     time.Time // Sent: the next attempt begins no earlier; or zero
	Wake     time.Time // Waiting: when the turn continues, if nothing else wakes it; or zero
	Seen     int64     // Waiting: the number of the newest commit before the last attempt
	Claim    int64     // the job that runs the prompt, or will try it again; or 0
	IsOwned  bool      // Running: its worker was seen within the lease
	Now      time.Time // by the clock of the mailbox, by which the other times were set
}

// Policy are the bounds of attempts.
type Policy struct {
	MaxAttempts int           // a prompt whose attempts all failed is then parked
	FirstPause  time.Duration // between the first two attempts; it doubles
	MaxPause    time.Duration
}

// Action is what a worker does with a job.
type Action int

// The actions.
const (
	Drop  Action = iota // another job has done, or will do, the work of this one
	Leave               // another worker runs the prompt: record the job's commit for it
	Sleep               // look again later
	Run                 // claim the prompt and run its turn
	Park                // claim the prompt and park it, because its attempts end with their workers
)

// Step is a decision about a job.
type Step struct {
	Action Action
	Pause  time.Duration // Sleep: for how long
}

// Admit decides about a job of a thread with the given front, which is nil if the mailbox has no open prompt. The clock of the queue
// may differ from that of the mailbox, so a job can come before its time.
func (p *Policy) Admit(job *Job, f *Front) Step {
	switch {
	case f == nil || f.State == Parked:
		return Step{Action: Drop} // Retry and Cancel insert another job
	case f.State == Sent && f.Next.After(f.Now) && (job.claims(f) || f.Claim == 0):
		return Step{Action: Sleep, Pause: f.Next.Sub(f.Now)}
	case f.State == Sent && f.Next.After(f.Now):
		return Step{Action: Drop} // the job of the failed attempt sleeps
	case f.State == Waiting && f.Wake.After(f.Now) && f.Wake.Equal(job.Wake):
		return Step{Action: Sleep, Pause: f.Wake.Sub(f.Now)}
	case f.State == Waiting && (f.Wake.IsZero() || f.Wake.After(f.Now)) && job.Seq <= f.Seen:
		// The last attempt began after the commit and took it into account. The job of a later prompt ends here, too:
		// the end of this prompt inserts another one.
		return Step{Action: Drop}
	case f.State == Running && f.IsOwned && !job.claims(f):
		return Step{Action: Leave}
	case f.State == Running && !job.continues(f) && f.Attempts >= p.MaxAttempts:
		return Step{Action: Park}
	}
	return Step{Action: Run}
}

// nextAttempt returns the number of the attempt that a claim begins. A job that claims its prompt again, because the end of its attempt
// could not be written, continues that attempt.
func nextAttempt(job *Job, f *Front) int {
	if f.State == Running && job.continues(f) {
		return f.Attempts
	}
	return f.Attempts + 1
}

// Result is the outcome of an attempt that did not fail.
type Result struct {
	IsWaiting bool
	IsUndone  bool      // the turn was undone while it waited
	Wake      time.Time // IsWaiting: when the turn continues, if nothing else wakes it
	Text      string    // the answer, or why the turn waits
}

// Change is what an attempt changes in the mailbox.
type Change struct {
	State    State
	Attempts int
	IsAgain  bool          // the job is repeated
	Pause    time.Duration // IsAgain: after this time
	Wake     time.Time
	Seen     int64
	Text     string
	Error    string
}

// Finish decides how a claimed prompt continues after an attempt. f is the front before the claim, and seen the number of the newest
// commit before the attempt. isCut means that the worker ended the attempt, and lease is for how long another run has the
// thread, if the attempt met one.
func (p *Policy) Finish(f *Front, seen int64, r Result, err error, isCut bool, lease time.Duration) Change {
	unchanged := Change{State: f.State, Attempts: f.Attempts, Wake: f.Wake, Seen: f.Seen, IsAgain: true}
	if f.State == Running {
		unchanged.State = Sent
	}
	switch {
	case err == nil && r.IsUndone:
		return Change{State: Cancelled, Text: "the turn was undone"}
	case err == nil && r.IsWaiting:
		return Change{State: Waiting, Seen: seen, Wake: r.Wake, Text: r.Text}
	case err == nil:
		return Change{State: Done, Text: r.Text}
	case isCut:
		return unchanged
	case lease > 0:
		unchanged.Pause = pauseForLease(lease)
		return unchanged
	}
	if f.Attempt >= p.MaxAttempts || isPermanent(err) {
		return Change{State: Parked, Attempts: f.Attempt, Error: err.Error()}
	}
	return Change{State: Sent, Attempts: f.Attempt, IsAgain: true, Pause: p.pause(f.Attempt), Error: err.Error()}
}

// abandon returns the change that parks a prompt whose workers died.
func abandon(f *Front) Change {
	return Change{State: Parked, Attempts: f.Attempts, Error: fmt.Sprintf("the workers of %d attempts died or were not seen any more", f.Attempts)}
}

// isPermanent reports whether another attempt would fail in the same way.
func isPermanent(err error) bool {
	switch segno.KindOf(err) {
	case segno.KindInvalid, segno.KindRefused, segno.KindCorrupt, segno.KindNewer:
		return true
	}
	return false
}

// pause returns the pause after a number of failed attempts.
func (p *Policy) pause(attempts int) time.Duration {
	pause := p.FirstPause
	for range attempts - 1 {
		if pause = 2 * pause; pause >= p.MaxPause {
			return p.MaxPause
		}
	}
	return pause
}

// pauseForLease returns when a job looks again at a thread that another run has: at the end of the lease, but soon enough after a
// run that ends before its lease does.
func pauseForLease(rest time.Duration) time.Duration {
	return min(rest+50*time.Millisecond, 2*time.Second)
}
