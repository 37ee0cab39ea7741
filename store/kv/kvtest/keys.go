package kvtest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv"
)

func keys() []test {
	return []test{
		{"a missing key", "reading a missing key is KindNotFound", func(f *fixture) {
			f.missing("a", "t{a}", "t{a}b")
			f.put("t{a}b", "x", kv.RevNone)
			f.missing("t{a}", "t{a}bc", "t{a}B", "t{A}b")
		}},
		{"create only", "a Put with RevNone creates a key and never overwrites one", func(f *fixture) {
			rev := f.put("t{a}k", "one", kv.RevNone)
			_, err := f.kv.Put(f.Context(), "t{a}k", []byte("two"), kv.RevNone)
			f.kind(err, segno.KindConflict)
			if got := f.holds("t{a}k", "one"); got != rev {
				f.Fatalf("the revision is %s; Put returned %s", got, rev)
			}
		}},
		{"compare and put", "a Put with a revision overwrites only that revision", func(f *fixture) {
			one := f.put("t{a}k", "one", kv.RevNone)
			two := f.put("t{a}k", "two", one)
			if one == two {
				f.Fatal("two values have the same revision")
			}
			_, err := f.kv.Put(f.Context(), "t{a}k", []byte("three"), one)
			f.kind(err, segno.KindConflict)
			_, err = f.kv.Put(f.Context(), "t{a}other", []byte("x"), two)
			f.kind(err, segno.KindConflict)
			f.holds("t{a}k", "two")
			f.missing("t{a}other")
		}},
		{"put any", "a Put with RevAny creates or overwrites a key", func(f *fixture) {
			f.put("k", "one", kv.RevAny)
			f.put("k", "two", kv.RevAny)
			f.holds("k", "two")
		}},
		{"delete", "a Delete removes a key if its condition holds", func(f *fixture) {
			one := f.put("t{a}k", "one", kv.RevNone)
			two := f.put("t{a}k", "two", one)
			f.kind(f.kv.Delete(f.Context(), "t{a}k", one), segno.KindConflict)
			f.holds("t{a}k", "two")
			f.ok(f.kv.Delete(f.Context(), "t{a}k", two))
			f.missing("t{a}k")
			f.kind(f.kv.Delete(f.Context(), "t{a}k", two), segno.KindConflict)
			f.ok(f.kv.Delete(f.Context(), "t{a}k", kv.RevAny))
			f.put("t{a}k", "again", kv.RevNone)
		}},
		{"change only what exists", "a Put or a Delete with RevSome changes a key that exists, and is a conflict without one", func(f *fixture) {
			_, err := f.kv.Put(f.Context(), "t{a}k", []byte("x"), kv.RevSome)
			f.kind(err, segno.KindConflict)
			f.kind(f.kv.Delete(f.Context(), "t{a}k", kv.RevSome), segno.KindConflict)
			f.missing("t{a}k")
			f.put("t{a}k", "one", kv.RevNone)
			f.put("t{a}k", "two", kv.RevSome)
			f.holds("t{a}k", "two")
			f.ok(f.kv.Delete(f.Context(), "t{a}k", kv.RevSome))
			f.missing("t{a}k")
		}},
		{"values", "a value can be any bytes, up to 600,000", values},
		{"keys are bytes", "a key is printable ASCII of up to 1,000 bytes; two keys that differ in one byte are different", hostileKeys},
		{"copies", "changing bytes that were passed in or returned does not change a value", copies},
		{"an ended context", "a call with an ended context changes nothing and is KindCancelled", endedContext},
	}
}

func values(f *fixture) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for i, val := range []string{"", "\x00", "\r\n$5\r\n", string(every), strings.Repeat("x\x00\xff", 200_000)} {
		key := fmt.Sprintf("v{%d}k", i)
		f.put(key, val, kv.RevNone)
		f.holds(key, val)
		if g, ok := f.kv.(kv.Batcher); ok {
			vals, err := g.GetAll(f.Context(), []string{key})
			f.ok(err)
			if vals[0] == nil || string(vals[0]) != val {
				f.Fatalf("GetAll returned %.80q; want %.80q", vals[0], val)
			}
		}
	}
}

