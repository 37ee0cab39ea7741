// Package buckettest tests implementations of [postgres.Bucket] against their contract. Every rule of the
// contract is one subtest, and a failed subtest logs its rule. The test of a bucket needs one line:
//
//	buckettest.Test(t, func(t *testing.T) postgres.Bucket { return open(t) }, buckettest.Options{})
package buckettest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"testing"

	"github.com/dalsegno/segno/store/postgres"
)

// Options give the tests additional access to a bucket. All are optional.
type Options struct {
	// Another opens the same bucket again, as another process would.
	Another func(t *testing.T, of postgres.Bucket) postgres.Bucket
	// Page is how many names the bucket lists with one request; 0 means that the tests need not list more
	// than one page.
	Page int
}

// Test runs all subtests for one implementation of Bucket. open returns a new, empty bucket.
func Test(t *testing.T, open func(t *testing.T) postgres.Bucket, o Options) {
	for _, c := range rules {
		t.Run(c.name, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the rule: %s", c.rule)
				}
			})
			c.run(&fixture{T: t, bucket: open(t), options: o})
		})
	}
}

// rules has the subtests. Each is one rule of the contract.
var rules = []struct {
	name string
	rule string // logged if the test fails
	run  func(f *fixture)
}{
	{"values", "Get returns the bytes that Put wrote, of any length and content, also in another process.", values},
	{"missing", "Get of an object that does not exist returns an error that wraps fs.ErrNotExist.", missing},
	{"no overwriting", "Put of a name that exists returns an error that wraps fs.ErrExist, and the object stays as it is.", noOverwriting},
	{"deletion", "Delete removes an object, and returns nil if the object does not exist.", deletion},
	{"prefixes", "List yields exactly the names that begin with the prefix, whether or not the prefix ends at a slash.", prefixes},
	{"pages", "List yields each name once, however many there are, and stops when its caller does.", pages},
	{"deletion in a list", "A caller may delete the objects that List has yielded while it lists.", deletionInAList},
	{"one winner", "Of concurrent Puts of one name exactly one succeeds, and the object has its bytes.", oneWinner},
	{"concurrent calls", "All methods may be called concurrently.", concurrentCalls},
	{"bytes", "A bucket keeps no reference to the bytes that it is given, and none to those that it returns.", ownBytes},
	{"cancelled", "A call whose context has ended returns an error that wraps the context's.", cancelled},
}

// fixture is the bucket under test, with methods that fail the test if a call returns an error.
type fixture struct {
	*testing.T
	bucket  postgres.Bucket
	options Options
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) put(name, data string) {
	f.Helper()
	f.ok(f.bucket.Put(f.Context(), name, []byte(data)))
}

func (f *fixture) wants(b postgres.Bucket, name, want string) {
	f.Helper()
	data, err := b.Get(f.Context(), name)
	f.ok(err)
	if string(data) != want {
		f.Errorf("%s has %d bytes, %.40q; want %d bytes, %.40q", name, len(data), data, len(want), want)
	}
}

