package postgres

import (
	"bytes"
	"context"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/storetest"
)

func TestStore(t *testing.T) {
	testStore(t, func(*testing.T) Bucket { return nil })
}

func testStore(t *testing.T, bucket func(*testing.T) Bucket) {
	clock := storetest.NewClock()
	again := func(t *testing.T, s segno.Store) segno.Store { return openStore(t, s.(*Store).options) }
	room := openStore(t, Options{})
	storetest.Test(t, func(t *testing.T) segno.Store {
		o := Options{Clock: clock.Now, Bucket: bucket(t)}
		if !strings.Contains(t.Name(), "/scale/") { // those weigh the tables
			o.Schema = room.options.Schema
			t.Cleanup(func() { sweep(t, room) })
		}
		return openStore(t, o)
	}, storetest.Options{
		Clock: clock,
		Reopen: func(t *testing.T, s segno.Store) segno.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return again(t, s)
		},
		Another: again,
		Raw:     func(t *testing.T, s segno.Store) []byte { return rawRows(t, s.(*Store)) },
		Size:    func(t *testing.T, s segno.Store) int64 { return sizeOf(t, s.(*Store)) },
	})
}

// rawRows is the content of all rows, and of all that is in the bucket.
func rawRows(t *testing.T, s *Store) []byte {
	var raw bytes.Buffer
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, table := range allTables {
		if _, err := conn.Conn().PgConn().CopyTo(t.Context(), &raw, s.sql(`COPY {}`+table+` TO STDOUT (FORMAT binary)`)); err != nil {
			t.Fatal(err)
		}
	}
	if s.options.Bucket == nil {
		return raw.Bytes()
	}
	for _, name := range namesIn(t, s.options.Bucket) {
		data, err := s.options.Bucket.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		raw.Write(data)
	}
	return raw.Bytes()
}

var allTables = [...]string{"threads", "commits", "terms", "pins", "links", "workspaces", "operations", "objects", "bodies"}

// sweep empties a store: a new one costs a tenth of a second.
func sweep(t *testing.T, s *Store) {
	ctx := context.WithoutCancel(t.Context()) // a cleanup's has ended
	for _, table := range allTables {
		if _, err := s.pool.Exec(ctx, s.sql(`DELETE FROM {}`+table)); err != nil {
			t.Error(err)
		}
	}
}

// noise is text that hardly compresses, the same every time.
func noise(n int) string {
	var b strings.Builder
	for h := segno.HashOf(nil); b.Len() < n; h = segno.HashOf(h[:]) {
		b.WriteString(base64.RawURLEncoding.EncodeToString(h[:]))
	}
	return b.String()[:n]
}

// TestStoreWithABucket holds a store that writes its bodies to a bucket to the same
// clauses.
func TestStoreWithABucket(t *testing.T) { testStore(t, inMemory) }

// TestOnlyWhatIsLargeIsInTheBucket: objects and entries above 256 KB are, and come back;
// a collection drops them a day after nothing names them any more.
func TestOnlyWhatIsLargeIsInTheBucket(t *testing.T) {
	clock := storetest.NewClock()
	bucket := inMemory(t)
	s := openStore(t, Options{Bucket: bucket, Clock: clock.Now})
	fill(t, s, noise(600<<10))
	if names := namesIn(t, bucket); len(names) != 1 {
		t.Fatalf("after large entries the bucket holds %v", names)
	}
	large := []byte(noise(400 << 10))
	b := s.Objects().Batch()
	name, err := b.Put(t.Context(), large)
	if err != nil {
		t.Fatal(err)
	}
	staged, err := b.Stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if names := namesIn(t, bucket); len(names) != 2 {
		t.Fatalf("once a large object is staged the bucket holds %v", names)
	}
	collect := func(want int) {
		t.Helper()
		_, err := s.Collect(t.Context(), segno.CollectPolicy{Trace: func(context.Context, segno.Objects, segno.Checkpoint, func(segno.Hash) bool) error { return nil }})
		if names := namesIn(t, bucket); err != nil || len(names) != want {
			t.Fatalf("after a collection the bucket holds %v, %v", names, err)
		}
	}
	clock.Advance(23 * time.Hour)
	collect(2)
	if err := s.Objects().Keep(t.Context(), staged); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Objects().Get(t.Context(), name); err != nil || !bytes.Equal(got, large) {
		t.Fatalf("%d bytes came back, %v", len(got), err)
	}
	clock.Advance(3 * time.Hour)
	if err := s.Objects().Keep(t.Context(), staged); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("keeping what was staged more than a day ago: %v", err)
	}
	collect(1)
	if _, err := s.Objects().Get(t.Context(), name); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("what was collected: %v", err)
	}
	if err := loadLarge(t.Context(), s); err != nil {
		t.Error(err)
	}
	if err := s.Delete(t.Context(), "thread"); err != nil {
		t.Fatal(err)
	}
	collect(0)
}
