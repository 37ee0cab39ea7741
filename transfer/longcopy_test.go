package transfer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/reachable"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/dalsegno/segno/transfer"
	"github.com/dalsegno/segno/workspace"
)

// TestACollectionDuringALongCopy copies a thread with files to a store that has the content of one of them, which nothing reaches.
// The copy takes two hours after the n-th object, for each n, and then the target collects before it gets the commits. The copied
// thread is sound.
func TestACollectionDuringALongCopy(t *testing.T) {
	ctx := t.Context()
	shared := []byte("a file that a deleted thread had, too")
	from := newMemory(t, "from")
	dir := t.TempDir()
	from.ok(os.WriteFile(filepath.Join(dir, "shared"), shared, 0o600))
	for i := range 3 {
		from.ok(os.WriteFile(filepath.Join(dir, fmt.Sprint("new", i)), fmt.Append(nil, "file ", i), 0o600))
	}
	ws, err := workspace.Open(dir, workspace.Options{ID: "w", Objects: from.Objects()})
	from.ok(err)
	batch := from.Objects().Batch()
	snap, err := ws.Snapshot(ctx, batch)
	from.ok(err)
	staged, err := batch.Stage(ctx)
	from.ok(err)
	from.begin("t")
	from.commit(segno.Commit{Thread: "t", Parent: from.head("t").Head, Staged: staged,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointSave, Time: began, Workspace: &snap}}, "")

	for n, isDone := int64(1), false; !isDone; n++ {
		var passed atomic.Int64 // hours
		to := newSQLite(t, "to", sqlite.Options{Clock: func() time.Time { return began.Add(time.Duration(passed.Load()) * time.Hour) }})
		old := to.Objects().Batch()
		_, err = old.Put(ctx, shared)
		to.ok(err)
		staged, err := old.Stage(ctx)
		to.ok(err)
		to.ok(to.Objects().Keep(ctx, staged))
		passed.Add(2)
		_, err = transfer.Copy(ctx, from, to, "t", transfer.Options{
			Progress: func(sent, _ int64) {
				if sent == n {
					passed.Add(2)
				}
			},
			Arriving: func(ctx context.Context, _ []segno.Commit) error {
				_, err := to.completeStore.(segno.Collector).Collect(ctx, segno.CollectPolicy{Trace: new(reachable.Tracer).Trace})
				return err
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = to.completeStore.(segno.Checker).Check(ctx, segno.CheckPolicy{Trace: new(reachable.Tracer).Trace}, func(err error) bool {
			t.Errorf("after object %d: %v", n, err)
			return true
		})
		to.ok(err)
		isDone = passed.Load() == 2
	}
}
