package sqlite

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/memory"
	"github.com/google/go-cmp/cmp"
)

// grove grows random lines in a store and in an oracle beside it.
type grove struct {
	s, oracle segno.Store
	heads     []segno.Head
	ids       []segno.CommitID
}

// grow adds a commit: to where a thread stands, to where it stood, or as a fork.
func (g *grove) grow(t *testing.T, r *rand.Rand, i int) {
	t.Helper()
	c := segno.Commit{ID: segno.CommitID(fmt.Sprintf("c%d", i)), Entries: []segno.Entry{{Kind: segno.EntryMessage,
		Body: fmt.Appendf(nil, `"the %d. message: %d"`, i, r.Uint64())}}}
	n := r.IntN(len(g.heads) + 1)
	switch {
	case n == len(g.heads) && n > 3:
		n = 0
		fallthrough
	case n < len(g.heads):
		h := g.heads[n]
		c.Thread, c.Parent, c.Expect = h.Thread, h.Head, h.Head
		if r.IntN(4) == 0 {
			c.Parent = g.ids[r.IntN(len(g.ids))]
		}
	default:
		g.heads = append(g.heads, segno.Head{})
		c.Thread, c.Create = segno.ThreadID(fmt.Sprint("t", n)), &segno.Thread{ID: segno.ThreadID(fmt.Sprint("t", n))}
		if n > 0 {
			c.Parent = g.ids[r.IntN(len(g.ids))]
		}
	}
	if r.IntN(3) > 0 {
		c.Checkpoint = &segno.Checkpoint{Kind: segno.KindStep, Step: i + 1, Meta: map[string]string{"n": fmt.Sprint(i)}}
	}
	head, err := g.s.Commit(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.oracle.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	g.heads[n] = head
	g.ids = append(g.ids, c.ID)
}

// TestLoadAgain loads lines that grow, branch and are left: what a store keeps of
// those it loaded before must not show.
func TestLoadAgain(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := openIn(t, t.TempDir(), Options{})
		g := &grove{s: s, oracle: memory.New(nil)}
		for i := range 120 {
			g.grow(t, r, i)
			at := g.ids[len(g.ids)-1]
			if r.IntN(2) == 0 {
				at = g.ids[r.IntN(len(g.ids))]
			}
			got, err := s.Load(t.Context(), at, segno.Window{Entries: true})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			want, err := g.oracle.Load(t.Context(), at, segno.Window{Entries: true})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, %s (-want +got):\n%s", seed, at, diff)
			}
			for n := range got.Commits {
				for e := range got.Commits[n].Entries {
					clear(got.Commits[n].Entries[e].Body)
				}
				if c := got.Commits[n].Checkpoint; c != nil {
					clear(c.Meta)
				}
			}
		}
		s.Close()
	}
}

// TestLoadAtOnce has many load and lengthen the same lines.
func TestLoadAtOnce(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	defer s.Close()
	g := &grove{s: s, oracle: memory.New(nil)}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 30 {
		g.grow(t, r, i)
	}
	var group sync.WaitGroup
	for range 4 {
		ids := append([]segno.CommitID(nil), g.ids...)
		group.Go(func() {
			for _, at := range ids {
				line, err := s.Load(t.Context(), at, segno.Window{Entries: true})
				if err != nil || line.Commits[len(line.Commits)-1].ID != at {
					t.Errorf("%s: %v", at, err)
				}
			}
		})
	}
	for i := range 30 {
		g.grow(t, r, 30+i)
	}
	group.Wait()
}

// TestLoadAfterACollection has a row's number used again by another line: what is kept
// of the old one is not read as the new one's.
func TestLoadAfterACollection(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	defer s.Close()
	for round := range 3 {
		thread := segno.ThreadID(fmt.Sprint("t", round))
		var head segno.Head
		var err error
		for i := range 5 {
			c := segno.Commit{ID: segno.CommitID(fmt.Sprint(thread, "-", i)), Thread: thread, Parent: head.Head, Expect: head.Head,
				Checkpoint: &segno.Checkpoint{Kind: segno.KindStep, Step: i + 1}}
			if i == 0 {
				c.Create = &segno.Thread{ID: thread}
			}
			if head, err = s.Commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		line, err := s.Load(t.Context(), head.Head, segno.Window{Entries: true})
		if err != nil || len(line.Commits) != 5 || line.Commits[0].Thread != thread {
			t.Fatalf("round %d: %v, %v", round, line, err)
		}
		if err := s.Delete(t.Context(), thread); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Collect(t.Context(), segno.CollectPolicy{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Load(t.Context(), head.Head, segno.Window{Entries: true}); segno.KindOf(err) != segno.KindNotFound {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

// TestCacheIsBounded fills the cache with lines that are used and such that are not.
func TestCacheIsBounded(t *testing.T) {
	var c cache
	nodes := func(size int) []segment { return []segment{{entries: make([]byte, size)}} }
	c.put(1, nodes(cacheSize/4))
	for line := range int64(20) {
		c.put(100+line, nodes(cacheSize/4))
		if c.size > cacheSize {
			t.Fatalf("%d bytes are kept", c.size)
		}
		if c.get(1) == nil {
			t.Fatalf("the line that is used was dropped for the %d.", line)
		}
	}
	if c.get(100) != nil || c.get(119) == nil {
		t.Error("the lines that were not used for longest should be gone, and the newest there")
	}
	c.put(119, nodes(1))
	c.put(1, nodes(2*cacheSize))
	if c.get(1) != nil || len(c.get(119)[0].entries) != 1 {
		t.Error("a line that does not fit is not kept, a shorter one takes the place of the longer")
	}
}