func hostileKeys(f *fixture) {
	all := []string{"k", "K", "k ", " k", "k*", "k?", "[k]", `k\`, "k%00", "k%", "k:", "k/", "k//", "k{}", "k{", "k}", "{k}", "k{a}b",
		"k{a}}b", "k{}a", "k'", `k"`, "k~", "k|", "k$1", "k#",
		strings.Repeat("k", 999), strings.Repeat("k", 1000), "k{" + strings.Repeat("a", 990) + "}b", "k{a}" + strings.Repeat("b", 990)}
	for _, key := range all {
		f.put(key, key, kv.RevNone)
	}
	for _, key := range all {
		f.holds(key, key)
	}
}

func copies(f *fixture) {
	val := []byte("value")
	_, err := f.kv.Put(f.Context(), "k", val, kv.RevNone)
	f.ok(err)
	clear(val)
	for range 2 {
		got, _, err := f.kv.Get(f.Context(), "k")
		f.ok(err)
		if string(got) != "value" {
			f.Fatalf("the value is %q", got)
		}
		clear(got)
		for item, err := range f.kv.List(f.Context(), "k", "", 0) {
			f.ok(err)
			if string(item.Val) != "value" {
				f.Fatalf("the listed value is %q", item.Val)
			}
			clear(item.Val)
		}
	}
}

func endedContext(f *fixture) {
	f.put("k", "k", kv.RevNone)
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	_, _, err := f.kv.Get(ctx, "k")
	f.kind(err, segno.KindCancelled)
	_, err = f.kv.Put(ctx, "k", []byte("x"), kv.RevAny)
	f.kind(err, segno.KindCancelled)
	f.kind(f.kv.Delete(ctx, "k", kv.RevAny), segno.KindCancelled)
	n := 0
	for _, err := range f.kv.List(ctx, "k", "", 0) {
		f.kind(err, segno.KindCancelled)
		n++
	}
	if n != 1 {
		f.Fatalf("the list returned %d results; want 1", n)
	}
	f.holds("k", "k")
}

func lists() []test {
	return []test{
		{"an empty list", "a list without matching keys is empty", func(f *fixture) {
			f.listed("", "", 0)
			f.put("t{a}k", "t{a}k", kv.RevNone)
			f.listed("t{b}", "", 0)
			f.listed("t{a}l", "", 0)
		}},
		{"the order of bytes", "a list is in the order of the keys' bytes, not in the order of the writes", func(f *fixture) {
			for _, key := range []string{"t{a}b", "t{a}B", "t{a}a/2", "t{a}~", "t{a}a/10", "t{a}a", "t{a}%", "t{a}a!",
				"t{a}00000000000000000010", "t{a}00000000000000000009"} {
				f.put(key, key, kv.RevNone)
			}
			f.listed("t{a}", "", 0, "t{a}%", "t{a}00000000000000000009", "t{a}00000000000000000010", "t{a}B", "t{a}a",
				"t{a}a!", "t{a}a/10", "t{a}a/2", "t{a}b", "t{a}~")
		}},
		{"prefix, after and limit", "a list begins behind after, has only keys with the prefix, and at most limit of them", prefixes},
		{"pages", "a list that continues behind its last key has each key once", pages},
		{"groups are separate", "a list of one group has no keys of a group whose name has the same prefix", func(f *fixture) {
			for _, key := range []string{"t{a}1", "t{ab}1", "t{a}2", "s{a}1", "t{}1"} {
				f.put(key, key, kv.RevNone)
			}
			f.listed("t{a}", "", 0, "t{a}1", "t{a}2")
			f.listed("t{}", "", 0, "t{}1")
			f.listed("t{", "", 0, "t{ab}1", "t{a}1", "t{a}2", "t{}1")
			f.listed("", "", 0, "s{a}1", "t{ab}1", "t{a}1", "t{a}2", "t{}1")
		}},
		{"an abandoned list", "a caller may stop a list early, and may write while it lists", func(f *fixture) {
			for i := range 20 {
				f.put(fmt.Sprintf("t{a}%02d", i), "x", kv.RevNone)
			}
			for range 3 {
				for item, err := range f.kv.List(f.Context(), "t{a}", "", 0) {
					f.ok(err)
					f.put(item.Key, "y", kv.RevAny)
					break
				}
			}
			f.holds("t{a}00", "y")
		}},
		{"a list whose keys are deleted", "a caller may delete each key that a list yields before it reads the next one", func(f *fixture) {
			const keys = 57
			for i := range keys {
				f.put(fmt.Sprintf("t{a}%02d", i), "x", kv.RevNone)
			}
			n := 0
			for item, err := range f.kv.List(f.Context(), "t{a}", "", 0) {
				f.ok(err)
				f.ok(f.kv.Delete(f.Context(), item.Key, kv.RevAny))
				n++
			}
			if n != keys {
				f.Fatalf("the list has %d keys; want %d", n, keys)
			}
			f.listed("t{a}", "", 0)
		}},
	}
}

