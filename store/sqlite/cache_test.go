package sqlite

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/sqlstore"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/storetest"
	"github.com/google/go-cmp/cmp"
)

// twoStores is two Stores on one database. Random commits lengthen, branch, move, delete and collect
// lines.
type twoStores struct {
	*testing.T
	rnd    *rand.Rand
	dir    string
	o      Options
	now    time.Time
	stores [2]*Store
	heads  map[segno.ThreadID]segno.Head
	names  []segno.ThreadID
	ids    []segno.CommitID
}

func newTwoStores(t *testing.T, seed uint64) *twoStores {
	g := &twoStores{T: t, rnd: rand.New(rand.NewPCG(seed, 7)), dir: t.TempDir(), now: time.Unix(1e9, 0),
		heads: map[segno.ThreadID]segno.Head{}}
	g.o.Clock = func() time.Time { return g.now }
	if seed%2 == 1 {
		g.o.Key = storetest.SealedKey()
	}
	for i := range g.stores {
		g.stores[i] = openIn(t, g.dir, g.o)
		t.Cleanup(func() { g.stores[i].Close() })
	}
	return g
}

func (g *twoStores) some() segno.CommitID { return g.ids[g.rnd.IntN(len(g.ids))] }

func (g *twoStores) commit(c segno.Commit) {
	g.Helper()
	c.ID = segno.CommitID(fmt.Sprint("c", len(g.ids)))
	head, err := g.stores[g.rnd.IntN(2)].Commit(g.Context(), c)
	switch {
	case err == nil:
		g.heads[c.Thread] = head
		g.ids = append(g.ids, c.ID)
	case c.Create == nil || segno.KindOf(err) != segno.KindNotFound: // a collection may have removed its parent
		g.Fatal(err)
	}
}

// create creates a thread, usually as a fork.
func (g *twoStores) create() {
	g.Helper()
	thread := segno.ThreadID(fmt.Sprint("t", len(g.names)))
	c := segno.Commit{Thread: thread, Create: &segno.Thread{ID: thread}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}}
	if len(g.ids) > 0 && g.rnd.IntN(3) > 0 {
		c.Parent = g.some()
		c.Create.Parent = c.Parent
	}
	g.names = append(g.names, thread)
	g.commit(c)
}

// act makes one random change to a thread.
func (g *twoStores) act(head segno.Head) {
	g.Helper()
	s := g.stores[g.rnd.IntN(2)]
	switch k := g.rnd.IntN(16); {
	case k < 11:
		c := segno.Commit{Thread: head.Thread, Parent: head.Head, Expect: head.Head,
			Entries: []segno.Entry{{Kind: segno.EntryMessage, Body: fmt.Appendf(nil, `"message %d of %s"`, len(g.ids), head.Thread)}}}
		if g.rnd.IntN(2) == 0 {
			c.Checkpoint = &segno.Checkpoint{Kind: segno.CheckpointStep, Step: len(g.ids), Meta: map[string]string{"k": "v"}}
		}
		g.commit(c)
	case k < 14:
		line, err := s.Load(g.Context(), head.Head, segno.Window{})
		if err != nil {
			g.Fatal(err)
		}
		to := line.Commits[g.rnd.IntN(len(line.Commits))].ID
		g.commit(segno.Commit{Thread: head.Thread, Expect: head.Head, Move: &segno.Move{Head: to, Tip: to}})
	case k == 14 && len(g.heads) > 2:
		delete(g.heads, head.Thread)
		if err := s.Delete(g.Context(), head.Thread); err != nil {
			g.Fatal(err)
		}
	default:
		g.now = g.now.Add(3 * time.Hour)
		if _, err := s.Collect(g.Context(), segno.CollectPolicy{}); err != nil {
			g.Fatal(err)
		}
	}
}

// look loads a line from a store that has it in its cache and from one that was just opened, compares them,
// and then overwrites both results.
func (g *twoStores) look(at segno.CommitID) {
	g.Helper()
	whole := segno.Window{Entries: true}
	got, err := g.stores[g.rnd.IntN(2)].Load(g.Context(), at, whole)
	fresh := openIn(g.T, g.dir, g.o)
	defer fresh.Close()
	want, wantErr := fresh.Load(g.Context(), at, whole)
	if segno.KindOf(err) != segno.KindOf(wantErr) || (err == nil) != (wantErr == nil) {
		g.Fatalf("%s: %v, from a store just opened %v", at, err, wantErr)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		g.Fatalf("%s (-want +got):\n%s", at, diff)
	}
	if err != nil {
		return
	}
	for _, n := range got.Commits {
		for _, e := range n.Entries {
			clear(e.Body)
		}
		if n.Checkpoint != nil {
			clear(n.Checkpoint.Meta)
		}
	}
}

// TestLoadAgain loads lines repeatedly: the cache must not change any result.
func TestLoadAgain(t *testing.T) {
	seeds := 4
	if testing.Short() {
		seeds = 1
	}
	for _, seed := range soak.Seeds(t, seeds, 200) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			g := newTwoStores(t, seed)
			g.create()
			for range 300 {
				head, there := g.heads[g.names[g.rnd.IntN(len(g.names))]]
				if !there || g.rnd.IntN(20) == 0 {
					g.create()
				} else {
					g.act(head)
				}
				g.look(g.some())
			}
		})
	}
}

// TestLoadAtOnce loads the same lines from many goroutines while one goroutine lengthens them.
func TestLoadAtOnce(t *testing.T) {
	g := newTwoStores(t, 2)
	g.create()
	for range 30 {
		g.act(g.heads["t0"])
	}
	var group sync.WaitGroup
	for range 4 {
		ids := slices.Clone(g.ids)
		group.Go(func() {
			for _, at := range ids {
				line, err := g.stores[0].Load(t.Context(), at, segno.Window{Entries: true})
				switch {
				case segno.KindOf(err) == segno.KindNotFound: // the head moved, or a collection removed the line
				case err != nil || line.Commits[len(line.Commits)-1].ID != at:
					t.Errorf("%s: %v", at, err)
				}
			}
		})
	}
	for range 30 {
		g.act(g.heads["t0"])
	}
	group.Wait()
}

// TestLoadAfterACollection makes a new line reuse the row number of a collected line. The cached old line must
// not be returned for the new one.
func TestLoadAfterACollection(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	defer s.Close()
	for round := range 3 {
		thread := segno.ThreadID(fmt.Sprint("t", round))
		var head segno.Head
		var err error
		for i := range 5 {
			c := segno.Commit{ID: segno.CommitID(fmt.Sprint(thread, "-", i)), Thread: thread, Parent: head.Head, Expect: head.Head,
				Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep, Step: i + 1}}
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

// TestCacheIsBounded fills the cache with a line that is used repeatedly and lines that are not.
func TestCacheIsBounded(t *testing.T) {
	var c cache
	nodes := func(size int) []sqlstore.Node {
		return []sqlstore.Node{{Records: [2][]byte{sqlstore.Entries: make([]byte, size)}}}
	}
	c.put(1, nodes(cacheSize/4))
	for line := range int64(20) {
		c.put(100+line, nodes(cacheSize/4))
		if len(c.lines) > 4 {
			t.Fatalf("%d lines are kept, each of a quarter of the size", len(c.lines))
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
	if c.get(1) != nil || len(c.get(119)[0].Records[sqlstore.Entries]) != 1 {
		t.Error("a line that does not fit is not kept, a shorter one takes the place of the longer")
	}
}
