package main

import (
	"context"
	"errors"
	"io"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/fleet/s3"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/store/kv/redis"
	"github.com/dalsegno/segno/store/postgres"
)

// openPostgres opens an existing store. bucket is the URL of its bucket, or "".
func openPostgres(ctx context.Context, url, bucket string) (segno.Store, error) {
	b, err := openBucket(ctx, bucket)
	if err != nil {
		return nil, err
	}
	s, err := postgres.Open(ctx, url, postgres.Options{MustExist: true, Bucket: b})
	switch {
	case err != nil && b != nil:
		return nil, errors.Join(err, b.Close())
	case err != nil:
		return nil, err
	case b != nil:
		return storeWithBucket{s, b}, nil
	}
	return s, nil
}

// storeWithBucket is a store that closes its bucket.
type storeWithBucket struct {
	*postgres.Store
	bucket io.Closer
}

func (s storeWithBucket) Close() error { return errors.Join(s.Store.Close(), s.bucket.Close()) }

// bucket is an open bucket.
type bucket interface {
	postgres.Bucket
	io.Closer
}

// openBucket opens the bucket of a URL. "" is no bucket, and nil.
func openBucket(ctx context.Context, url string) (bucket, error) {
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

// quiet discards the driver's own log, which it writes to standard error. The store returns the same errors.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func openRedis(ctx context.Context, url, _ string) (segno.Store, error) {
	goredis.SetLogger(quiet{})
	s, err := redis.Open(ctx, url, redis.Options{})
	if err != nil {
		return nil, err
	}
	return s, nil
}