func prefixes(f *fixture) {
	for _, key := range []string{"t{a}log/1", "t{a}log/2", "t{a}log/3", "t{a}lo", "t{a}logs", "t{a}m", "t{a}head"} {
		f.put(key, key, kv.RevNone)
	}
	f.listed("t{a}log/", "", 0, "t{a}log/1", "t{a}log/2", "t{a}log/3")
	f.listed("t{a}log/", "t{a}log/1", 0, "t{a}log/2", "t{a}log/3")
	f.listed("t{a}log/", "t{a}log/1", 1, "t{a}log/2")
	f.listed("t{a}log/", "t{a}log/15", 0, "t{a}log/2", "t{a}log/3")
	f.listed("t{a}log/", "t{a}log/3", 0)
	f.listed("t{a}log/", "t{a}a", 2, "t{a}log/1", "t{a}log/2")
	f.listed("t{a}log/", "z", 0)
	f.listed("t{a}", "", 3, "t{a}head", "t{a}lo", "t{a}log/1")
}

func pages(f *fixture) {
	var want []string
	for i := range 57 {
		key := fmt.Sprintf("t{a}%020d", i)
		want = append(want, key)
		f.put(key, key, kv.RevNone)
	}
	after, got := "", 0
	for {
		n := 0
		for item, err := range f.kv.List(f.Context(), "t{a}", after, 10) {
			f.ok(err)
			if item.Key != want[got] {
				f.Fatalf("the next key is %s; want %s", item.Key, want[got])
			}
			after = item.Key
			got++
			n++
		}
		if n < 10 {
			break
		}
	}
	if got != len(want) {
		f.Fatalf("%d keys; want %d", got, len(want))
	}
}

func races(o Options) []test {
	all := []test{
		{"one of K creates", "of K concurrent creations of one key one succeeds", func(f *fixture) { race(f, []kv.KV{f.kv}) }},
	}
	if o.Another != nil {
		all = append(all, test{"one of K creates in two openings", "two openings exclude each other like two goroutines", func(f *fixture) {
			race(f, []kv.KV{f.kv, o.Another(f.T, f.kv)})
		}})
	}
	return all
}

// race creates one key concurrently, and then replaces its value concurrently.
func race(f *fixture, in []kv.KV) {
	const writers, rounds = 8, 10
	for round := range rounds {
		key, before := fmt.Sprintf("t{race}%d", round/2), kv.RevNone
		if round%2 == 1 {
			_, rev, err := f.kv.Get(f.Context(), key)
			f.ok(err)
			before = rev
		}
		won := make([]bool, writers)
		var group sync.WaitGroup
		for k := range writers {
			group.Go(func() {
				_, err := in[k%len(in)].Put(f.Context(), key, fmt.Appendf(nil, "round %d writer %d", round, k), before)
				if won[k] = err == nil; !won[k] && segno.KindOf(err) != segno.KindConflict {
					f.Errorf("a writer that lost got %v", err)
				}
			})
		}
		group.Wait()
		winner := -1
		for k, ok := range won {
			if ok && winner >= 0 {
				f.Fatalf("writers %d and %d succeeded", winner, k)
			}
			if ok {
				winner = k
			}
		}
		if winner < 0 {
			f.Fatal("no writer succeeded")
		}
		f.holds(key, fmt.Sprintf("round %d writer %d", round, winner))
	}
}
