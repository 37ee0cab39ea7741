package agent

import (
	"context"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proc"
)

// lease is a run's exclusive right to a thread, renewed until it is released. Without the lease, a
// call that another run is executing would look like a call with a lost result.
type lease struct {
	agent  *Agent
	leaser segno.Leaser
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	held segno.Lease
}

func (l *lease) current() segno.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// ownerKind is the kind of the owners of leases that runs hold.
const ownerKind = "agent"

// newOwner names a run: its process, and the ids of agent and run.
func (g *registry) newOwner() string { return proc.NewOwner(ownerKind, g.id+"/"+segno.NewID()) }

// isEnded reports whether an owner's run has ended, as far as this process can tell: either
// the owner's process has ended, or this agent ended the run and failed to release the lease.
func (g *registry) isEnded(owner string) bool {
	pid, start, id, ok := proc.ParseOwner(ownerKind, owner)
	if !ok || !proc.Alive(pid, start) {
		return ok
	}
	_, running := g.running.Load(owner)
	return pid == os.Getpid() && strings.HasPrefix(id, g.id+"/") && !running
}

// acquire acquires the thread's lease. It takes over the lease of a run that has ended. If
// another run holds it, the error is a conflict with the head. For a store without leases,
// acquire returns a nil lease.
func (r *run) acquire(ctx context.Context) (*lease, error) {
	leaser, ok := r.Store.(segno.Leaser)
	if !ok {
		return nil, nil
	}
	want := segno.Lease{Thread: r.thread, Owner: r.registry.newOwner()}
	acquire := func() (segno.Lease, error) {
		for {
			want.Expires = time.Now().Add(r.LeaseTime)
			got, err := leaser.Acquire(ctx, want)
			// The store refuses a lease that has expired. The run repeats its request then, because the machine may have
			// slept, or the run could not reach the store for so long.
			if segno.KindOf(err) != segno.KindInvalid || time.Now().Before(want.Expires) {
				return got, err
			}
		}
	}
	got, err := retry(ctx, r.Agent, 1, acquire)
	const tries = 3
	for n := 1; segno.KindOf(err) == segno.KindBusy && n < tries; n++ {
		held, heldErr := r.leaseOf(ctx, leaser)
		switch {
		case heldErr != nil:
			return nil, heldErr
		case held.Owner == "" || held.Owner == want.Owner: // released, or the answer to Acquire was lost
		case r.registry.isEnded(held.Owner):
			if err := leaser.Release(ctx, held); err != nil && segno.KindOf(err) != segno.KindFenced {
				return nil, err
			}
		default:
			hint := "wait until it ends, or stop it"
			if len(r.in.Decide) > 0 {
				hint = "record the decisions with Decide: the run that has the thread acts on them"
			}
			return nil, segno.NewError(segno.KindConflict, "run agent", string(r.thread),
				&runningError{until: held.Expires, conflict: &segno.ConflictError{Actual: r.head}}).WithHint(hint)
		}
		got, err = retry(ctx, r.Agent, 1, acquire)
	}
	if err != nil {
		return nil, r.leaseError(ctx, leaser, err)
	}
	r.registry.running.Store(want.Owner, true)
	r.registry.keepCalls(r.thread, got.Epoch)
	l := &lease{held: got, agent: r.Agent, leaser: leaser, done: make(chan struct{})}
	renewals, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	go l.renew(renewals, r.abort)
	return l, nil
}

// leaseError returns the error of Acquire with another kind if the store refused the lease because its clock is later than that of this
// machine. The input is not at fault, and a machine with the right clock can run it.
func (r *run) leaseError(ctx context.Context, leaser segno.Leaser, err error) error {
	if segno.KindOf(err) != segno.KindInvalid {
		return err
	}
	if _, readErr := r.leaseOf(ctx, leaser); readErr != nil { // for example, the store is closed
		return err
	}
	return segno.Errorf(segno.KindIO, "run agent", string(r.thread), "the clock of this machine is behind that of the store: %w", err).
		WithHint("set the clock of this machine")
}

func (r *run) leaseOf(ctx context.Context, leaser segno.Leaser) (segno.Lease, error) {
	return retry(ctx, r.Agent, 1, func() (segno.Lease, error) { return leaser.LeaseOf(ctx, r.thread) })
}

// isLeased reports whether a run has the thread now, in this process or in another.
func (r *run) isLeased(ctx context.Context) (bool, error) {
	leaser, ok := r.Store.(segno.Leaser)
	if !ok {
		return false, nil
	}
	held, err := r.leaseOf(ctx, leaser)
	return held.Owner != "" && !r.registry.isEnded(held.Owner), err
}

// runningError is [ErrRunning] with the thread's head.
type runningError struct {
	until    time.Time
	conflict *segno.ConflictError
}

func (e *runningError) Error() string {
	return "the thread is already running; its lease lasts until " + e.until.Format(time.TimeOnly) + " at least"
}

func (e *runningError) Unwrap() []error { return []error{ErrRunning, e.conflict} }

// renew renews the lease until it is released. A lease that expired because the machine slept
// is acquired again if no other run had it meanwhile; otherwise renew aborts the run.
func (l *lease) renew(ctx context.Context, abort context.CancelCauseFunc) {
	defer close(l.done)
	tick := time.NewTicker(l.agent.LeaseTime / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		held := l.current()
		want := held
		want.Expires = time.Now().Add(l.agent.LeaseTime)
		got, err := l.leaser.Acquire(ctx, want)
		switch kind := segno.KindOf(err); {
		case err == nil && got.Epoch <= held.Epoch+1:
			l.mu.Lock()
			l.held = got
			l.mu.Unlock()
		case kind == segno.KindBusy && !l.isLost(ctx):
			// The store was too busy to answer; the lease is still valid.
		case err == nil || kind == segno.KindFenced || kind == segno.KindBusy:
			if abort != nil {
				abort(segno.NewError(segno.KindFenced, "run agent", string(held.Thread), nil).
					WithHint("another run took over the thread; read its status"))
			}
			return
		}
	}
}

// isLost reports whether another owner has the lease now.
func (l *lease) isLost(ctx context.Context) bool {
	now, err := l.leaser.LeaseOf(ctx, l.current().Thread)
	return err == nil && now.Owner != "" && now.Owner != l.current().Owner
}

// release ends the renewals and releases the lease. A nil lease needs neither.
func (l *lease) release(ctx context.Context) {
	if l == nil {
		return
	}
	l.cancel()
	<-l.done
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceTime)
	defer cancel()
	held := l.current()
	// If Release fails, other processes wait until the lease expires. This agent's registry
	// records that the run has ended.
	_, _ = retry(ctx, l.agent, 1, func() (any, error) { return nil, l.leaser.Release(ctx, held) })
	l.agent.registry.running.Delete(held.Owner)
}
