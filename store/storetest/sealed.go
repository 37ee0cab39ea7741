package storetest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/dalsegno/segno"
)

// Place is a location for one store.
type Place struct {
	// Open opens the store, and creates it if it does not exist; key is nil for an unsealed store.
	Open func(t *testing.T, key []byte) (segno.Store, error)
	// Dump returns all bytes at this place, names and contents, as a reader without the key gets them. The
	// tests call it only while no store is open.
	Dump func(t *testing.T) []byte
}

// TestSealed tests a store that encrypts its data. place returns an empty place.
func TestSealed(t *testing.T, place func(t *testing.T) Place) {
	for _, x := range sealedTests {
		t.Run("sealed/"+x.name, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the rule: %s", x.rule)
				}
			})
			x.run(&sealedFixture{t, place(t)})
		})
	}
}

// SealedKey returns the key with which [TestSealed] seals stores.
func SealedKey() []byte { return sealedKey(1) }

func sealedKey(n byte) []byte { return bytes.Repeat([]byte{n, 0x5e, 0xa1, 0xed}, 8) }

type sealedFixture struct {
	*testing.T
	Place
}

// sealedTests test the keys, and the data of a sealed store as a reader without the key gets it.
var sealedTests = []struct {
	name, rule string
	run        func(s *sealedFixture)
}{
	{"no plaintext", "the data of a sealed store contains neither text of the user nor the key", func(s *sealedFixture) {
		s.with(SealedKey(), func(f *fixture) { fillMarked(f) })
		dump := s.Dump(s.T)
		if len(dump) < 1<<20 {
			s.Fatalf("the dump has only %d bytes", len(dump))
		}
		key := string(SealedKey())
		for _, x := range []string{marker, marker[1:12], noise(64)[8:40], "in digest", "in bulk file", key, key[:8]} {
			if contains(dump, []byte(x)) {
				s.Errorf("the dump contains %q", x)
			}
		}
	}},
	{"nothing to guess", "the data does not show whether the store has a known file, session, path or value", testNoKnownHash},
	{"another key", "a store is refused with another key or none, keeps its data, and opens with its key", func(s *sealedFixture) {
		s.unchanged(SealedKey(), func() {
			s.refused(sealedKey(2), segno.KindRefused)
			s.refused(nil, segno.KindRefused)
		})
	}},
	{"a key for an unsealed store", "an unsealed store is refused with a key, and keeps its data", func(s *sealedFixture) {
		s.unchanged(nil, func() { s.refused(SealedKey(), segno.KindRefused) })
		dump, object := s.Dump(s.T), hash(markedText("small file", 400))
		if !contains(dump, []byte(marker)) || !contains(dump, object[:8]) {
			s.Fatal("the dump of an unsealed store contains neither the marker nor a hash")
		}
	}},
	{"the length of a key", "a key must have 32 bytes; an empty key is not the same as none", func(s *sealedFixture) {
		for _, n := range []int{0, 1, 16, 31, 33, 64} {
			s.refused(bytes.Repeat([]byte{1}, n), segno.KindInvalid)
		}
	}},
	{"opened by many at once", "concurrent creations with one key open one store; another key is refused", func(s *sealedFixture) {
		keys := [][]byte{SealedKey(), SealedKey(), sealedKey(2), SealedKey()}
		stores, errs := s.race(keys...)
		winner := slices.Index(errs, nil)
		if winner < 0 {
			s.Fatalf("errors %v; want success with one key", errs)
		}
		var head segno.Head
		for i, store := range stores {
			sameKey := bytes.Equal(keys[i], keys[winner])
			if sameKey != (errs[i] == nil) || !sameKey && segno.KindOf(errs[i]) != segno.KindRefused {
				s.Fatalf("errors %v; want success with one of the keys and refusal with the other", errs)
			}
			if !sameKey {
				continue
			}
			f := newFixture(s.T, store, Options{})
			if f.n = 100 * i; i == winner {
				head = f.newThread()
			}
			head = f.turns(head, 1)
		}
	}},
}

// with opens the store for do.
func (s *sealedFixture) with(key []byte, do func(f *fixture)) {
	s.Helper()
	store, err := s.Open(s.T, key)
	if err != nil {
		s.Fatal(err)
	}
	f := newFixture(s.T, store, Options{})
	defer f.close()
	do(f)
}

