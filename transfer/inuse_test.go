package transfer_test

import (
	"context"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transfer"
)

// refusing is a server that refuses to move the head of a thread, because a directory of the server is at the thread.
type refusing struct {
	completeStore
	thread segno.ThreadID
}

func (s *refusing) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	if movesHead := c.Move == nil && c.IsNode() || c.Move != nil && c.Move.Head != c.Expect; movesHead && c.Create == nil && c.Thread == s.thread {
		return segno.Head{}, segno.Errorf(segno.KindRefused, "commit", string(c.Thread), "the directory of that machine is at the thread")
	}
	return s.completeStore.Commit(ctx, c)
}

// TestAForkMovesNoThreadInUse copies a fork of the newest checkpoint of a thread. The target has the thread at an older checkpoint.
// Its head stays if a directory or a run of the target is at it. If it moved, the next turn in the directory would record that the user
// reverted the turns that the copy brought.
func TestAForkMovesNoThreadInUse(t *testing.T) {
	for _, use := range []string{"directory", "run", "server"} {
		t.Run(use, func(t *testing.T) {
			ctx := t.Context()
			laptop, fleet := newMemory(t, "laptop"), newMemory(t, "fleet")
			laptop.begin("parent")
			laptop.turn("parent", "one")
			copyOf(t, laptop, fleet, "parent", transfer.Created)
			before := pointers(t, fleet, "parent")
			laptop.turn("parent", "two")
			laptop.fork("fork", laptop.turn("parent", "three").Head)

			to := fleet.completeStore
			switch use {
			case "directory":
				fleet.ok(to.(segno.Workspaces).PutWorkspace(ctx, segno.WorkspaceRecord{ID: "w", Path: "/w", Created: began}))
				fleet.commit(segno.Commit{Thread: "parent", Workspace: &segno.WorkspaceState{Workspace: "w", Thread: "parent", Time: began}}, "")
			case "run":
				_, err := to.Acquire(ctx, segno.Lease{Thread: "parent", Owner: "worker", Expires: time.Now().Add(time.Hour)})
				fleet.ok(err)
			case "server":
				to = &refusing{to, "parent"}
			}
			for range 2 { // a repetition does not move it either
				if _, err := transfer.Copy(ctx, laptop, to, "fork", transfer.Options{}); err != nil {
					t.Fatal(err)
				}
				wantSame(t, laptop, fleet, "fork")
				if after := pointers(t, fleet, "parent"); after != before {
					t.Errorf("the head of the parent moved from %v to %v", before, after)
				}
			}
		})
	}
}
