package agent

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proc"
)

// leaseTime is how long a run that fell silent keeps its thread from others on
// another machine. On this one a run whose process is gone has it no longer.
const leaseTime = 30 * time.Second

// lease is a run's right to a thread, renewed until it is given up. Without it a
// call that another run is just making would look like one whose result was lost.
type lease struct {
	agent  *Agent
	leaser segno.Leaser
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	held segno.Lease
}

// now is the lease as it was renewed last.
func (l *lease) now() segno.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// machine tells this boot of this machine, and this space of process numbers, from
// all others; "" where the system does not say.
func machine() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "/" + space
}

// owner names a run: the machine, the process, its start, and the agent's id with the
// run's.
func (g *registry) owner() string {
	return strings.Join([]string{"agent", machine(), strconv.Itoa(os.Getpid()), proc.Start(os.Getpid()), g.id + "/" + segno.NewID()}, " ")
}

// gone reports whether an owner's run has ended, as far as this process can tell: either
// the owner's process has ended, or this agent ended the run and failed to release the lease.
func (g *registry) gone(owner string) bool {
	f := strings.Split(owner, " ")
	if len(f) != 5 || f[0] != "agent" || f[1] == "" || f[1] != machine() {
		return false
	}
	pid, err := strconv.Atoi(f[2])
	if err != nil || !proc.Alive(pid, f[3]) {
		return err == nil
	}
	return pid == os.Getpid() && strings.HasPrefix(f[4], g.id+"/") && !g.isRunning(owner)
}

// acquire takes the thread. Held by another run, it is a conflict with the head; a
// lease of a process that is gone is taken over.
func (r *run) acquire(ctx context.Context) (*lease, error) {
	leaser, ok := r.Store.(segno.Leaser)
	if !ok {
		return nil, nil
	}
	want := segno.Lease{Thread: r.thread, Owner: r.registry.owner(), Expires: time.Now().Add(leaseTime)}
	var got segno.Lease
	acquire := func() (err error) {
		got, err = leaser.Acquire(ctx, want)
		return err
	}
	err := r.retryIO(ctx, acquire)
	const tries = 3
	for n := 1; segno.KindOf(err) == segno.KindBusy && n < tries; n++ {
		var held segno.Lease
		heldErr := r.retryIO(ctx, func() (err error) {
			held, err = leaser.LeaseOf(ctx, r.thread)
			return err
		})
		switch {
		case heldErr != nil:
			return nil, heldErr
		case held.Owner == "" || held.Owner == want.Owner: // it was given up or the store was busy; or an answer was lost
		case r.registry.gone(held.Owner):
			if err := leaser.Release(ctx, held); err != nil && segno.KindOf(err) != segno.KindFenced {
				return nil, err
			}
		default:
			return nil, r.taken(held)
		}
		err = r.retryIO(ctx, acquire)
	}
	if err != nil {
		return nil, err
	}
	r.registry.begin(want.Owner)
	l := &lease{held: got, agent: r.Agent, leaser: leaser, done: make(chan struct{})}
	renewals, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	go l.renew(renewals, r.abort)
	return l, nil
}

// taken is the error for a thread that another run has.
func (r *run) taken(held segno.Lease) error {
	return segno.NewError(segno.KindConflict, "run agent", string(r.thread), &takenError{until: held.Expires, conflict: &segno.ConflictError{Actual: r.head}}).WithHint("wait until it is done, or stop it")
}

type takenError struct {
	until    time.Time
	conflict *segno.ConflictError
}

func (e *takenError) Error() string {
	return "another run has the thread, until " + e.until.Format(time.TimeOnly) + " at least"
}

func (e *takenError) Unwrap() []error { return []error{ErrRunning, e.conflict} }

// renew keeps the lease until it is given up. One that ran out meanwhile, because the
// machine slept, is taken again if nobody had it in between; else the run is over.
func (l *lease) renew(ctx context.Context, abort context.CancelCauseFunc) {
	defer close(l.done)
	tick := time.NewTicker(leaseTime / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		held := l.now()
		want := held
		want.Expires = time.Now().Add(leaseTime)
		got, err := l.leaser.Acquire(ctx, want)
		switch kind := segno.KindOf(err); {
		case err == nil && got.Epoch <= held.Epoch+1:
			l.mu.Lock()
			l.held = got
			l.mu.Unlock()
		case kind == segno.KindBusy && !l.taken(ctx):
			// The store was too busy to answer; the lease stands.
		case err == nil || kind == segno.KindFenced || kind == segno.KindBusy:
			if abort != nil {
				abort(segno.NewError(segno.KindFenced, "run agent", string(held.Thread), nil).WithHint("another run took the thread over; look where it stands"))
			}
			return
		}
	}
}

// taken reports whether somebody else has the lease by now.
func (l *lease) taken(ctx context.Context) bool {
	now, err := l.leaser.LeaseOf(ctx, l.now().Thread)
	return err == nil && now.Owner != "" && now.Owner != l.now().Owner
}

// giveUp ends the renewals and the lease.
func (l *lease) giveUp(ctx context.Context) {
	if l == nil {
		return
	}
	l.cancel()
	<-l.done
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceTime)
	defer cancel()
	held := l.now()
	// A release that fails costs other processes the wait until the lease expires. This
	// agent knows that the run has ended.
	_ = l.agent.retryIO(ctx, func() error { return l.leaser.Release(ctx, held) })
	l.agent.registry.end(held.Owner)
}

// epoch is what the run's commits carry.
func (r *run) epoch() uint64 {
	if r.lease != nil {
		return r.lease.now().Epoch
	}
	return r.head.Epoch
}

// grace is a context for what must be recorded even if ctx ends: it lasts a few
// seconds longer.
func grace(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(graceTime, cancel)
		context.AfterFunc(longer, func() { t.Stop() })
	})
	return longer, func() { stop(); cancel() }
}

// graceTime is how long a run that was cancelled may take to record what it did.
const graceTime = 5 * time.Second