// refused fails the test unless opening the store with the key fails with a hint, and the error contains no
// part of a key.
func (s *sealedFixture) refused(key []byte, want segno.Kind) {
	s.Helper()
	store, err := s.Open(s.T, key)
	if err == nil {
		store.Close()
		s.Fatalf("Open succeeded; want an error of kind %q", want)
	}
	if segno.KindOf(err) != want || segno.HintOf(err) == "" || strings.Contains(err.Error(), "\n") {
		s.Fatalf("%v (kind %q, hint %q); want one line of kind %q and a hint", err, segno.KindOf(err), segno.HintOf(err), want)
	}
	for _, k := range [][]byte{key, sealedKey(1), sealedKey(2)} {
		if len(k) >= 8 && contains(fmt.Appendf(nil, "%v %#v", err, err), k[:8]) {
			s.Fatalf("the error contains a key: %v", err)
		}
	}
}

// unchanged fills a store, calls do, and fails the test if do changed the data.
func (s *sealedFixture) unchanged(key []byte, do func()) {
	s.Helper()
	var in inventory
	var want []string
	s.with(key, func(f *fixture) {
		in = fillMarked(f)
		want = in.read(f.Context(), f.store)
	})
	if n := strings.Count(strings.Join(want, "\n"), marker); n < 20 {
		s.Fatalf("the data contains the marker only %d times: %.2000s", n, want)
	}
	do()
	s.with(key, func(f *fixture) {
		f.same("the data", in.read(f.Context(), f.store), want)
		f.check()
		if x, ok := f.store.(segno.Collector); ok {
			done := returned(x.Collect(f.Context(), segno.CollectPolicy{Trace: trace})).ok(f)
			f.same("dropped and kept", []int{done.Checkpoints, done.Objects, done.Kept}, []int{0, 0, len(in.objects)})
			f.same("the data after a collection", in.read(f.Context(), f.store), want)
			f.check()
		}
		c := f.turn(f.head("thread"))
		c.ID = "again"
		head := f.commit(c)
		f.same("the result of the same commit again", f.commit(c), head)
	})
}

// race opens the store concurrently with each key.
func (s *sealedFixture) race(keys ...[]byte) (stores []segno.Store, errs []error) {
	stores, errs = make([]segno.Store, len(keys)), make([]error, len(keys))
	var group sync.WaitGroup
	for i, key := range keys {
		group.Go(func() { stores[i], errs[i] = s.Open(s.T, key) })
	}
	group.Wait()
	for i := range stores {
		if errs[i] == nil {
			s.Cleanup(func() { stores[i].Close() })
		}
	}
	return stores, errs
}

// marker does not compress, and no file format contains it by chance.
const marker = "Zx9Qv7Kp2Wm4Rt8Yb"

// markedText returns the text of a field, with the marker.
func markedText(field string, n int) string { return marker + " in " + field + noise(n) }

// fillMarked fills the store with the marker in every field.
func fillMarked(f *fixture) inventory {
	in := f.fill("thread", markedText)
	f.fillAround(&in, markedText)
	return in
}

// contains reports whether a dump contains data, as bytes or in hexadecimal digits.
func contains(dump, data []byte) bool {
	digits := []byte(hex.EncodeToString(data))
	return bytes.Contains(dump, data) || bytes.Contains(dump, digits) || bytes.Contains(dump, bytes.ToUpper(digits))
}

// containsNumber reports whether a dump contains the eight bytes of a number in either order, or its digits.
func containsNumber(dump []byte, n uint64) bool {
	little, big := binary.LittleEndian.AppendUint64(nil, n), binary.BigEndian.AppendUint64(nil, n)
	return contains(dump, little) || contains(dump, big) || bytes.Contains(dump, strconv.AppendInt(nil, int64(n), 10))
}

func testNoKnownHash(s *sealedFixture) {
	known := map[string]segno.Hash{}
	s.with(SealedKey(), func(f *fixture) {
		for i, name := range fillMarked(f).objects {
			known[fmt.Sprint("object ", i)] = name
		}
		c := f.turn(f.head("thread"))
		digest := returned(c.Digest()).ok(f)
		known["a commit"] = digest
		f.commit(c)
	})
	for _, field := range []string{"session", "next session", "path"} {
		known[field] = hash(markedText(field, 0))
	}
	known["the path of the workspace"] = hash("/home/" + markedText("workspace path", 0))
	for _, field := range []string{"leaf", "key", "session"} {
		known["the index term of "+field] = hash(field + "\x00" + markedText(field, 0))
	}
	known["the index term of meta"] = hash("meta\x00" + markedText("meta key", 0) + "\x00" + markedText("meta value", 400))
	dump := s.Dump(s.T)
	for what, h := range known {
		if containsNumber(dump, binary.LittleEndian.Uint64(h[:])) {
			s.Errorf("the dump contains the hash of %s", what)
		}
	}
	if containsNumber(dump, device) || containsNumber(dump, inode) {
		s.Error("the dump contains the device or the inode of the workspace")
	}
}
