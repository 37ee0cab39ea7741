package kv

import (
	"context"
	"iter"
	"strings"
	"time"
)

// KV is the key-value store that a [Store] needs. Keys are printable ASCII of at most 1,000 bytes,
// compared byte by byte. Values are any bytes, from none to about 600,000. Values passed in and
// returned are copies. All methods may be called at once.
//
// Every later call of every client sees a change that was made without an error, and the change is as
// durable as the KV makes it. After an error of another kind than [segno.KindConflict],
// [segno.KindNotFound] or [segno.KindInvalid] the change may have been made or not.
type KV interface {
	// Get returns a key's value and revision. The error has [segno.KindNotFound] if the key does not
	// exist.
	Get(ctx context.Context, key string) (val []byte, rev Rev, err error)
	// Put sets a key's value if the condition holds, else the error has
	// [segno.KindConflict] and nothing changed. It returns the new revision.
	Put(ctx context.Context, key string, val []byte, ifRev Rev) (Rev, error)
	// Delete removes a key if the condition holds, else the error has
	// [segno.KindConflict]. With [RevAny] a key that does not exist is not an error.
	Delete(ctx context.Context, key string, ifRev Rev) error
	// List yields the keys that begin with prefix and are greater than after, in the order of their
	// bytes, at most limit of them; 0 is all.
	List(ctx context.Context, prefix, after string, limit int) iter.Seq2[Item, error]
}

// Rev is the revision of one value of one key: it changes when the value does. As a condition it
// requires that value.
type Rev string

// Conditions other than a revision.
const (
	RevNone Rev = ""  // the key does not exist: create only
	RevAny  Rev = "*" // none
	RevSome Rev = "+" // the key exists; only in an [Op]
)

// Item is a key and its value.
type Item struct {
	Key string
	Val []byte
	Rev Rev
}

// Batcher is the ability to read and to change many keys in one round trip, and to let groups expire. See
// [Group].
type Batcher interface {
	// GetAll returns the keys' values in their order; nil for a key that does not exist. The values need
	// not be of one moment.
	GetAll(ctx context.Context, keys []string) ([][]byte, error)
	// Batch makes changes in their order and returns the new revisions, "" for a change that sets no
	// value. No key is in it twice. Consecutive changes of one group are made together, all or none,
	// and become visible together; a KV may make more of them together. At the first condition that does
	// not hold Batch stops with [segno.KindConflict]. Then no change of that group is made, and of each
	// group before it either all changes or none.
	Batch(ctx context.Context, ops []Op) ([]Rev, error)
}

// Op is one change of a [Batcher].
type Op struct {
	Key string
	// Val is the new value. With nil the key stays as it is: the condition counts, and the TTL.
	Val    []byte
	Delete bool // removes the key
	If     Rev
	// Alone is a further condition: the key's group has no other key.
	Alone bool
	// TTL is how long the key's group lives from now, at least. A group that lives longer keeps its
	// time, and a group to which no TTL was ever given does not expire.
	TTL time.Duration
}

// Group returns the group of a key: its part up to the first '}'. The keys of a group expire
// together, and a KV of many machines keeps them on one machine.
func Group(key string) string {
	if i := strings.IndexByte(key, '}'); i >= 0 {
		return key[:i+1]
	}
	return key
}
