package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"pgregory.net/rapid"
)

type pairs = map[string]string

// listTests test queries of checkpoints and threads.
var listTests = []test{
	{"invalid queries", "a negative limit or cursor, and a cursor without a thread, are refused", func(f *fixture) {
		for _, q := range []segno.CheckpointQuery{{Before: 3}, {Limit: -1}, {Thread: "t", Before: -1}} {
			f.kind(lastErr(f.store.Checkpoints(f.Context(), q)), segno.KindInvalid)
		}
	}},
	{"listing while committing", "a caller may commit while it lists", func(f *fixture) {
		head := f.turns(f.newThread(), 300)
		want := f.line(head.Head, 0)
		slices.Reverse(want)
		var got []segno.CommitID
		for c, err := range f.store.Checkpoints(f.Context(), segno.CheckpointQuery{Thread: head.Thread}) {
			f.ok(err)
			got = append(got, c.ID)
			if len(got)%50 == 1 {
				head = f.turns(head, 1)
			}
		}
		f.same("the list", got, want)
	}},
	{"any query of checkpoints", "random queries of checkpoints return what a model returns", testAnyCheckpointQuery},
	{"any query of threads", "random queries of threads return what a model returns", testAnyThreadQuery},
}

// listModel fills a store and holds the expected content of its lists, newest first.
type listModel struct {
	*fixture
	seed        segno.Hash
	checkpoints []segno.Checkpoint
	pins        map[segno.CommitID]string
	threads     []segno.Thread
	session     map[segno.ThreadID]segno.SessionID
}

// newListModel fills the store with threads, parts, abandoned lines, commits without checkpoints, pins
// and a deleted thread. The content is the same in every run.
func (f *fixture) newListModel() *listModel {
	f.Helper()
	m := &listModel{fixture: f, pins: map[segno.CommitID]string{}, session: map[segno.ThreadID]segno.SessionID{}}
	for i := range 7 {
		m.addThread(i)
	}
	for range 60 {
		m.addCheckpoint()
	}
	deleted := m.threads[len(m.threads)-1].ID
	f.ok(f.store.Delete(f.Context(), deleted))
	m.threads = m.threads[:len(m.threads)-1]
	m.checkpoints = slices.DeleteFunc(m.checkpoints, func(c segno.Checkpoint) bool { return c.Thread == deleted })
	return m
}

// pick returns a pseudo-random number below n.
func (m *listModel) pick(n int) int {
	m.seed = segno.HashOf(m.seed[:])
	return (int(m.seed[0])<<8 | int(m.seed[1])) % n
}

func (m *listModel) addThread(i int) {
	parent := segno.CommitID("")
	if i == 4 {
		parent = m.checkpoints[0].ID
	}
	c := m.base(segno.ThreadID(fmt.Sprintf("%c%d", 'a'+i%2, i)), parent)
	if i > 1 && i%3 != 1 {
		c.Create.ParentThread, c.Create.Name = m.threads[m.pick(len(m.threads))].ID, fmt.Sprint("part ", m.pick(3))
	}
	c.Create.Workspace = segno.WorkspaceID([]string{"", "w1", "w2"}[m.pick(3)])
	m.session[c.Thread] = segno.SessionID([]string{"s1", "s2", "s3"}[m.pick(3)])
	c.Link = &segno.Link{Session: m.session[c.Thread], Start: epoch}
	m.add(c)
	m.threads = append([]segno.Thread{*c.Create}, m.threads...)
}

// unusualMeta returns keys and values with bytes that have a meaning in databases.
func unusualMeta() pairs {
	return pairs{"": "", "a\x00b": "\xff", "'; --": "%", "é": strings.Repeat("v", 1<<10), "$.a": `{"b":1}`}
}

func (m *listModel) addCheckpoint() {
	i := m.pick(len(m.threads))
	t := m.threads[i]
	head := m.head(t.ID)
	c := m.turn(head)
	c.Checkpoint.Time = epoch.Add(time.Duration(m.pick(7)-3) * time.Hour) // must not affect the order of a list
	c.Checkpoint.Step = []int{0, 1, 2, 1 << 40}[m.pick(4)]
	metas := []pairs{nil, {"source": "input"}, {"source": "loop"}, {"source": "loop", "n": "1"}, {"n": "1"}, unusualMeta()}
	c.Checkpoint.Meta = metas[m.pick(len(metas))]
	c.Checkpoint.Session = &segno.Position{Session: m.session[t.ID], Leaf: fmt.Sprint("leaf", m.pick(3))}
	c.Checkpoint.Key = segno.TurnKey([]string{"", "key1", "key2"}[m.pick(3)])
	if m.pick(2) == 0 {
		c.Staged, c.Checkpoint.Workspace = m.stage("file"), &segno.Snapshot{Workspace: "w1", Tree: hash("file")}
	}
	if m.pick(6) == 0 {
		c.Parent = m.line(head.Head, 0)[0]
	}
	if m.pick(7) == 0 {
		c.Checkpoint = nil
	}
	m.add(c)
	m.threads = append([]segno.Thread{t}, slices.Delete(m.threads, i, i+1)...)
	if c.Checkpoint != nil && m.pick(5) == 0 {
		m.pins[c.ID] = "pin of " + string(c.ID)
		m.commit(m.pin(m.head(t.ID), c.ID, m.pins[c.ID]))
	}
}

