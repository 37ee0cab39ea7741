package postgres

import (
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/storetest"
	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"
)

func TestStore(t *testing.T) {
	testStore(t, func(*testing.T) *blob.Bucket { return nil })
}

func testStore(t *testing.T, bucket func(*testing.T) *blob.Bucket) {
	clock := storetest.NewClock()
	again := func(t *testing.T, s segno.Store) segno.Store { return openStore(t, s.(*Store).options) }
	storetest.Test(t, func(t *testing.T) segno.Store {
		return openStore(t, Options{Clock: clock.Now, Bucket: bucket(t)})
	}, storetest.Options{
		Clock: clock,
		Reopen: func(t *testing.T, s segno.Store) segno.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return again(t, s)
		},
		Another: again,
		Size:    func(t *testing.T, s segno.Store) int64 { return sizeOf(t, s.(*Store)) },
	})
}

func inMemory(t *testing.T) *blob.Bucket {
	b := memblob.OpenBucket(nil)
	t.Cleanup(func() { b.Close() })
	return b
}

func inDirectory(t *testing.T) *blob.Bucket {
	b, err := fileblob.OpenBucket(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}
