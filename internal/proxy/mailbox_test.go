package proxy

import (
	"slices"
	"sync"
	"testing"
)

// TestMailboxRunsOneStepAtATime adds steps from two goroutines, as the readers of both
// sides do: steps for the mailbox, and steps to run immediately if possible, with and
// without a rest. Each goroutine's steps must run in order, and never two at once.
func TestMailboxRunsOneStepAtATime(t *testing.T) {
	const n = 2000
	b := newMailbox(func() {})
	var lane, readers sync.WaitGroup
	at := [2]int{} // only steps use it, so the race detector reports if two run at once
	for side := range at {
		readers.Go(func() {
			for i := range n {
				do := func() {
					if at[side] != i {
						t.Errorf("step %d of side %d comes after %d others", i, side, at[side])
					}
					at[side] = i + 1
				}
				whole := step{do: do, size: 1, update: i%2 == 0}
				switch i % 3 {
				case 0:
					b.push(whole)
				case 1:
					b.addOrRun(whole, func() step { do(); return step{} })
				case 2:
					b.addOrRun(whole, func() step { return whole })
				}
				if i == n/2 && side == 0 {
					lane.Go(b.run) // late: earlier steps wait for it
				}
			}
		})
	}
	readers.Wait()
	b.close()
	lane.Wait()
	if at != [2]int{n, n} {
		t.Errorf("%v steps were made", at)
	}
	if b.push(step{do: func() {}}) || b.addOrRun(step{do: func() {}}, func() step { return step{} }) {
		t.Error("a closed mailbox took a step")
	}
}

// TestMailboxBeforeRun adds steps before the call of run. None runs, and add does not
// block; run then executes them in order.
func TestMailboxBeforeRun(t *testing.T) {
	b := newMailbox(func() {})
	var made []int
	for i := range 3 {
		do := func() { made = append(made, i) }
		b.addOrRun(step{do: do, size: mailboxLimit}, func() step { do(); return step{} })
	}
	if len(made) > 0 {
		t.Errorf("the steps %v were made before the lane began", made)
	}
	b.close()
	b.run()
	if !slices.Equal(made, []int{0, 1, 2}) {
		t.Errorf("the steps made are %v", made)
	}
}
