package kvtest

import (
	"fmt"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv"
)

// batchFixture is a fixture whose KV is also a [kv.Batcher].
type batchFixture struct {
	*fixture
	kv.Batcher
}

func batches(o Options) (all []test) {
	add := func(name, rule string, run func(f batchFixture)) {
		all = append(all, test{name, rule, func(f *fixture) {
			if b, ok := f.kv.(kv.Batcher); ok {
				run(batchFixture{f, b})
			}
		}})
	}
	add("many keys at once", "GetAll returns values in the order of the keys, and nil for a missing key", manyKeys)
	add("all or none", "consecutive changes of one group are made together or not at all, and none after a condition that does not hold", allOrNone)
	add("conditions", "a batch is refused if one condition does not hold: none, any, some, a revision, alone", conditions)
	add("revisions", "a batch returns the revisions that Get returns", revisions)
	add("one of K batches", "of K concurrent batches with one condition one is made, completely", batchRace)
	if o.Pass != nil {
		add("groups expire", "all keys of a group expire together, after its longest TTL; a group without a TTL stays", func(f batchFixture) {
			expire(f, o)
		})
	}
	return all
}

func (f batchFixture) batch(ops ...kv.Op) []kv.Rev {
	f.Helper()
	revs, err := f.Batch(f.Context(), ops)
	f.ok(err)
	return revs
}

// refused fails the test unless a batch returns a conflict.
func (f batchFixture) refused(ops ...kv.Op) {
	f.Helper()
	_, err := f.Batch(f.Context(), ops)
	f.kind(err, segno.KindConflict)
}

func manyKeys(f batchFixture) {
	var asked []string
	for i := range 300 {
		key := fmt.Sprintf("t{%d}%03d", i%7, i)
		if i%3 > 0 {
			f.put(key, key, kv.RevNone)
		}
		asked = append(asked, key)
	}
	asked = append(asked, asked[1], asked[0])
	vals, err := f.GetAll(f.Context(), asked)
	f.ok(err)
	if len(vals) != len(asked) {
		f.Fatalf("%d values; want %d", len(vals), len(asked))
	}
	for i, val := range vals {
		there := i < 300 && i%3 > 0 || i == 300
		if there && string(val) != asked[i] || !there && val != nil {
			f.Fatalf("the value of %s is %q", asked[i], val)
		}
	}
	none, err := f.GetAll(f.Context(), nil)
	f.ok(err)
	if len(none) > 0 {
		f.Fatalf("the values of no keys are %q", none)
	}
}

func allOrNone(f batchFixture) {
	f.put("t{a}there", "x", kv.RevNone)
	f.refused(kv.Op{Key: "t{a}1", Val: []byte("1")}, kv.Op{Delete: true, Key: "t{a}other", If: kv.RevAny},
		kv.Op{Key: "t{a}there", Val: []byte("y"), If: kv.RevNone}, kv.Op{Key: "t{a}2", Val: []byte("2")})
	f.missing("t{a}1", "t{a}2")
	f.holds("t{a}there", "x")
	f.batch(kv.Op{Key: "t{a}1", Val: []byte("1")}, kv.Op{Delete: true, Key: "t{a}there", If: kv.RevSome},
		kv.Op{Key: "t{b}2", Val: []byte("2")})
	f.holds("t{a}1", "1")
	f.holds("t{b}2", "2")
	f.missing("t{a}there")
	// a failed condition prevents all operations after it
	f.refused(kv.Op{Key: "t{c}1", Val: []byte("1"), If: kv.RevSome}, kv.Op{Key: "t{d}2", Val: []byte("2")})
	f.missing("t{c}1", "t{d}2")
}

