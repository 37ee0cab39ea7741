package segno

import (
	"context"
	"io"
)

// Objects is the content-addressed part of a store: immutable bytes, each named
// by its SHA-256. All methods may be called at once.
type Objects interface {
	// Get returns an object's bytes; the caller may change them. The error has
	// [KindNotFound] if there is none, [KindCorrupt] if its bytes do not hash to
	// its name. A caller that has the name from a checkpoint, a tree or another record
	// must report KindNotFound as KindCorrupt: the record proves that the object existed.
	Get(ctx context.Context, name Hash) ([]byte, error)
	// Has reports whether an object is there and durable.
	Has(ctx context.Context, name Hash) (bool, error)
	// Batch returns a new collection of objects on their way into the store.
	Batch() Batch
	// Keep makes staged objects durable without a commit. A [Collector] keeps them for at least
	// an hour, and longer once a kept record names them.
	Keep(ctx context.Context, staged Staged) error
}

// Batch collects new objects outside any transaction: it hashes, compresses and
// writes packs before the store's writer is asked for. Its methods may be called
// at once.
type Batch interface {
	// Put adds an object and returns its name. The caller may reuse data on return. For an
	// object that the store already has, Put only looks up the name.
	Put(ctx context.Context, data []byte) (Hash, error)
	// Has reports whether an object is in the batch or in the store.
	Has(ctx context.Context, name Hash) (bool, error)
	// Stage ends the batch. Large objects are in a pack on disk, synced; small ones are in the
	// result. Objects cannot be read back before a commit or Keep. If neither follows, the pack
	// is an orphan. Only a [Collector] removes it, once it is an hour old. An orphan is not
	// reported.
	Stage(ctx context.Context) (Staged, error)
	// Close drops the objects of a batch that was not staged. After Stage it does nothing, even
	// if the commit of the objects fails.
	io.Closer
}

// Staged is the result of a [Batch], for a commit. Another process can commit it later.
type Staged struct {
	Objects []Object `json:"objects,omitempty"` // small ones, at most 1 MiB together
	Packs   []string `json:"packs,omitempty"`   // names of packs in the store
}

// IsZero reports whether nothing is staged.
func (s Staged) IsZero() bool { return len(s.Objects) == 0 && len(s.Packs) == 0 }

// Object is a name and its bytes, as the store encodes them.
type Object struct {
	Name Hash   `json:"name"`
	Size int64  `json:"size"` // the size of the decoded bytes
	Data []byte `json:"data"` // encoded; only the store that staged them can decode them
}