func (f *fixture) list(prefix string) (names []string) {
	f.Helper()
	for name, err := range f.bucket.List(f.Context(), prefix) {
		f.ok(err)
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// noise returns n bytes of all values, which differ from those of another seed.
func noise(n int, seed string) string {
	var b bytes.Buffer
	for h := sha256.Sum256([]byte(seed)); b.Len() < n; h = sha256.Sum256(h[:]) {
		b.Write(h[:])
	}
	return b.String()[:n]
}

func values(f *fixture) {
	again := f.bucket
	if f.options.Another != nil {
		again = f.options.Another(f.T, f.bucket)
	}
	for _, n := range []int{0, 1, 4095, 256<<10 + 1, 6 << 20} {
		name := fmt.Sprintf("segno/values/%d", n)
		f.put(name, noise(n, name))
		f.wants(f.bucket, name, noise(n, name))
		f.wants(again, name, noise(n, name))
	}
}

func missing(f *fixture) {
	f.put("segno/here/1", "1")
	for _, name := range []string{"segno/here", "segno/here/2", "else"} {
		if data, err := f.bucket.Get(f.Context(), name); !errors.Is(err, fs.ErrNotExist) {
			f.Errorf("Get of %s returned %q, %v", name, data, err)
		}
	}
}

func noOverwriting(f *fixture) {
	f.put("segno/1", "first")
	for _, data := range []string{"second", "first"} {
		if err := f.bucket.Put(f.Context(), "segno/1", []byte(data)); !errors.Is(err, fs.ErrExist) {
			f.Errorf("Put of a name that exists returned %v", err)
		}
	}
	f.wants(f.bucket, "segno/1", "first")
	f.ok(f.bucket.Delete(f.Context(), "segno/1"))
	f.put("segno/1", "after its deletion")
	f.wants(f.bucket, "segno/1", "after its deletion")
}

func deletion(f *fixture) {
	f.put("segno/a/1", "1")
	f.put("segno/a/2", "2")
	for range 2 { // the second time there is nothing to delete
		f.ok(f.bucket.Delete(f.Context(), "segno/a/1"))
	}
	f.ok(f.bucket.Delete(f.Context(), "segno/nothing/here"))
	if _, err := f.bucket.Get(f.Context(), "segno/a/1"); !errors.Is(err, fs.ErrNotExist) {
		f.Errorf("Get of a deleted object returned %v", err)
	}
	f.wants(f.bucket, "segno/a/2", "2")
}

func prefixes(f *fixture) {
	for _, name := range []string{"segno/a/1", "segno/a/2", "segno/ab/3", "segno/b/c/4", "other"} {
		f.put(name, name)
	}
	for prefix, want := range map[string][]string{
		"":            {"other", "segno/a/1", "segno/a/2", "segno/ab/3", "segno/b/c/4"},
		"segno/":      {"segno/a/1", "segno/a/2", "segno/ab/3", "segno/b/c/4"},
		"segno/a/":    {"segno/a/1", "segno/a/2"},
		"segno/a":     {"segno/a/1", "segno/a/2", "segno/ab/3"},
		"segno/b/c/":  {"segno/b/c/4"},
		"segno/b/c/4": {"segno/b/c/4"},
		"segno/c":     nil,
		"nothing/":    nil,
	} {
		if got := f.list(prefix); !slices.Equal(got, want) {
			f.Errorf("with the prefix %q List yields %q; want %q", prefix, got, want)
		}
	}
}

func pages(f *fixture) {
	var want []string
	for n := range 2*f.options.Page + 3 {
		want = append(want, fmt.Sprintf("segno/%02d/%d", n%7, n))
		f.put(want[n], "x")
	}
	slices.Sort(want)
	if got := f.list("segno/"); !slices.Equal(got, want) {
		f.Errorf("List yields %d names; want %d: %q", len(got), len(want), got)
	}
	for name, err := range f.bucket.List(f.Context(), "segno/") {
		f.ok(err)
		if !slices.Contains(want, name) {
			f.Errorf("List yields %q", name)
		}
		break
	}
}

func deletionInAList(f *fixture) {
	n := 2*f.options.Page + 3
	for i := range n {
		f.put(fmt.Sprintf("segno/%d", i), "x")
	}
	var seen []string
	for name, err := range f.bucket.List(f.Context(), "segno/") {
		f.ok(err)
		seen = append(seen, name)
		f.ok(f.bucket.Delete(f.Context(), name))
	}
	if slices.Sort(seen); len(slices.Compact(seen)) != n {
		f.Errorf("List yields %d names while they are deleted; want %d", len(seen), n)
	}
	if left := f.list("segno/"); len(left) > 0 {
		f.Errorf("after the deletion of all, List yields %q", left)
	}
}

func oneWinner(f *fixture) {
	const writers = 8
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for n := range writers {
		wg.Go(func() { errs[n] = f.bucket.Put(f.Context(), "segno/1", []byte(noise(10_000, fmt.Sprint(n)))) })
	}
	wg.Wait()
	winner := -1
	for n, err := range errs {
		switch {
		case err == nil && winner >= 0:
			f.Errorf("the Puts %d and %d of one name both succeed", winner, n)
		case err == nil:
			winner = n
		case !errors.Is(err, fs.ErrExist):
			f.Errorf("a Put of a name that exists returned %v", err)
		}
	}
	if winner < 0 {
		f.Fatal("no Put succeeds")
	}
	f.wants(f.bucket, "segno/1", noise(10_000, fmt.Sprint(winner)))
}

func concurrentCalls(f *fixture) {
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			name := fmt.Sprintf("segno/%d/%d", n%2, n)
			for range 3 {
				if err := f.bucket.Put(f.Context(), name, []byte(name)); err != nil {
					f.Error(err)
				}
				if data, err := f.bucket.Get(f.Context(), name); err != nil || string(data) != name {
					f.Errorf("Get of %s returned %q, %v", name, data, err)
				}
				found := false
				for other, err := range f.bucket.List(f.Context(), "segno/") {
					if err != nil {
						f.Error(err)
					}
					found = found || other == name
				}
				if !found {
					f.Errorf("List yields no %s", name)
				}
				if err := f.bucket.Delete(f.Context(), name); err != nil {
					f.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func ownBytes(f *fixture) {
	data := []byte("written")
	f.ok(f.bucket.Put(f.Context(), "segno/1", data))
	copy(data, "changed")
	got, err := f.bucket.Get(f.Context(), "segno/1")
	f.ok(err)
	copy(got, "changed")
	f.wants(f.bucket, "segno/1", "written")
}

func cancelled(f *fixture) {
	f.put("segno/1", "1")
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	_, get := f.bucket.Get(ctx, "segno/1")
	var list error
	for _, err := range f.bucket.List(ctx, "segno/") {
		list = err
	}
	for name, err := range map[string]error{"Get": get, "Put": f.bucket.Put(ctx, "segno/2", nil), "List": list} {
		if !errors.Is(err, context.Canceled) {
			f.Errorf("%s returned %v", name, err)
		}
	}
	f.wants(f.bucket, "segno/1", "1")
}
