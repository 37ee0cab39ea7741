package fleetcmd

import (
	"context"
	"io"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/fleet/s3"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/store/postgres"
)

// Bucket is an open bucket.
type Bucket interface {
	postgres.Bucket
	io.Closer
}

// OpenBucket opens the bucket of a URL. "" is no bucket, and nil: the database then has the large objects, too.
func OpenBucket(ctx context.Context, url string) (Bucket, error) {
	switch scheme, _ := cli.URLScheme(url); {
	case url == "":
		return nil, nil
	case scheme == "file":
		b, err := postgres.OpenDirBucketURL(url)
		if err != nil {
			return nil, err
		}
		return b, nil
	case scheme == "s3":
		b, err := s3.Open(ctx, url)
		if err != nil {
			return nil, err
		}
		return b, nil
	}
	return nil, segno.Errorf(segno.KindInvalid, "open bucket", "", "the URL has another scheme than s3 and file").
		WithHint("give a URL like s3://BUCKET/PREFIX?endpoint=https://s3.example.com, or file:///srv/segno")
}

// closeBucket closes a bucket, if there is one.
func closeBucket(b Bucket) error {
	if b == nil {
		return nil
	}
	return b.Close()
}
