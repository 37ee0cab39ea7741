package retryrig

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"

	"github.com/dalsegno/segno"
)

// fault is a kind of fault. Its value is the name in reports.
type fault string

const (
	noFault fault = ""

	// Faults of the store.
	errorBefore  fault = "store-error-before"
	errorAfter   fault = "store-error-after" // the acknowledgement is lost
	cancelBefore fault = "cancel-before"     // the caller cancels its context
	cancelAfter  fault = "cancel-after"
	killBefore   fault = "kill-before" // kills the caller's process
	killAfter    fault = "kill-after"
	killServer   fault = "kill-server"
	diskError    fault = "disk-error"

	// Faults of the model.
	modelRetry     fault = "model-overloaded"
	modelBroken    fault = "model-breaks-off"
	modelTruncated fault = "model-ends-without-answer"
	modelArgs      fault = "model-truncates-arguments"
	modelHangs     fault = "model-hangs-until-cancelled"
	modelFails     fault = "model-fails"
	modelPanics    fault = "model-panics"

	// Faults of a tool.
	toolFails     fault = "tool-fails"
	toolPanics    fault = "tool-panics"
	toolCancelled fault = "cancel-in-tool"
	killInTool    fault = "kill-in-tool" // kills the process before the tool's effect
	killAtEffect  fault = "kill-at-effect"

	deadline fault = "deadline"
)

// chance decides randomly where faults happen, and reports them.
type chance struct {
	mu      sync.Mutex
	rnd     *rand.Rand
	one     int // a fault of each kind happens once in about this many places; 0 is never
	left    int // in an outage: the number of the store's operations that will still fail
	order   order
	tell    func(report, text string)
	excuses bool // the outcome of a call may be unknown: a process was killed, or a context ended
}

// at decides whether one of these faults happens at a place.
func (c *chance) at(kinds ...fault) fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	const rarer = 4 // there are fewer such places than operations of the store
	if c.one == 0 || c.rnd.IntN(c.one) >= rarer*len(kinds) {
		return noFault
	}
	return c.pick(kinds)
}

// inStore decides whether an operation of the store fails. A failure begins an outage, in which the next
// operations fail, too.
func (c *chance) inStore() fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.left > 0:
		c.left--
		return [...]fault{errorBefore, errorAfter}[c.rnd.IntN(2)] // this operation is part of the outage
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

// mayBeUnknown reports whether a fault has made the outcome of a call unknown.
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

// die kills this process without any cleanup.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// storeErrors are errors that stores return for failures outside of them.
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
		_, _ = op() // the process is killed before it can use the result
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
