package transfer_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/reachable"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/dalsegno/segno/transfer"
	"github.com/dalsegno/segno/workspace"
)

// TestACollectionDuringACopy copies a thread with files to a store that has the content of one of them, which nothing reaches and
// which is old. A collection there, between the objects and the commits, drops no object of the thread.
func TestACollectionDuringACopy(t *testing.T) {
	ctx := t.Context()
	var back time.Duration
	from := newMemory(t, "from")
	to := newSQLite(t, "to", sqlite.Options{Clock: func() time.Time { return time.Now().Add(-back) }})
	dir := t.TempDir()
	shared := []byte("a file that a deleted thread had, too")
	from.ok(os.WriteFile(filepath.Join(dir, "a"), shared, 0o600))
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

	back = 2 * time.Hour
	old := to.Objects().Batch()
	_, err = old.Put(ctx, shared)
	to.ok(err)
	staged, err = old.Stage(ctx)
	to.ok(err)
	to.ok(to.Objects().Keep(ctx, staged))
	back = 0

	collects := func(ctx context.Context, _ []segno.Commit) error {
		_, err := to.completeStore.(segno.Collector).Collect(ctx, segno.CollectPolicy{Trace: new(reachable.Tracer).Trace})
		return err
	}
	if _, err := transfer.Copy(ctx, from, to, "t", transfer.Options{Arriving: collects}); err != nil {
		t.Fatal(err)
	}
	for name, err := range reachable.Objects(ctx, to, reachable.Query{At: []segno.CommitID{to.head("t").Head}}) {
		to.ok(err)
		if _, err := to.Objects().Get(ctx, name); err != nil {
			t.Errorf("the thread lacks an object: %v", err)
		}
	}
}