// add commits c and adds its checkpoint to the model.
func (m *listModel) add(c segno.Commit) {
	m.Helper()
	head := m.commit(c)
	if c.Checkpoint == nil {
		return
	}
	cp := *c.Checkpoint
	cp.ID, cp.Thread, cp.Parent, cp.Seq = c.ID, c.Thread, c.Parent, head.Seq
	m.checkpoints = append([]segno.Checkpoint{cp}, m.checkpoints...)
}

// expected returns the checkpoints that q selects. It does not use the code under test.
func (m *listModel) expected(q segno.CheckpointQuery) (want []segno.Checkpoint) {
	for _, c := range m.checkpoints {
		session := c.Session
		if session == nil {
			session = &segno.Position{}
		}
		label, pinned := m.pins[c.ID]
		match := !slices.Contains([]bool{
			q.Thread == "" || q.Thread == c.Thread,
			q.Step == 0 || q.Step == c.Step,
			q.Before == 0 || q.Before > c.Seq,
			q.Session == "" || session.Session == q.Session,
			q.Leaf == "" || session.Leaf == q.Leaf,
			q.Key == "" || c.Key == q.Key,
			q.Workspace == "" || c.Workspace != nil && c.Workspace.Workspace == q.Workspace,
			!q.Pinned || pinned,
			q.Limit == 0 || len(want) < q.Limit,
			strings.HasPrefix(string(c.ID), q.IDPrefix),
		}, false)
		for key, value := range q.Meta {
			got, ok := c.Meta[key]
			match = match && ok && got == value
		}
		if q.Pinned {
			c.Label = label
		}
		if match {
			want = append(want, c)
		}
	}
	return want
}

// maybe returns one of the values, or the zero value, which selects everything, because few results
// match many conditions.
func maybe[T any](t *rapid.T, field string, values ...T) (x T) {
	if rapid.Bool().Draw(t, "use "+field) {
		x = rapid.SampledFrom(values).Draw(t, field)
	}
	return x
}

// compareQueries runs a random query many times. If SEGNO_SOAK is set, it runs a hundred times as
// many.
func (m *listModel) compareQueries(query func(t *rapid.T) (found int)) {
	rounds, found := 1, 0
	if soak.IsWhole() {
		rounds = 100
	}
	for range rounds {
		m.random(func(t *rapid.T) { found += query(t) })
	}
	if found == 0 {
		m.Fatal("all queries returned nothing")
	}
}

func testAnyCheckpointQuery(f *fixture) {
	m := f.newListModel()
	m.compareQueries(func(t *rapid.T) int {
		q := segno.CheckpointQuery{
			Thread:    maybe(t, "thread", "missing", m.threads[0].ID, m.threads[1].ID, m.threads[2].ID),
			Session:   maybe(t, "session", segno.SessionID("s2")),
			Leaf:      maybe(t, "leaf", "leaf1"),
			Key:       maybe(t, "key", segno.TurnKey("key1")),
			Workspace: maybe(t, "workspace", segno.WorkspaceID("w1")),
			Step:      maybe(t, "step", 1, 9, 1<<40),
			IDPrefix:  maybe(t, "prefix", "turn-1", "base"),
			Limit:     maybe(t, "limit", 1, 2, 7),
			Pinned:    maybe(t, "pinned", true),
			Meta: maybe(t, "meta", pairs{}, pairs{"source": "loop"}, pairs{"source": "loop", "n": "1"}, unusualMeta(), pairs{"a\x00b": "\xff"},
				pairs{"": ""}, pairs{"source": "loo"}, pairs{"sourc": "loop"}, pairs{"SOURCE": "loop"}, pairs{"source": ""}, pairs{"%": "%"},
				pairs{"": "", "missing": ""}),
		}
		if q.Thread != "" {
			q.Before = maybe(t, "before", int64(1), 4, 9, 99)
		}
		want := m.expected(q)
		f.same(fmt.Sprintf("%.300v", q), f.checkpoints(q), want)
		return len(want)
	})
}

func testAnyThreadQuery(f *fixture) {
	m := f.newListModel()
	m.compareQueries(func(t *rapid.T) int {
		q := segno.ThreadQuery{
			ParentThread: maybe(t, "parent", "missing", m.threads[0].ID, m.threads[1].ID, m.threads[2].ID, m.threads[3].ID),
			TopLevel:     maybe(t, "top level", true),
			Workspace:    maybe(t, "workspace", segno.WorkspaceID("w1"), "w3"),
			Session:      maybe(t, "session", segno.SessionID("s1"), "s2", "s9"),
			IDPrefix:     maybe(t, "prefix", "a", "b1", "c"),
			Limit:        maybe(t, "limit", 1, 3),
		}
		var want []segno.Thread
		for _, x := range m.threads {
			if !slices.Contains([]bool{
				q.ParentThread == "" || x.ParentThread == q.ParentThread,
				!q.TopLevel || x.ParentThread == "",
				q.Workspace == "" || x.Workspace == q.Workspace,
				q.Session == "" || m.session[x.ID] == q.Session,
				strings.HasPrefix(string(x.ID), q.IDPrefix),
				q.Limit == 0 || len(want) < q.Limit,
			}, false) {
				want = append(want, x)
			}
		}
		f.same(fmt.Sprintf("%+v", q), all(f, f.store.Threads(f.Context(), q)), want)
		return len(want)
	})
}
