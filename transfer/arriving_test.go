package transfer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transfer"
)

// TestArriving checks that the caller sees every commit and every link before the target has it, and can refuse them.
func TestArriving(t *testing.T) {
	ctx := t.Context()
	from, to := newMemory(t, "from"), newMemory(t, "to")
	example(from, "t")
	announced := map[segno.CommitID]bool{}
	refuse := errors.New("no")
	o := transfer.Options{Arriving: func(context.Context, []segno.Commit) error { return refuse }}
	if _, err := transfer.Copy(ctx, from, to, "t", o); !errors.Is(err, refuse) {
		t.Fatalf("a refused copy: %v", err)
	}
	if _, ok, err := segno.FindThread(ctx, to, "t"); ok || err != nil {
		t.Fatalf("a refused copy made the thread: %v", err)
	}
	o.Arriving = func(ctx context.Context, commits []segno.Commit) error {
		for _, c := range commits {
			if c.Link != nil {
				continue
			}
			if _, err := to.Load(ctx, c.ID, segno.Window{Last: 1}); segno.KindOf(err) != segno.KindNotFound {
				t.Errorf("%s is there already: %v", c.ID, err)
			}
			if c.Checkpoint != nil && c.Checkpoint.State != nil {
				if has, err := to.Objects().Has(ctx, c.Checkpoint.State.Data); err != nil || !has {
					t.Errorf("an object of %s is missing: %v", c.ID, err)
				}
			}
			announced[c.ID] = true
		}
		return nil
	}
	done, err := transfer.Copy(ctx, from, to, "t", o)
	if err != nil || done.Commits != len(announced) {
		t.Fatalf("%d commits were announced of %+v, %v", len(announced), done, err)
	}
}
