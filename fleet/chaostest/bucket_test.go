package chaostest

import (
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/dalsegno/segno/fleet/s3"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/store/postgres"
)

// slowBucket is a bucket that takes its time.
type slowBucket struct {
	postgres.Bucket
	slow time.Duration // at most
}

// openBucket opens the bucket of the gateway, or the directory, at a URL.
func openBucket(ctx context.Context, url string, slow time.Duration) (slowBucket, error) {
	if strings.HasPrefix(url, "file:") {
		b, err := postgres.OpenDirBucketURL(url)
		return slowBucket{b, slow}, err
	}
	b, err := s3.OpenWith(ctx, url, s3.Options{Credentials: func(context.Context) (s3.Credentials, error) {
		return s3.Credentials{Key: serverrig.S3Key, Secret: serverrig.S3Secret}, nil
	}})
	return slowBucket{b, slow}, err
}

// close ends the idle connections of a bucket of the gateway.
func (b slowBucket) close() {
	if c, ok := b.Bucket.(io.Closer); ok {
		c.Close()
	}
}

func (b slowBucket) wait(ctx context.Context) error {
	if b.slow == 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rand.N(b.slow)):
		return nil
	}
}

// Put implements [postgres.Bucket].
func (b slowBucket) Put(ctx context.Context, name string, data []byte) error {
	if err := b.wait(ctx); err != nil {
		return err
	}
	return b.Bucket.Put(ctx, name, data)
}

// Get implements [postgres.Bucket].
func (b slowBucket) Get(ctx context.Context, name string) ([]byte, error) {
	if err := b.wait(ctx); err != nil {
		return nil, err
	}
	return b.Bucket.Get(ctx, name)
}
