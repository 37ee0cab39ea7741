package storetest

import (
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

// entry is a save as an oracle keeps it.
type entry struct {
	id   segno.CommitID
	step int
	meta pairs
	seq  int64
}

// anyHistory asks random threads' histories, in their namespaces, everything at
// once: a cursor, a limit, a step, meta.
func anyHistory(f *fixture) {
	pick := dice("histories")
	threads, namespaces := []string{"one", "two", "three", "a:b", "nobody"}, []string{"", "child:1", "b", "empty"}
	metas := []pairs{nil, {"source": "input"}, {"source": "loop"}, {"source": "loop", "n": "1"}, {"n": "1", "": ""}}
	kept, newest := map[saver.ThreadKey][]entry{}, map[saver.ThreadKey]saver.Snapshot{}
	for i := range 70 {
		a := saver.ThreadKey{Thread: threads[pick(len(threads)-1, "thread")], Namespace: namespaces[pick(len(namespaces)-1, "namespace")]}
		s := newest[a]
		s.ThreadKey, s.Meta = a, metas[pick(len(metas), "meta")]
		s = f.save(more(s, fmt.Sprint(i)))
		newest[a] = s
		kept[a] = append([]entry{{id: s.ID, step: s.Step, meta: s.Meta}}, kept[a]...)
	}
	for a, all := range kept {
		for i, c := range f.history(a, segno.CheckpointQuery{}) {
			f.same("a whole history", c.ID, all[i].id)
			if all[i].seq = c.Seq; i > 0 && c.Seq >= all[i-1].seq {
				f.Fatalf("after seq %d comes %d", all[i-1].seq, c.Seq)
			}
		}
	}
	befores, limits, steps := []int{-1, 0, 1, 3}, []int{0, 1, 2, 9}, []int{0, 1, 2, 99}
	metas = append(metas, pairs{"source": "never"}, pairs{"n": "1"})
	asked, found := 0, 0
	combinations(f, []int{len(threads), len(namespaces), len(befores), len(limits), len(steps), len(metas)}, func(at []int) {
		a := saver.ThreadKey{Thread: threads[at[0]], Namespace: namespaces[at[1]]}
		q := segno.CheckpointQuery{Limit: limits[at[3]], Step: steps[at[4]], Meta: metas[at[5]]}
		if b := befores[at[2]]; b >= 0 && b < len(kept[a]) {
			q.Before = kept[a][b].seq
		}
		var want []segno.CommitID
		for _, e := range kept[a] {
			has := !slices.ContainsFunc(keysOf(q.Meta), func(key string) bool { v, ok := e.meta[key]; return !ok || v != q.Meta[key] })
			if has && (q.Before == 0 || e.seq < q.Before) && (q.Step == 0 || e.step == q.Step) && (q.Limit == 0 || len(want) < q.Limit) {
				want = append(want, e.id)
			}
		}
		f.same(fmt.Sprintf("the history of %q: %+v", a, q), f.told(a, q), want)
		asked, found = asked+1, found+len(want)
	})
	f.Logf("%d queries, %d answers", asked, found)
	if found == 0 {
		f.Fatal("no query finds anything; the clause asks nothing")
	}
}

func keysOf(m pairs) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	return keys
}
