package gocloud

import (
	"testing"

	"github.com/dalsegno/segno/store/postgres"
	"github.com/dalsegno/segno/store/postgres/buckettest"
	"gocloud.dev/blob/memblob"
)

func TestBucket(t *testing.T) {
	buckettest.Test(t, func(t *testing.T) postgres.Bucket {
		inner := memblob.OpenBucket(nil)
		t.Cleanup(func() { inner.Close() })
		return Bucket(inner)
	}, buckettest.Options{Page: 1000})
}
