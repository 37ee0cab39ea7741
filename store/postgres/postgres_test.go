package postgres

import (
	"bytes"
	"context"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
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
		if !strings.Contains(t.Name(), "/scale/") { // the scale tests measure the tables
			o.Schema = room.options.Schema
			t.Cleanup(func() { emptyStore(t, room) })
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

// rawRows returns the bytes of all rows and of all objects in the bucket.
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

// emptyStore empties a store, because creating a new one takes a tenth of a second.
func emptyStore(t *testing.T, s *Store) {
	ctx := context.WithoutCancel(t.Context()) // the context of a cleanup has ended
	for _, table := range allTables {
		if _, err := s.pool.Exec(ctx, s.sql(`DELETE FROM {}`+table)); err != nil {
			t.Error(err)
		}
	}
}

// noise returns text that hardly compresses. It returns the same text in each call.
func noise(n int) string {
	var b strings.Builder
	for h := segno.HashOf(nil); b.Len() < n; h = segno.HashOf(h[:]) {
		b.WriteString(base64.RawURLEncoding.EncodeToString(h[:]))
	}
	return b.String()[:n]
}

// TestStoreWithABucket runs the conformance tests on a store that writes its bodies to a bucket.
func TestStoreWithABucket(t *testing.T) {
	if soak.IsDrawn(t) {
		testStore(t, inMemory)
	}
}

// TestOnlyLargeObjectsAreInTheBucket verifies that objects and entries above 256 KB are in the bucket and can be
// read, and that a collection deletes them a day after the last row that named them.
func TestOnlyLargeObjectsAreInTheBucket(t *testing.T) {
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
		_, err := s.Collect(t.Context(), segno.CollectPolicy{Trace: func(context.Context, segno.Objects, segno.Checkpoint,
			func(segno.Hash) bool) error {
			return nil
		}})
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