func conditions(f batchFixture) {
	one := f.put("t{a}k", "one", kv.RevNone)
	check := func(key string, ifRev kv.Rev) kv.Op { return kv.Op{Key: key, If: ifRev} }
	f.batch(check("t{a}k", kv.RevSome), check("t{a}none", kv.RevNone), check("t{b}k", kv.RevAny))
	f.batch(check("t{a}k", one))
	f.refused(check("t{a}k", kv.RevNone))
	f.refused(check("t{a}none", kv.RevSome))
	f.put("t{a}k", "two", one)
	f.refused(check("t{a}k", one))
	f.refused(check("t{a}none", one))
	f.missing("t{a}none", "t{b}k")
	alone := kv.Op{Key: "t{c}k", Val: []byte("x"), If: kv.RevAny, Alone: true}
	f.batch(alone)
	f.batch(alone)
	f.put("t{c}other", "x", kv.RevNone)
	f.refused(alone)
	f.refused(kv.Op{Key: "t{c}third", Val: []byte("x"), If: kv.RevNone, Alone: true})
	f.missing("t{c}third")
}

func revisions(f batchFixture) {
	revs := f.batch(kv.Op{Key: "t{a}1", Val: []byte("1")}, kv.Op{Key: "t{a}2"}, kv.Op{Key: "t{b}3", Val: []byte("3")})
	if got := f.holds("t{a}1", "1"); got != revs[0] {
		f.Fatalf("the revision is %s; Batch returned %s", got, revs[0])
	}
	if got := f.holds("t{b}3", "3"); got != revs[2] || revs[1] != "" {
		f.Fatalf("the revision is %s; Batch returned %s", got, revs)
	}
	f.put("t{a}1", "2", revs[0])
}

func batchRace(f batchFixture) {
	const writers, rounds = 8, 10
	for round := range rounds {
		var mu sync.Mutex
		var won []int
		var group sync.WaitGroup
		for k := range writers {
			group.Go(func() {
				_, err := f.Batch(f.Context(), []kv.Op{{Key: fmt.Sprintf("t{race}%d", round), Val: fmt.Append(nil, k)},
					{Key: fmt.Sprintf("t{race}%d writer %d", round, k), Val: fmt.Append(nil, k)}})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, k)
				} else if segno.KindOf(err) != segno.KindConflict {
					f.Errorf("a writer that lost got %v", err)
				}
			})
		}
		group.Wait()
		if len(won) != 1 {
			f.Fatalf("the batches of the writers %v succeeded; want one", won)
		}
		for k := range writers {
			if key := fmt.Sprintf("t{race}%d writer %d", round, k); k == won[0] {
				f.holds(key, fmt.Sprint(k))
			} else {
				f.missing(key)
			}
		}
		f.holds(fmt.Sprintf("t{race}%d", round), fmt.Sprint(won[0]))
	}
}

func expire(f batchFixture, o Options) {
	const unit = 2 * time.Second
	put := func(key string, ttl time.Duration) kv.Op {
		return kv.Op{Key: key, Val: []byte("x"), If: kv.RevAny, TTL: ttl}
	}
	f.batch(put("t{short}1", unit), put("t{short}2", unit), put("t{long}1", 10*unit), put("t{long}2", unit), put("t{ever}1", 0))
	f.batch(put("t{ever}2", unit), kv.Op{Key: "t{none}1", If: kv.RevAny, TTL: unit})
	f.batch(put("t{renewed}1", unit), put("t{renewed}2", unit))
	f.batch(kv.Op{Key: "t{renewed}1", If: kv.RevAny, TTL: 10 * unit})
	f.put("t{plain}1", "x", kv.RevNone)
	o.Pass(f.T, f.kv, unit)
	f.missing("t{short}1", "t{short}2", "t{none}1")
	for _, key := range []string{"t{long}1", "t{long}2", "t{ever}1", "t{ever}2", "t{renewed}1", "t{renewed}2", "t{plain}1"} {
		f.holds(key, "x")
	}
	f.put("t{short}1", "again", kv.RevNone)
	o.Pass(f.T, f.kv, 10*unit)
	f.holds("t{short}1", "again")
	f.missing("t{long}1", "t{renewed}2")
}
