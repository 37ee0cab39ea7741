package kvtest

import (
	"fmt"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv"
)

// able is a fixture whose KV has both abilities.
type able struct {
	*fixture
	kv.Batcher
	kv.Getter
}

func batches(o Options) []clause {
	all := []struct {
		name, rule string
		test       func(f able)
	}{
		{"many keys at once", "GetAll answers in the order it was asked, nil for what is not there", manyKeys},
		{"all or none", "the changes of one group are made together or not at all", allOrNone},
		{"conditions", "each condition of a batch counts: none, any, some, a revision, alone", conditions},
		{"revisions", "a batch returns the revisions that a reader sees", revisions},
		{"one of K batches", "of K batches with one condition one is made, whole", batchRace},
	}
	if o.Pass != nil {
		all = append(all, struct {
			name, rule string
			test       func(f able)
		}{"groups expire", "a group lives as long as the longest time it was given, and goes whole; one without a time stays", func(f able) { expire(f, o) }})
	}
	var out []clause
	for _, c := range all {
		out = append(out, clause{c.name, c.rule, func(f *fixture) {
			b, can := f.kv.(kv.Batcher)
			g, reads := f.kv.(kv.Getter)
			if can && reads {
				c.test(able{f, b, g})
			}
		}})
	}
	return out
}

func (f able) batch(ops ...kv.Op) []kv.Rev {
	f.Helper()
	revs, err := f.Batch(f.Context(), ops)
	f.ok(err)
	return revs
}

// refused wants a batch to stop at a condition.
func (f able) refused(ops ...kv.Op) {
	f.Helper()
	_, err := f.Batch(f.Context(), ops)
	f.kind(err, segno.KindConflict)
}

func manyKeys(f able) {
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
		f.Fatalf("%d values instead of %d", len(vals), len(asked))
	}
	for i, val := range vals {
		there := i < 300 && i%3 > 0 || i == 300
		if there && string(val) != asked[i] || !there && val != nil {
			f.Fatalf("the answer to %s is %q", asked[i], val)
		}
	}
	none, err := f.GetAll(f.Context(), nil)
	f.ok(err)
	if len(none) > 0 {
		f.Fatalf("the answer to nothing is %q", none)
	}
}

func allOrNone(f able) {
	f.put("t{a}there", "x", kv.RevNone)
	f.refused(kv.Op{Key: "t{a}1", Val: []byte("1")}, kv.Op{Do: kv.ActDelete, Key: "t{a}other", If: kv.RevAny},
		kv.Op{Key: "t{a}there", Val: []byte("y"), If: kv.RevNone}, kv.Op{Key: "t{a}2", Val: []byte("2")})
	f.gone("t{a}1", "t{a}2")
	f.holds("t{a}there", "x")
	f.batch(kv.Op{Key: "t{a}1", Val: []byte("1")}, kv.Op{Do: kv.ActDelete, Key: "t{a}there", If: kv.RevSome}, kv.Op{Key: "t{b}2", Val: []byte("2")})
	f.holds("t{a}1", "1")
	f.holds("t{b}2", "2")
	f.gone("t{a}there")
	// what comes behind the condition that does not hold is not done
	f.refused(kv.Op{Key: "t{c}1", Val: []byte("1"), If: kv.RevSome}, kv.Op{Key: "t{d}2", Val: []byte("2")})
	f.gone("t{c}1", "t{d}2")
}

func conditions(f able) {
	one := f.put("t{a}k", "one", kv.RevNone)
	check := func(key string, ifRev kv.Rev) kv.Op { return kv.Op{Do: kv.ActCheck, Key: key, If: ifRev} }
	f.batch(check("t{a}k", kv.RevSome), check("t{a}none", kv.RevNone), check("t{b}k", kv.RevAny))
	f.batch(check("t{a}k", one))
	f.refused(check("t{a}k", kv.RevNone))
	f.refused(check("t{a}none", kv.RevSome))
	f.put("t{a}k", "two", one)
	f.refused(check("t{a}k", one))
	f.refused(check("t{a}none", one))
	f.gone("t{a}none", "t{b}k")
	alone := kv.Op{Key: "t{c}k", Val: []byte("x"), If: kv.RevAny, Alone: true}
	f.batch(alone)
	f.batch(alone)
	f.put("t{c}other", "x", kv.RevNone)
	f.refused(alone)
	f.refused(kv.Op{Key: "t{c}third", Val: []byte("x"), If: kv.RevNone, Alone: true})
	f.gone("t{c}third")
}

func revisions(f able) {
	revs := f.batch(kv.Op{Key: "t{a}1", Val: []byte("1")}, kv.Op{Do: kv.ActCheck, Key: "t{a}2"}, kv.Op{Key: "t{b}3", Val: []byte("3")})
	if got := f.holds("t{a}1", "1"); got != revs[0] {
		f.Fatalf("the revision is %s; Batch said %s", got, revs[0])
	}
	if got := f.holds("t{b}3", "3"); got != revs[2] || revs[1] != "" {
		f.Fatalf("the revision is %s; Batch said %s", got, revs)
	}
	f.put("t{a}1", "2", revs[0])
}

func batchRace(f able) {
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
					f.Errorf("a writer that was too late got %v", err)
				}
			})
		}
		group.Wait()
		if len(won) != 1 {
			f.Fatalf("the winners are %v", won)
		}
		for k := range writers {
			if key := fmt.Sprintf("t{race}%d writer %d", round, k); k == won[0] {
				f.holds(key, fmt.Sprint(k))
			} else {
				f.gone(key)
			}
		}
		f.holds(fmt.Sprintf("t{race}%d", round), fmt.Sprint(won[0]))
	}
}

func expire(f able, o Options) {
	const unit = 2 * time.Second
	put := func(key string, ttl time.Duration) kv.Op {
		return kv.Op{Key: key, Val: []byte("x"), If: kv.RevAny, TTL: ttl}
	}
	f.batch(put("t{short}1", unit), put("t{short}2", unit), put("t{long}1", 10*unit), put("t{long}2", unit), put("t{ever}1", 0))
	f.batch(put("t{ever}2", unit), kv.Op{Do: kv.ActCheck, Key: "t{none}1", If: kv.RevAny, TTL: unit})
	f.batch(put("t{renewed}1", unit), put("t{renewed}2", unit))
	f.batch(kv.Op{Do: kv.ActCheck, Key: "t{renewed}1", If: kv.RevAny, TTL: 10 * unit})
	f.put("t{plain}1", "x", kv.RevNone)
	o.Pass(f.T, f.kv, unit)
	f.gone("t{short}1", "t{short}2", "t{none}1")
	for _, key := range []string{"t{long}1", "t{long}2", "t{ever}1", "t{ever}2", "t{renewed}1", "t{renewed}2", "t{plain}1"} {
		f.holds(key, "x")
	}
	f.put("t{short}1", "again", kv.RevNone)
	o.Pass(f.T, f.kv, 10*unit)
	f.holds("t{short}1", "again")
	f.gone("t{long}1", "t{renewed}2")
}
