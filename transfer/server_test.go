package transfer_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/reachable"
	"github.com/dalsegno/segno/transfer"
	"github.com/dalsegno/segno/workspace"
)

// hastyServer ends a list of objects if its client reads objects meanwhile. A real server ends a list of which the client reads nothing
// for a minute.
type hastyServer struct {
	*farStore
}

func (s hastyServer) ReachedObjects(ctx context.Context, thread segno.ThreadID, at, without []segno.CommitID) iter.Seq2[segno.Hash, error] {
	return func(yield func(segno.Hash, error) bool) {
		before := s.reads.Load()
		for name, err := range reachable.Objects(ctx, s.completeStore, reachable.Query{Thread: thread, At: at, Without: without}) {
			if s.reads.Load() != before {
				yield(segno.Hash{}, segno.Errorf(segno.KindIO, "list objects", "", "the server ended the response"))
				return
			}
			if !yield(name, err) {
				return
			}
		}
	}
}

// TestAListOfObjectsIsReadAtOnce copies a thread with more objects than one question names from a server that ends slow responses.
func TestAListOfObjectsIsReadAtOnce(t *testing.T) {
	laptop, fleet := newMemory(t, "laptop"), newMemory(t, "fleet")
	fleet.begin("t")
	dir := t.TempDir()
	for i := range 8300 {
		fleet.ok(os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), fmt.Append(nil, "file ", i), 0o600))
	}
	ws, err := workspace.Open(dir, workspace.Options{ID: "w", Objects: fleet.Objects()})
	fleet.ok(err)
	batch := fleet.Objects().Batch()
	snap, err := ws.Snapshot(t.Context(), batch)
	fleet.ok(err)
	staged, err := batch.Stage(t.Context())
	fleet.ok(err)
	fleet.commit(segno.Commit{Thread: "t", Parent: fleet.head("t").Head, Staged: staged,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointSave, Time: began, Workspace: &snap}}, "")
	res, err := transfer.Copy(t.Context(), hastyServer{&farStore{completeStore: fleet}}, laptop, "t", transfer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Objects < 8300 {
		t.Errorf("%+v", res)
	}
	wantSame(t, fleet, laptop, "t")
}

// curiousServer claims to lack an object, whatever a client asks about.
type curiousServer struct {
	*farStore
	wants segno.Hash
}

func (s curiousServer) MissingObjects(ctx context.Context, names []segno.Hash) ([]segno.Hash, error) {
	missing, err := s.farStore.MissingObjects(ctx, names)
	return append(missing, s.wants), err
}

// TestAServerGetsOnlyTheThread pushes a thread to a server that asks for an object of another thread.
func TestAServerGetsOnlyTheThread(t *testing.T) {
	laptop, server := newMemory(t, "laptop"), newMemory(t, "server")
	laptop.begin("private")
	private := segno.HashOf([]byte("base of private"))
	if has, err := laptop.Objects().Has(t.Context(), private); !has || err != nil {
		t.Fatal(has, err)
	}
	laptop.begin("t")
	if _, err := transfer.Copy(t.Context(), laptop, curiousServer{&farStore{completeStore: server}, private}, "t", transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	wantSame(t, laptop, server, "t")
	if has, err := server.Objects().Has(t.Context(), private); has || err != nil {
		t.Errorf("the server has an object of another thread: %v, %v", has, err)
	}
}
