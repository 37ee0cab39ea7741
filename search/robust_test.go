package search

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
)

// addMissing adds what an index lacks of a corpus, as an update does.
func (c *corpus) addMissing(t testing.TB, x *Index) {
	t.Helper()
	x.mu.Lock()
	x.readDir()
	spans := x.missing(map[segno.ThreadID]int64{"t": int64(len(c.units))})
	x.mu.Unlock()
	for _, s := range spans {
		c.add(t, x, int(s.from-1), int(s.to))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.mergeSmall(); err != nil {
		t.Fatal(err)
	}
}

// check compares some queries with a scan. It repairs the index as its callers do.
func (c *corpus) check(t testing.TB, x *Index, what string) {
	t.Helper()
	for range 8 {
		text, q := c.query(t)
		for {
			c.addMissing(t, x)
			_, err := x.Search(&q, 0, 1, time.Now().Add(time.Hour), func(h *Hit) ([]string, error) { return c.texts[h.Seq-1][h.Field], nil })
			if !IsDamaged(err) {
				break
			}
		}
		got, _ := c.ask(t, x, &q, 0, 5000)
		slices.Sort(got)
		if want := c.scan(&q); !slices.Equal(got, want) {
			t.Fatalf("%s: %q finds %v, want %v", what, text, got, want)
		}
	}
}

// TestAKillWhileSegmentsAreWritten ends a process at each operation of an update that writes and merges segments. The next process
// answers rightly.
func TestAKillWhileSegmentsAreWritten(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	c := newCorpus(soak.Seed(t))
	c.grow(90)
	steps := func(dir string, fsys vfs.FS) {
		x := Open(Config{Dir: dir, FS: fsys})
		defer x.Close()
		for from := 0; from < len(c.units); from += 10 {
			c.add(t, x, from, from+10)
			x.mu.Lock()
			if err := x.mergeSmall(); err != nil {
				t.Error(err)
			}
			x.mu.Unlock()
		}
	}
	count := faultfs.FailAt(-1)
	steps(t.TempDir(), count.Wrap(vfs.OS))
	for _, n := range faultfs.Sample(t, count.Trace()) {
		for _, isKill := range []bool{true, false} {
			dir := t.TempDir()
			faults := faultfs.FailAt(n)
			faults.Forever = isKill
			steps(dir, faults.Wrap(vfs.OS))
			x := Open(Config{Dir: dir, FS: vfs.OS})
			c.check(t, x, fmt.Sprint("after operation ", n, ", kill ", isKill))
			if err := x.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestDamagedSegments damages files of an index in several ways: the answers are right, and the files are good afterwards.
func TestDamagedSegments(t *testing.T) {
	random := rand.New(rand.NewPCG(soak.Seed(t), 2))
	for _, z := range []Sealer{nil, xorSealer{}} {
		for range soak.Count(t, 12, 500) {
			c := newCorpus(random.Uint64())
			c.grow(80)
			dir := t.TempDir()
			x := Open(Config{Dir: dir, FS: vfs.OS, Sealer: z})
			for from := 0; from < len(c.units); from += 20 {
				c.add(t, x, from, from+20)
			}
			isOpen := random.IntN(2) == 0 // while a process has it open
			if !isOpen {
				x.Close()
			}
			files, err := filepath.Glob(dir + "/*")
			if err != nil || len(files) != 4 {
				t.Fatal(files, err)
			}
			for _, name := range files[:1+random.IntN(4)] {
				damageFile(t, random, name)
			}
			if !isOpen {
				x = Open(Config{Dir: dir, FS: vfs.OS, Sealer: z})
			}
			c.check(t, x, "damaged")
			x.Close()
		}
	}
}

func damageFile(t *testing.T, random *rand.Rand, name string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	switch random.IntN(5) {
	case 0:
		data[random.IntN(len(data))] ^= 1 << random.IntN(8)
	case 1:
		data = data[:random.IntN(len(data))]
	case 2:
		data = append(data, data[:random.IntN(len(data))]...)
	case 3:
		copy(data, "segno search 2\n\x00") // of a newer version
	case 4:
		at := random.IntN(len(data))
		clear(data[at:min(len(data), at+pageSize)])
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// xorSealer is a stand-in for the key of a sealed store. It checks the place.
type xorSealer struct{}

func (xorSealer) Seal(plain []byte, place ...string) []byte {
	out := []byte(fmt.Sprintf("%08x", len(strings.Join(place, "/"))*7919+sum(plain)+sum([]byte(strings.Join(place, "/")))))
	for _, b := range plain {
		out = append(out, b^0x5a)
	}
	return out
}

func (z xorSealer) Open(sealed []byte, place ...string) ([]byte, error) {
	plain := make([]byte, max(0, len(sealed)-8))
	for i := range plain {
		plain[i] = sealed[i+8] ^ 0x5a
	}
	if !bytes.Equal(z.Seal(plain, place...), sealed) {
		return nil, errDamaged
	}
	return plain, nil
}

func sum(data []byte) (n int) {
	for i, b := range data {
		n = (n*31 + int(b) + i) & 0xffffff
	}
	return n
}

// FuzzSegment reads any content as a segment. A reader of it ends with an error and not with a panic.
func FuzzSegment(f *testing.F) {
	c := newCorpus(1)
	c.grow(5)
	b := newBuilder()
	b.addSource(Source{Thread: "t", From: 1, To: 5, Replaced: []int64{1}})
	for i := range c.units {
		b.add(c.units[i], c.texts[i])
	}
	f.Add(b.content(), "rate limiter foo* \"foo bar\"")
	f.Add([]byte{}, "x")
	f.Fuzz(func(t *testing.T, content []byte, text string) {
		file := encodePages(content, make([]byte, idSize), nil)
		s, err := openSegment(bytes.NewReader(file), int64(len(file)), nil)
		if err != nil {
			return
		}
		_ = s.entries("", func(e dictEntry) bool {
			p, err := s.list(e)
			for err == nil && p.doc() != endOfList {
				p.positions()
				p.next()
			}
			return true
		})
		q, err := Parse(text)
		if err != nil {
			return
		}
		q.Fields = []Field{Prompt, Output, Created}
		if r, err := search([]*segment{s}, &q, 10); err == nil {
			for _, c := range r.best {
				_, _ = r.hit(c)
			}
		}
		_, _ = merge([]*segment{s, s})
	})
}
