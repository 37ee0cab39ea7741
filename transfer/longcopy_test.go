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

	copyForHours(t, from, shared, false, func(n int64, to *side) {
		_, err := to.completeStore.(segno.Checker).Check(ctx, segno.CheckPolicy{Trace: new(reachable.Tracer).Trace}, func(err error) bool {
			t.Errorf("after object %d: %v", n, err)
			return true
		})
		to.ok(err)
	})
}

// TestACollectionDuringALongCopyOfASession is the same for a session that segno has cut and that no checkpoint has.
func TestACollectionDuringALongCopyOfASession(t *testing.T) {
	ctx := t.Context()
	parts := [][]byte{[]byte("a part that a deleted thread had, too\n"), []byte("new\n")}
	from := newMemory(t, "from")
	from.begin("t")
	batch := from.Objects().Batch()
	size, list := 0, ""
	for _, part := range parts {
		name, err := batch.Put(ctx, part)
		from.ok(err)
		size, list = size+len(part), list+fmt.Sprintf("chunk %s %d\n", name, len(part))
	}
	log, err := batch.Put(ctx, fmt.Appendf(nil, "segno-log 1\nsize %d\n%s", size, list))
	from.ok(err)
	staged, err := batch.Stage(ctx)
	from.ok(err)
	from.commit(segno.Commit{Thread: "t", Staged: staged, Link: &segno.Link{Agent: "claude", Session: "cut", Start: began, Reason: "undo",
		Position: &segno.Position{Agent: "claude", Session: "cut", Leaf: "x", Offset: int64(size), Log: log}}}, "")
	copyForHours(t, from, parts[0], true, func(n int64, to *side) {
		for name, err := range reachable.Objects(ctx, to, reachable.Query{Thread: "t"}) {
			if err == nil {
				_, err = to.Objects().Get(ctx, name)
			}
			if err != nil {
				t.Errorf("after object %d: %v", n, err)
			}
		}
	})
}

// copyForHours copies the thread t to stores that have an old object, which nothing reaches. The n-th copy takes two hours after
// the n-th object. The target collects before it gets commits or links. check is called after each copy.
func copyForHours(t *testing.T, from *side, old []byte, links bool, check func(n int64, to *side)) {
	t.Helper()
	ctx := t.Context()
	for n, isDone := int64(1), false; !isDone; n++ {
		var passed atomic.Int64 // hours
		to := newSQLite(t, "to", sqlite.Options{Clock: func() time.Time { return began.Add(time.Duration(passed.Load()) * time.Hour) }})
		batch := to.Objects().Batch()
		_, err := batch.Put(ctx, old)
		to.ok(err)
		staged, err := batch.Stage(ctx)
		to.ok(err)
		to.ok(to.Objects().Keep(ctx, staged))
		passed.Add(2)
		_, err = transfer.Copy(ctx, from, to, "t", transfer.Options{
			Progress: func(sent, _ int64) {
				if sent == n {
					passed.Add(2)
				}
			},
			Arriving: func(ctx context.Context, commits []segno.Commit) error {
				if (commits[0].Link != nil) != links {
					return nil
				}
				_, err := to.completeStore.(segno.Collector).Collect(ctx, segno.CollectPolicy{Trace: new(reachable.Tracer).Trace})
				return err
			},
		})
		to.ok(err)
		check(n, to)
		isDone = passed.Load() == 2
	}
}
