package retryrig

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"

	"github.com/dalsegno/segno"
)

// fault is a kind of fault, by the name that reports have.
type fault string

const (
	noFault fault = ""

	// Of the store.
	errorBefore  fault = "store-error-before"
	errorAfter   fault = "store-error-after" // the acknowledgement is lost
	cancelBefore fault = "cancel-before"     // the caller cancels its context
	cancelAfter  fault = "cancel-after"
	killBefore   fault = "kill-before" // the caller's process
	killAfter    fault = "kill-after"
	killServer   fault = "kill-server"
	diskError    fault = "disk-error"

	// Of the model.
	modelRetry     fault = "model-overloaded"
	modelBroken    fault = "model-breaks-off"
	modelTruncated fault = "model-ends-without-answer"
	modelArgs      fault = "model-truncates-arguments"
	modelHangs     fault = "model-hangs-until-cancelled"
	modelFails     fault = "model-fails"
	modelPanics    fault = "model-panics"

	// Of a tool.
	toolFails     fault = "tool-fails"
	toolPanics    fault = "tool-panics"
	toolCancelled fault = "cancel-in-tool"
	killInTool    fault = "kill-in-tool" // before its effect
	killAtEffect  fault = "kill-at-effect"

	deadline fault = "deadline"
)

// chance decides where faults happen, and reports them.
type chance struct {
	mu      sync.Mutex
	rnd     *rand.Rand
	one     int // each kind of fault happens once at so many places; 0 is never
	left    int // of an outage: how many of the store's operations fail yet
	order   order
	tell    func(report, text string)
	excuses bool // a call's outcome may be unknown: a process was killed, or a context ended
}

// at decides about a place that has one of these faults at the most.
func (c *chance) at(kinds ...fault) fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	const rarer = 4 // there are fewer such places than operations of the store
	if c.one == 0 || c.rnd.IntN(c.one) >= rarer*len(kinds) {
		return noFault
	}
	return c.pick(kinds)
}

// inStore decides about an operation of the store, which fails for a while if it fails.
func (c *chance) inStore() fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.left > 0:
		c.left--
		return [...]fault{errorBefore, errorAfter}[c.rnd.IntN(2)] // it is part of the outage
	}
	kinds := []fault{errorBefore, errorAfter, cancelBefore, cancelAfter, killBefore, killAfter, killServer}
	if c.one == 0 || c.rnd.IntN(c.one) >= len(kinds) {
		return noFault
	}
	f := c.pick(kinds)
	if f == errorBefore || f == errorAfter {
		c.left = c.rnd.IntN(1 + c.rnd.IntN(12))
	}
	return f
}

// pick chooses one of the faults that the order allows, and reports it. The caller holds mu.
func (c *chance) pick(kinds []fault) fault {
	f := kinds[c.rnd.IntN(len(kinds))]
	switch f {
	case killBefore, killAfter, killInTool, killAtEffect:
		if !c.order.Kill {
			return noFault
		}
	case killServer:
		if !c.order.Restart {
			return noFault
		}
	case cancelBefore, cancelAfter, toolCancelled, modelHangs:
		c.excuses = true
	}
	c.tell(reportFault, string(f))
	return f
}

// mayBeUnknown reports whether something happened that leaves the outcome of a call unknown.
func (c *chance) mayBeUnknown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.excuses
}

// number returns a random number below n.
func (c *chance) number(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rnd.IntN(n)
}

// die ends this process as a power cut would.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// storeErrors are what stores return if something outside of them fails.
var storeErrors = []error{
	segno.NewError(segno.KindIO, "reach store", "", syscall.ECONNRESET),
	segno.NewError(segno.KindIO, "write store", "", syscall.ENOSPC),
	segno.Errorf(segno.KindBusy, "lock store", "", "another process writes"),
	segno.NewError(segno.KindCancelled, "reach store", "", context.DeadlineExceeded),
	segno.Errorf(segno.KindInternal, "reach store", "", "the server reports an error"),
}

// faulty is a store whose operations fail at random, before they take effect or after.
type faulty struct {
	Store
	*caller
}

func faultily[T any](f faulty, op func() (T, error)) (T, error) {
	var none T
	err := storeErrors[f.number(len(storeErrors))]
	switch f.inStore() {
	case errorBefore:
		return none, err
	case cancelBefore:
		f.cancel()
	case killBefore:
		die()
	case killServer:
		if lost := f.killServer(); lost != nil {
			return none, lost
		}
	case cancelAfter:
		defer f.cancel()
	case killAfter:
		_, _ = op() // the process does not live to see the result
		die()
	case errorAfter:
		if got, failed := op(); failed != nil {
			return got, failed
		}
		return none, err
	}
	return op()
}

func (f faulty) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	return faultily(f, func() (segno.Head, error) { return f.Store.Commit(ctx, c) })
}

func (f faulty) Head(ctx context.Context, id segno.ThreadID) (segno.Head, error) {
	return faultily(f, func() (segno.Head, error) { return f.Store.Head(ctx, id) })
}

func (f faulty) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	return faultily(f, func() (*segno.Line, error) { return f.Store.Load(ctx, at, w) })
}

func (f faulty) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	return faultily(f, func() (segno.Lease, error) { return f.Store.Acquire(ctx, l) })
}

func (f faulty) LeaseOf(ctx context.Context, id segno.ThreadID) (segno.Lease, error) {
	return faultily(f, func() (segno.Lease, error) { return f.Store.LeaseOf(ctx, id) })
}

func (f faulty) Release(ctx context.Context, l segno.Lease) error {
	_, err := faultily(f, func() (bool, error) { return true, f.Store.Release(ctx, l) })
	return err
}
