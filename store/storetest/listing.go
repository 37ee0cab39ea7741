package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"pgregory.net/rapid"
)

func listings() []clause {
	return []clause{
		{"any query of checkpoints", "whatever a query combines, its answer is what an oracle says: threads, steps, meta, prefixes, pins, cursors, limits", anyCheckpoints},
		{"any query of threads", "whatever a query combines, its answer is what an oracle says: parts, whole ones, prefixes, workspaces, sessions, limits", anyThreads},
	}
}

// shelf is a store with a known content, and that content the newest first.
type shelf struct {
	*fixture
	all     []segno.Checkpoint
	pins    map[segno.CommitID]string
	threads []segno.Thread
	session map[segno.ThreadID]segno.SessionID
}

// stock fills a store by chance: whole threads and parts of them, lines that were
// left, other checkpoints between steps, pins, deleted threads.
func (f *fixture) stock(pick func(n int, label string) int) *shelf {
	f.Helper()
	s := &shelf{fixture: f, pins: map[segno.CommitID]string{}, session: map[segno.ThreadID]segno.SessionID{}}
	for i := range 7 {
		s.thread(i, pick)
	}
	for range 60 {
		s.step(pick)
	}
	gone := s.threads[len(s.threads)-1].ID
	f.ok(f.store.Delete(f.Context(), gone))
	s.threads = s.threads[:len(s.threads)-1]
	s.all = slices.DeleteFunc(s.all, func(c segno.Checkpoint) bool { return c.Thread == gone })
	return s
}

func (s *shelf) thread(i int, pick func(int, string) int) {
	c := s.base(segno.ThreadID(fmt.Sprintf("%c%d", 'a'+i%2, i)), "")
	if i > 1 && pick(2, "a part") == 0 {
		c.Create.ParentThread, c.Create.Name = s.threads[pick(len(s.threads), "of")].ID, fmt.Sprint("part ", pick(3, "name"))
	}
	c.Create.Workspace = segno.WorkspaceID([]string{"", "w1", "w2"}[pick(3, "workspace")])
	session := segno.SessionID([]string{"s1", "s2", "s3"}[pick(3, "session")])
	c.Link = &segno.Link{Session: session, Start: epoch}
	s.session[c.Thread] = session
	s.put(c)
	s.threads = append([]segno.Thread{*c.Create}, s.threads...)
}

func (s *shelf) step(pick func(int, string) int) {
	i := pick(len(s.threads), "thread")
	t := s.threads[i]
	head := s.head(t.ID)
	c := s.next(head)
	c.Checkpoint.Step = pick(4, "step")
	c.Checkpoint.Meta = []map[string]string{nil, {"source": "input"}, {"source": "loop"}, {"source": "loop", "n": "1"}, {"n": "1", "": ""}}[pick(5, "meta")]
	c.Checkpoint.Session = &segno.Position{Session: s.session[t.ID], Leaf: fmt.Sprint("leaf", pick(3, "leaf"))}
	if pick(6, "a line of its own") == 0 {
		c.Parent = s.path(head.Head, 0)[0]
	}
	if pick(7, "no checkpoint") == 0 {
		c.Checkpoint = nil
	}
	s.put(c)
	s.threads = append([]segno.Thread{t}, slices.Delete(s.threads, i, i+1)...)
	if c.Checkpoint != nil && pick(5, "pin") == 0 {
		pin := s.move(s.head(t.ID), c.ID, c.ID)
		pin.Pin = &segno.Pin{Checkpoint: c.ID, Name: "pin of " + string(c.ID)}
		s.commit(pin)
		s.pins[c.ID] = pin.Pin.Name
	}
}

// put commits c and keeps what is to be listed of it.
func (s *shelf) put(c segno.Commit) {
	s.Helper()
	head := s.commit(c)
	if c.Checkpoint == nil {
		return
	}
	cp, err := c.Checkpoint.Clone()
	s.ok(err)
	cp.ID, cp.Thread, cp.Parent, cp.Seq = c.ID, c.Thread, c.Parent, head.Seq
	s.all = append([]segno.Checkpoint{*cp}, s.all...)
}

// expect is what a query finds, told without the code under test.
func (s *shelf) expect(q segno.CheckpointQuery) (want []segno.Checkpoint) {
	for _, c := range s.all {
		keep := true
		for _, hit := range []bool{
			q.Thread == "" || q.Thread == c.Thread,
			q.Step == 0 || q.Step == c.Step,
			q.Before == 0 || q.Before > c.Seq,
			q.Session == "" || c.Session != nil && c.Session.Session == q.Session,
			q.Leaf == "" || c.Session != nil && c.Session.Leaf == q.Leaf,
			len(c.ID) >= len(q.IDPrefix) && string(c.ID[:len(q.IDPrefix)]) == q.IDPrefix,
		} {
			keep = keep && hit
		}
		for key, value := range q.Meta {
			if has, ok := c.Meta[key]; !ok || has != value {
				keep = false
			}
		}
		if name, pinned := s.pins[c.ID]; q.Pinned {
			keep = keep && pinned
			c.Label = name
		}
		if keep && (q.Limit == 0 || len(want) < q.Limit) {
			want = append(want, c)
		}
	}
	return want
}

