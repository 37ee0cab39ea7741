package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/internal/testing/containerrig"
	"github.com/dalsegno/segno/store/memory"
)

// TestALeaseOfAContainerIsKept acquires a thread that a process in another PID namespace holds, such as a container with the same
// store. A process of an earlier boot has certainly ended.
func TestALeaseOfAContainerIsKept(t *testing.T) {
	container := containerrig.Start(t)
	inContainer := fmt.Sprint("acp ", container.PID, " ", container.Start)
	const ended = "acp 2147483646 1"
	for _, c := range []struct {
		owner, machine string
		isKept         bool
	}{
		{ended, proc.Machine(), false},
		{inContainer, container.Machine, true},
		{inContainer, "an-earlier-boot/pid:[1]", false},
	} {
		s := &lateStore{memory: memory.New(time.Now), free: make(chan struct{})}
		close(s.free)
		if _, err := s.memory.Commit(t.Context(), segno.Commit{ID: "base", Thread: "t", Create: &segno.Thread{ID: "t"},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}}); err != nil {
			t.Fatal(err)
		}
		open := func(owner string) *sessionStore {
			p := &proxy{ctx: t.Context(), store: heldStore{s}, owner: owner, machine: c.machine, Config: Config{Stderr: io.Discard, Place: local.Place{Now: time.Now}}}
			return &sessionStore{proxy: p, record: sessionRecord{Client: "s", Thread: "t"}}
		}
		if err := open(c.owner).acquireLease(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := open("acp 1 1").acquireLease(t.Context()); errors.Is(err, errHeld) != c.isKept || !c.isKept && err != nil {
			t.Errorf("the lease of a process of %s: %v", c.machine, err)
		}
	}
}

// heldStore is a lateStore that also reads leases.
type heldStore struct{ *lateStore }

func (s heldStore) LeaseOf(ctx context.Context, thread segno.ThreadID) (segno.Lease, error) {
	return s.memory.LeaseOf(ctx, thread)
}
