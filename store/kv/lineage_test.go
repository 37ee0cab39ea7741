package kv_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
)

// TestDeepForks forks a fork of a fork, and verifies that a turn costs the same there.
func TestDeepForks(t *testing.T) {
	m := kvtest.NewMap(noon)
	s := mustOpen(t, m, kv.Options{})
	var want []segno.CommitID
	var parent segno.CommitID
	costs := make([]int64, 60)
	for depth := range costs {
		head, err := s.Commit(t.Context(), create(segno.ThreadID(segno.NewID()), parent))
		want = append(want, head.Head)
		before := int64(0)
		for i := range 12 {
			if i == 2 {
				before = size(t, m)
			}
			if err != nil {
				t.Fatal(err)
			}
			head, err = s.Commit(t.Context(), turn(head, fmt.Sprintf("depth %d turn %d", depth, i)))
			want = append(want, head.Head)
		}
		costs[depth] = size(t, m) - before
		parent = head.Head
	}
	if first, last := costs[1], costs[len(costs)-1]; float64(last) > 1.5*float64(first) {
		t.Fatalf("ten turns cost %d bytes in the first fork, %d in the last: %v", first, last, costs)
	}
	for i := len(want) - 1; i > 0; i -= 71 {
		if got := ids(t, mustOpen(t, m, kv.Options{}), want[i], 0); !slices.Equal(got, want[:i+1]) {
			t.Fatalf("the line of %s has %d commits instead of %d", want[i], len(got), i+1)
		}
	}
}

func ids(t *testing.T, s *kv.Store, at segno.CommitID, last int) (ids []segno.CommitID) {
	t.Helper()
	line, err := s.Load(t.Context(), at, segno.Window{Last: last})
	if err != nil {
		t.Fatalf("loading %s: %v", at, err)
	}
	for _, n := range line.Commits {
		ids = append(ids, n.ID)
	}
	return ids
}

// TestAnyTree makes random trees, with lines that begin anywhere and forks of them. It compares
// lines that stores without a cache read with those that the test computes.
func TestAnyTree(t *testing.T) {
	for name, able := range map[string]func(*kvtest.Map) kv.KV{"plain": plain, "batch": able} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(soak.Seed(t), 0))
			m := kvtest.NewMap(noon)
			s := mustOpen(t, able(m), kv.Options{})
			parent := map[segno.CommitID]segno.CommitID{}
			var nodes []segno.CommitID
			var heads []segno.Head
			grow := func(c segno.Commit) segno.Head {
				head, err := s.Commit(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				parent[c.ID] = c.Parent
				nodes = append(nodes, c.ID)
				return head
			}
			heads = append(heads, grow(create("0", "")))
			for i := range 900 {
				any := nodes[r.IntN(len(nodes))]
				at := &heads[r.IntN(len(heads))]
				switch what := r.IntN(40); {
				case what == 0:
					heads = append(heads, grow(create(segno.ThreadID(fmt.Sprint("fork ", i)), any)))
				case what < 8:
					c := turn(*at, fmt.Sprint("turn ", i))
					c.Parent = any
					*at = grow(c)
				case what < 12:
					head, err := s.Commit(t.Context(), segno.Commit{ID: segno.CommitID(fmt.Sprint("undo ", i)), Thread: at.Thread, Expect: at.Head, Move: &segno.Move{Head: any, Tip: at.Tip}})
					if err != nil {
						t.Fatal(err)
					}
					*at = head
				case what == 12:
					s = mustOpen(t, able(m), kv.Options{})
				default:
					*at = grow(turn(*at, fmt.Sprint("turn ", i)))
				}
			}
			for range 150 {
				at, last := nodes[r.IntN(len(nodes))], r.IntN(2)*r.IntN(40)
				var want []segno.CommitID
				for up := at; up != "" && (last == 0 || len(want) < last); up = parent[up] {
					want = append(want, up)
				}
				slices.Reverse(want)
				if got := ids(t, mustOpen(t, able(m), kv.Options{}), at, last); !slices.Equal(got, want) {
					t.Fatalf("the last %d of %s are\n%v\ninstead of\n%v", last, at, got, want)
				}
			}
		})
	}
}
