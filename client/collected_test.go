package client_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/reachable"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/internal/web"
	"github.com/dalsegno/segno/store/sqlite"
)

// TestACollectionDuringAPush asks a server which objects it lacks, and collects there before it gets commits. The store keeps the
// objects about which a client asked that may write; a client that only reads keeps nothing.
func TestACollectionDuringAPush(t *testing.T) {
	ctx := t.Context()
	var back time.Duration
	db, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "segno.db"), sqlite.Options{Clock: func() time.Time { return time.Now().Add(-back) }})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	file := filepath.Join(t.TempDir(), "tokens")
	reader, err := web.AddToken(ctx, vfs.OS, file, "reader", web.ScopeRead, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	address, writer, stop := serveTokens(t, web.Config{Store: db, Kind: "sqlite"}, file)
	defer stop()
	for _, c := range []struct {
		token string
		keeps bool
	}{{writer, true}, {reader, false}} {
		back = 2 * time.Hour
		batch := db.Objects().Batch()
		name, err := batch.Put(ctx, []byte("a file that a deleted thread had, too, asked with "+c.token))
		if err != nil {
			t.Fatal(err)
		}
		staged, err := batch.Stage(ctx)
		if err == nil {
			err = db.Objects().Keep(ctx, staged)
		}
		if err != nil {
			t.Fatal(err)
		}
		back = 0
		if missing, err := dial(t, address, c.token).MissingObjects(ctx, []segno.Hash{name}); len(missing) > 0 || err != nil {
			t.Fatal(missing, err)
		}
		if _, err := db.Collect(ctx, segno.CollectPolicy{Trace: new(reachable.Tracer).Trace}); err != nil {
			t.Fatal(err)
		}
		if has, err := db.Objects().Has(ctx, name); has != c.keeps || err != nil {
			t.Errorf("after the collection the object is there: %v, want %v, %v", has, c.keeps, err)
		}
	}
}
