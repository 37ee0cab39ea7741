package kv

import (
	"context"
	"iter"
	"strings"
	"time"
)

// KV is the key-value store that a [Store] needs. All methods may be called concurrently.
//
// Keys are printable ASCII, compared byte by byte. The store writes keys of at most 512 bytes, but a KV
// must accept 1,000. Values are any bytes, from 0 to 600,000 of them. The store never passes a nil value
// to Put. Values passed in and returned are copies.
//
// Every later call of every client must see a change that was made without an error, and the change is
// as durable as the KV makes it. The store passes some changes a context that never ends, because a
// change that is cancelled halfway could not report whether it was made. A KV must therefore limit the
// time of its calls itself.
//
// Errors must be [segno.Error]s of these kinds. The store reports an error without a kind as
// [segno.KindIO].
//
//	situation                                     kind                 the change
//	Get finds no such key                         KindNotFound         -
//	the condition of a change does not hold       KindConflict         was not made
//	the arguments are not valid                   KindInvalid          was not made
//	ctx had ended before the call                 KindCancelled        was not made
//	ctx ends during the call                      KindCancelled        may have been made
//	the server does not answer, the network fails KindIO               may have been made
//	the server answers that it cannot serve now   KindBusy             may have been made
//	the key holds a value of another program      KindCorrupt          may have been made
type KV interface {
	// Get returns a key's value and revision. The error has [segno.KindNotFound] if the key does not
	// exist.
	Get(ctx context.Context, key string) (val []byte, rev Rev, err error)
	// Put sets a key's value if the condition ifRev holds, and returns the new revision. Otherwise the
	// error has [segno.KindConflict] and nothing changed. The condition is a revision, [RevNone],
	// [RevAny] or [RevSome].
	Put(ctx context.Context, key string, val []byte, ifRev Rev) (Rev, error)
	// Delete removes a key if the condition ifRev holds. Otherwise the error has [segno.KindConflict].
	// The condition is a revision, [RevAny] or [RevSome]. With [RevAny], a missing key is not an error.
	Delete(ctx context.Context, key string, ifRev Rev) error
	// List yields the keys that begin with prefix and are greater than after, in the order of their
	// bytes. It yields at most limit keys; 0 means all. An error is the last pair that List yields.
	//
	// A list need not show a single moment. It contains each key that exists during the whole call. A
	// key that is created, changed or deleted meanwhile may be in the list or not. The caller may change
	// and delete keys while it reads the list, including keys of the list.
	List(ctx context.Context, prefix, after string, limit int) iter.Seq2[Item, error]
}

// Rev is the revision of one value of one key. Two different values of a key have different revisions.
// Writing the same bytes again may keep the revision (a hash of the value) or change it (a counter). As
// a condition, a Rev requires that the key still has that value.
type Rev string

// Conditions other than a revision. The zero value is [RevNone], so a change without a condition must
// set [RevAny].
const (
	RevNone Rev = ""  // the key does not exist: create only
	RevAny  Rev = "*" // no condition
	RevSome Rev = "+" // the key exists, with any value
)

// Item is a key and its value.
type Item struct {
	Key string
	Val []byte
	Rev Rev
}

// Batcher is implemented by a KV that can read and change many keys in one round trip, and can let
// groups expire; see [Group]. [Open] accepts [Options].TTL for every Batcher, so a KV that cannot let
// groups expire must not be a Batcher.
type Batcher interface {
	// GetAll returns the keys' values in order, and nil for a missing key. The values need not be from
	// the same moment.
	GetAll(ctx context.Context, keys []string) ([][]byte, error)
	// Batch makes changes in order and returns the new revisions, or "" for a change that does not set a
	// value. No key occurs twice. A run is a sequence of consecutive changes of one group. The changes
	// of a run are atomic and become visible together. At the first condition that does not hold, Batch
	// returns [segno.KindConflict]. The changes of that run and of all later runs are then not made.
	// Each earlier run was either made or not, because a KV may make several runs together.
	//
	// Example: the changes t{a}1, t{a}2, t{b}1 form two runs, the first two changes and the third. If
	// the condition of t{a}2 does not hold, none of the three is made. If that of t{b}1 does not hold,
	// t{a}1 and t{a}2 are either both made (as in a cluster, where the groups are on two machines) or
	// both not made (as on one server, where all three are one transaction).
	//
	// A Batch has no fixed limit. A commit sends up to 1 MiB of objects, its entries in values of up to
	// 512 KiB, and about ten small values. With a TTL, the first commit of a fork also copies the line
	// on which the fork begins. A KV that limits the size of a transaction may make each run a
	// transaction. If a run is too large, Batch makes none of it and returns [segno.KindInvalid]. A KV
	// with a low limit should not be a Batcher: the store then makes the changes one by one and needs no
	// transaction.
	Batch(ctx context.Context, ops []Op) ([]Rev, error)
}

// Op is one change of a [Batcher].
type Op struct {
	Key string
	// Val is the new value. If it is nil, the value stays, and only the condition and the TTL have an
	// effect.
	Val    []byte
	Delete bool // removes the key
	// If is the condition. Its zero value is [RevNone]: Op{Key: k, Val: v} only creates k.
	If Rev
	// Alone is an additional condition: the key's group has no other key.
	Alone bool
	// TTL is the minimum time that the key's group lives from now. A group that already lives longer
	// keeps its time, and a group that never got a TTL does not expire.
	TTL time.Duration
}

// Group returns the group of a key: its part up to the first '}'. The keys of a group expire together,
// and a KV with many machines keeps them on one machine.
func Group(key string) string {
	if i := strings.IndexByte(key, '}'); i >= 0 {
		return key[:i+1]
	}
	return key
}
