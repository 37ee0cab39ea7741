// Package kvtest tests implementations of [kv.KV] against their contract. Every rule of the contract is
// one subtest, and a failed subtest logs its rule. The test of a KV needs only a few lines:
//
//	kvtest.Test(t, func(t *testing.T) kv.KV { return open(t) }, kvtest.Options{})
//
// If the KV is also a [kv.Batcher], that interface is tested, too. A store on a KV that passes should
// pass the tests of store/storetest.
package kvtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv"
)

// Options give the tests additional access to a KV. All are optional.
type Options struct {
	// Another opens the same KV again, as another process would.
	Another func(t *testing.T, of kv.KV) kv.KV
	// Pass lets time pass for the KV until keys that had less than d to live have expired. Without
	// Pass, expiry is not tested.
	Pass func(t *testing.T, of kv.KV, d time.Duration)
}

// Test runs all subtests for one implementation of KV. open returns a new, empty KV.
func Test(t *testing.T, open func(t *testing.T) kv.KV, o Options) {
	for _, c := range slices.Concat(keys(), lists(), races(o), batches(o)) {
		t.Run(c.name, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the rule: %s", c.rule)
				}
			})
			c.run(&fixture{T: t, kv: open(t)})
		})
	}
}

// test is one rule of the contract.
type test struct {
	name string
	rule string // logged if the test fails
	run  func(f *fixture)
}

// fixture is the KV under test, with helper methods. A method fails the test if a call returns an
// error.
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

// kind fails the test unless err has the kind want.
func (f *fixture) kind(err error, want segno.Kind) {
	f.Helper()
	if err == nil {
		f.Fatalf("no error; want kind %q", want)
	}
	if got := segno.KindOf(err); got != want {
		f.Fatalf("error %q has kind %q; want %q", err, got, want)
	}
}

func (f *fixture) put(key, val string, ifRev kv.Rev) kv.Rev {
	f.Helper()
	rev, err := f.kv.Put(f.Context(), key, []byte(val), ifRev)
	f.ok(err)
	return rev
}

// holds fails the test unless the key has this value, and returns its revision.
func (f *fixture) holds(key, want string) kv.Rev {
	f.Helper()
	val, rev, err := f.kv.Get(f.Context(), key)
	f.ok(err)
	if string(val) != want {
		f.Fatalf("the value of %s is %.80q; want %.80q", key, val, want)
	}
	return rev
}

// missing fails the test if one of the keys exists.
func (f *fixture) missing(keys ...string) {
	f.Helper()
	for _, key := range keys {
		_, _, err := f.kv.Get(f.Context(), key)
		f.kind(err, segno.KindNotFound)
	}
}

// listed fails the test unless the list has exactly these keys, each with its own name as the value.
func (f *fixture) listed(prefix, after string, limit int, want ...string) {
	f.Helper()
	var got []string
	for item, err := range f.kv.List(f.Context(), prefix, after, limit) {
		f.ok(err)
		if string(item.Val) != item.Key {
			f.Fatalf("the list has the value %q for %s", item.Val, item.Key)
		}
		if rev := f.holds(item.Key, item.Key); rev != item.Rev {
			f.Fatalf("the list has revision %s for %s; want %s", item.Rev, item.Key, rev)
		}
		got = append(got, item.Key)
	}
	if !slices.Equal(got, want) {
		f.Fatalf("the list of %q after %q with limit %d is\n%s\nwant\n%s", prefix, after, limit,
			strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