// axes are the values each field of a query is combined from.
type axes struct {
	threads  []segno.ThreadID
	sessions []segno.SessionID
	steps    []int
	metas    []map[string]string
	prefixes []string
	befores  []int64
	limits   []int
	pinned   []bool
}

func (s *shelf) axes() axes {
	a := axes{threads: []segno.ThreadID{"", "nobody"}, sessions: []segno.SessionID{"", "s2"}, steps: []int{0, 1, 3, 9},
		metas:    []map[string]string{nil, {"source": "loop"}, {"source": "loop", "n": "1"}, {"n": "1"}, {"": ""}, {"source": "never"}},
		prefixes: []string{"", "turn-1", "base"}, befores: []int64{0, 1, 4, 9, 99}, limits: []int{0, 1, 2, 7}, pinned: []bool{false, true}}
	for _, t := range s.threads {
		a.threads = append(a.threads, t.ID)
	}
	return a
}

// sizes are how many values each axis has.
func (a axes) sizes() []int {
	return []int{len(a.threads), len(a.sessions), len(a.steps), len(a.metas), len(a.prefixes), len(a.befores), len(a.limits), len(a.pinned)}
}

// query is the combination with these places on the axes.
func (a axes) query(at []int) segno.CheckpointQuery {
	q := segno.CheckpointQuery{Thread: a.threads[at[0]], Session: a.sessions[at[1]], Step: a.steps[at[2]], Meta: a.metas[at[3]],
		IDPrefix: a.prefixes[at[4]], Before: a.befores[at[5]], Limit: a.limits[at[6]], Pinned: a.pinned[at[7]]}
	if q.Thread == "" {
		q.Before = 0
	}
	return q
}

// combinations calls visit with a sample of all places on axes of these sizes, and
// in a soak with all of them.
func combinations(f *fixture, sizes []int, visit func(at []int)) {
	if !soak() {
		f.check(func(t *rapid.T) {
			at := make([]int, len(sizes))
			for i, n := range sizes {
				if rapid.Bool().Draw(t, "chooses") { // else all: few answers come of many conditions
					at[i] = rapid.IntRange(0, n-1).Draw(t, fmt.Sprint("axis ", i))
				}
			}
			visit(at)
		})
		return
	}
	for at := make([]int, len(sizes)); ; {
		visit(at)
		i := 0
		for ; i < len(at); i++ {
			if at[i]++; at[i] < sizes[i] {
				break
			}
			at[i] = 0
		}
		if i == len(at) {
			return
		}
	}
}

// dice are picks that look like chance and are the same in every run.
func dice(seed string) func(n int, label string) int {
	h := name(seed)
	return func(n int, label string) int {
		h = segno.HashOf(append(h[:], label...))
		return (int(h[0])<<8 | int(h[1])) % n
	}
}

func anyCheckpoints(f *fixture) {
	s := f.stock(dice("checkpoints"))
	a := s.axes()
	asked, found := 0, 0
	combinations(f, a.sizes(), func(at []int) {
		q := a.query(at)
		got, want := s.list(q), s.expect(q)
		s.same(fmt.Sprintf("%+v", q), got, want)
		asked, found = asked+1, found+len(want)
	})
	f.Logf("%d queries, %d answers", asked, found)
	if found == 0 {
		f.Fatal("no query finds anything; the clause asks nothing")
	}
}

func anyThreads(f *fixture) {
	s := f.stock(dice("threads"))
	of := []segno.ThreadID{"", "nobody"}
	for _, t := range s.threads {
		of = append(of, t.ID)
	}
	workspaces, sessions := []segno.WorkspaceID{"", "w1", "w3"}, []segno.SessionID{"", "s1", "s2", "s9"}
	prefixes, limits := []string{"", "a", "b1", "c"}, []int{0, 1, 3}
	combinations(f, []int{len(of), 2, len(workspaces), len(sessions), len(prefixes), len(limits)}, func(at []int) {
		q := segno.ThreadQuery{ParentThread: of[at[0]], TopLevel: at[1] == 1, Workspace: workspaces[at[2]], Session: sessions[at[3]], IDPrefix: prefixes[at[4]], Limit: limits[at[5]]}
		var want, got []segno.Thread
		for _, t := range s.threads {
			if (q.ParentThread == "" || t.ParentThread == q.ParentThread) && (!q.TopLevel || t.ParentThread == "") && (q.Workspace == "" || t.Workspace == q.Workspace) &&
				(q.Session == "" || s.session[t.ID] == q.Session) && strings.HasPrefix(string(t.ID), q.IDPrefix) && (q.Limit == 0 || len(want) < q.Limit) {
				want = append(want, t)
			}
		}
		for t, err := range f.store.Threads(f.Context(), q) {
			f.ok(err)
			got = append(got, t)
		}
		f.same(fmt.Sprintf("%+v", q), got, want)
	})
}
