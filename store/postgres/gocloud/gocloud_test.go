package gocloud

import (
	"testing"

	"github.com/dalsegno/segno/store/postgres"
	"github.com/dalsegno/segno/store/postgres/buckettest"
	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"
)

func TestBucket(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (*blob.Bucket, error){
		"memory":    func(*testing.T) (*blob.Bucket, error) { return memblob.OpenBucket(nil), nil },
		"directory": func(t *testing.T) (*blob.Bucket, error) { return fileblob.OpenBucket(t.TempDir(), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			buckettest.Test(t, func(t *testing.T) postgres.Bucket {
				inner, err := open(t)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { inner.Close() })
				return Bucket(inner)
			}, buckettest.Options{Page: 1000})
		})
	}
}
