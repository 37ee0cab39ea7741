package kv

import (
	"context"
	"iter"
	"strings"
	"time"
)

// KV is what a store needs of a place that keeps values by their keys. Keys are
// printable ASCII of at most 1,000 bytes, compared byte by byte; values are any
// bytes, of none up to about 600,000. Values passed in and returned are copies.
// All methods may be called at once.
//
// What returned without an error is there for every later call of every client,
// and survives what the KV survives. What returned an error of another kind than
// [segno.KindConflict], [segno.KindNotFound] or [segno.KindInvalid] may have been
// done or not.
type KV interface {
	// Get returns a key's value and revision. The error has [segno.KindNotFound]
	// if there is none.
	Get(ctx context.Context, key string) (val []byte, rev Rev, err error)
	// Put sets a key's value if the condition holds, else the error has
	// [segno.KindConflict] and nothing changed. It returns the new revision.
	Put(ctx context.Context, key string, val []byte, ifRev Rev) (Rev, error)
	// Delete removes a key if the condition holds, else the error has
	// [segno.KindConflict]. With [RevAny] a key that is not there is no error.
	Delete(ctx context.Context, key string, ifRev Rev) error
	// List yields the keys that begin with prefix and come after after, in the
	// order of their bytes, at most limit of them; 0 is all.
	List(ctx context.Context, prefix, after string, limit int) iter.Seq2[Item, error]
}

// Rev stands for one value of one key: it changes when the value does. As a
// condition it says what must be there now.
type Rev string

// Conditions that are no revision.
const (
	RevNone Rev = ""  // no value: create only
	RevAny  Rev = "*" // whatever there is, or nothing
	RevSome Rev = "+" // any value, but one; only in an [Op]
)

// Item is a key and its value.
type Item struct {
	Key string
	Val []byte
	Rev Rev
}

// Getter is the ability to read many keys in one round trip.
type Getter interface {
	// GetAll returns the keys' values in their order; nil for a key that is not
	// there. The values need not be of one moment.
	GetAll(ctx context.Context, keys []string) ([][]byte, error)
}

// Batcher is the ability to change many keys in one round trip, and to let groups
// expire. See [Group].
type Batcher interface {
	// Batch does ops in their order and returns the new revisions, "" where nothing
	// was put. No key is in it twice. Neighbours of one group are done together, all
	// or none, and seen together; a KV may do more of them together. At the first
	// condition that does not hold it stops with [segno.KindConflict]: then nothing
	// of that group's ops is done, and of what comes before it either nothing or,
	// group by group, all.
	Batch(ctx context.Context, ops []Op) ([]Rev, error)
}

// Op is one change of a [Batcher].
type Op struct {
	Do  Action
	Key string
	Val []byte
	If  Rev
	// Alone is a further condition: no other key is in the key's group.
	Alone bool
	// TTL is how long the key's group lives from now, at least; one that lives
	// longer or for ever keeps its time. A group without any TTL lives for ever.
	TTL time.Duration
}

// Action is what an [Op] does.
type Action byte

// The actions.
const (
	ActPut    Action = iota // sets the value
	ActDelete               // removes the key
	ActCheck                // changes nothing: the condition counts, and the TTL
)

// Group returns the group of a key: all of it up to the first '}'. The keys of a
// group expire together, and a KV of many machines keeps them on one.
func Group(key string) string {
	if i := strings.IndexByte(key, '}'); i >= 0 {
		return key[:i+1]
	}
	return key
}
