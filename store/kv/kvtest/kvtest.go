// Package kvtest says in clauses what a [kv.KV] owes. Each clause is a subtest; one
// that fails says which rule the KV broke. A KV's own test is a few lines:
//
//	kvtest.Test(t, func(t *testing.T) kv.KV { return open(t) }, kvtest.Options{})
//
// The abilities [kv.Getter] and [kv.Batcher] are asked of a KV that has them. A KV
// that passes carries a store; store/storetest holds the two together to the rest.
package kvtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv"
)

// Options are what only the KV's own test can do.
type Options struct {
	// Another opens the same KV once more, as another process does.
	Another func(t *testing.T, of kv.KV) kv.KV
	// Pass lets time pass for the KV, until what has less than d to live is gone.
	// Without it no clause asks whether groups expire.
	Pass func(t *testing.T, of kv.KV, d time.Duration)
}

// Test holds a kind of KV to the clauses. open returns a new empty KV.
func Test(t *testing.T, open func(t *testing.T) kv.KV, o Options) {
	for _, c := range slices.Concat(keys(), lists(), races(o), batches(o)) {
		t.Run(c.name, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the rule: %s", c.rule)
				}
			})
			c.test(&fixture{T: t, kv: open(t)})
		})
	}
}

// clause is one rule.
type clause struct {
	name string
	rule string // what a KV that fails it breaks
	test func(f *fixture)
}

// fixture is a KV under test and the words to talk about it.
type fixture struct {
	*testing.T
	kv kv.KV
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// kind wants err to be of a kind.
func (f *fixture) kind(err error, want segno.Kind) {
	f.Helper()
	if err == nil {
		f.Fatalf("no error; want one of kind %q", want)
	}
	if got := segno.KindOf(err); got != want {
		f.Fatalf("the error %q has kind %q; want %q", err, got, want)
	}
}

func (f *fixture) put(key, val string, ifRev kv.Rev) kv.Rev {
	f.Helper()
	rev, err := f.kv.Put(f.Context(), key, []byte(val), ifRev)
	f.ok(err)
	return rev
}

// holds wants a key to have a value, and returns its revision.
func (f *fixture) holds(key, want string) kv.Rev {
	f.Helper()
	val, rev, err := f.kv.Get(f.Context(), key)
	f.ok(err)
	if string(val) != want {
		f.Fatalf("%s is %.80q instead of %.80q", key, val, want)
	}
	return rev
}

// gone wants keys not to be there.
func (f *fixture) gone(keys ...string) {
	f.Helper()
	for _, key := range keys {
		_, _, err := f.kv.Get(f.Context(), key)
		f.kind(err, segno.KindNotFound)
	}
}

// listed wants a list to have these keys, with values that are the keys.
func (f *fixture) listed(prefix, after string, limit int, want ...string) {
	f.Helper()
	var got []string
	for item, err := range f.kv.List(f.Context(), prefix, after, limit) {
		f.ok(err)
		if string(item.Val) != item.Key {
			f.Fatalf("the list says %q of %s", item.Val, item.Key)
		}
		if rev := f.holds(item.Key, item.Key); rev != item.Rev {
			f.Fatalf("the list says revision %s of %s; it has %s", item.Rev, item.Key, rev)
		}
		got = append(got, item.Key)
	}
	if !slices.Equal(got, want) {
		f.Fatalf("the list of %q after %q, at most %d, is\n%s\ninstead of\n%s", prefix, after, limit, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
