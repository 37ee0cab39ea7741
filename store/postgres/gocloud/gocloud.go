// Package gocloud adapts the buckets of gocloud.dev/blob for store/postgres: S3, Google Cloud Storage, or
// Azure Blob Storage. It is a separate module, so that only programs that import it link gocloud.dev and its
// dependencies.
//
// For a directory use [postgres.DirBucket]. That of gocloud.dev (fileblob 0.47) does not keep the contract of
// [postgres.Bucket]: two concurrent Puts of one name may both succeed, a list fails if a file is deleted
// meanwhile, and Put returns before the file is durable.
//
//	bucket, err := blob.OpenBucket(ctx, "s3://agents?region=eu-central-1")
//	store, err := postgres.Open(ctx, url, postgres.Options{Bucket: gocloud.Bucket(bucket)})
package gocloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"github.com/dalsegno/segno/store/postgres"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// Bucket returns b as a bucket of a store. The caller closes b, after the store.
func Bucket(b *blob.Bucket) postgres.Bucket { return bucket{b} }

type bucket struct{ *blob.Bucket }

func (b bucket) Put(ctx context.Context, name string, data []byte) error {
	return plainError(b.WriteAll(ctx, name, data, &blob.WriterOptions{IfNotExist: true}))
}

func (b bucket) Get(ctx context.Context, name string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // the driver of a local bucket does not check it
	}
	data, err := b.ReadAll(ctx, name)
	return data, plainError(err)
}

func (b bucket) Delete(ctx context.Context, name string) error {
	if err := plainError(b.Bucket.Delete(ctx, name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (b bucket) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for objects := b.Bucket.List(&blob.ListOptions{Prefix: prefix}); ; {
			o, err := objects.Next(ctx)
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield("", plainError(err))
				return
			}
			if !yield(o.Key, nil) {
				return
			}
		}
	}
}

// plainError converts an error of a bucket so that it matches the errors of the standard library that
// [postgres.Bucket] names.
func plainError(err error) error {
	for code, is := range map[gcerrors.ErrorCode]error{
		gcerrors.NotFound:           fs.ErrNotExist,
		gcerrors.FailedPrecondition: fs.ErrExist,
		gcerrors.Canceled:           context.Canceled,
		gcerrors.DeadlineExceeded:   context.DeadlineExceeded,
	} {
		if err != nil && gcerrors.Code(err) == code && !errors.Is(err, is) {
			return fmt.Errorf("%w: %w", is, err)
		}
	}
	return err
}
