package postgres

import (
	"context"
	"iter"
)

// Bucket is an object store that takes the bodies of a [Store]: a directory of a shared file system, S3
// and its relatives. Package store/postgres/gocloud adapts the buckets of gocloud.dev/blob. All methods
// may be called at once, by many processes on many machines.
//
// Names consist of letters, digits, "-" and "/". Each name is written at most once.
type Bucket interface {
	// Put writes an object and returns when it is durable. It never overwrites: a name that
	// exists is an error.
	Put(ctx context.Context, name string, data []byte) error
	// Get returns an object. The error wraps [fs.ErrNotExist] if the object does not exist.
	Get(ctx context.Context, name string) ([]byte, error)
	// List yields the names that begin with prefix, in any order.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
	// Delete removes an object. It returns nil if the object does not exist.
	Delete(ctx context.Context, name string) error
}
