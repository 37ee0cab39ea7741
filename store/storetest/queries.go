package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"pgregory.net/rapid"
)

type pairs = map[string]string

// listModel fills a store and has the expected content of its lists, newest first.
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

// unusualMeta has keys and values with bytes that databases give a meaning to.
func unusualMeta() pairs {
	return pairs{"": "", "a\x00b": "\xff", "'; --": "%", "é": strings.Repeat("v", 1<<10), "$.a": `{"b":1}`}
}

func (m *listModel) addCheckpoint() {
	i := m.pick(len(m.threads))
	t := m.threads[i]
	head := m.head(t.ID)
	c := m.turn(head)
	c.Checkpoint.Time = epoch.Add(time.Duration(m.pick(7)-3) * time.Hour) // the order of a list does not depend on it
	c.Checkpoint.Step = []int{0, 1, 2, 1 << 40}[m.pick(4)]
	c.Checkpoint.Meta = []pairs{nil, {"source": "input"}, {"source": "loop"}, {"source": "loop", "n": "1"}, {"n": "1"}, unusualMeta()}[m.pick(6)]
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

// combinations calls visit with samples of all index combinations, and in a soak with all of them. An
// index is at least 0 and less than its size.
func combinations(f *fixture, sizes []int, visit func(at []int)) {
	if !soak() {
		f.random(func(t *rapid.T) {
			at := make([]int, len(sizes))
			for i, n := range sizes {
				if rapid.Bool().Draw(t, "use") { // index 0 selects everything: few results match many conditions
					at[i] = rapid.IntRange(0, n-1).Draw(t, fmt.Sprint("index ", i))
				}
			}
			visit(at)
		})
		return
	}
	at := make([]int, len(sizes))
	for i := 0; i < len(at); {
		if i == 0 {
			visit(at)
		}
		if at[i]++; at[i] < sizes[i] {
			i = 0
			continue
		}
		at[i] = 0
		i++
	}
}

func testAnyCheckpointQuery(f *fixture) {
	m := f.newListModel()
	threads, sessions := []segno.ThreadID{"", "missing", m.threads[0].ID}, []segno.SessionID{"", "s2"}
	leaves, keys, workspaces := []string{"", "leaf1"}, []segno.TurnKey{"", "key1"}, []segno.WorkspaceID{"", "w1"}
	steps, befores, limits := []int{0, 1, 1 << 40}, []int64{0, 4, 9}, []int{0, 2}
	metas := []pairs{nil, {}, {"source": "loop"}, {"source": "loop", "n": "1"}, unusualMeta(), {"a\x00b": "\xff"}, {"": ""}, {"source": "loo"},
		{"sourc": "loop"}, {"SOURCE": "loop"}, {"source": ""}, {"%": "%"}, {"": "", "missing": ""}}
	prefixes, pinned := []string{"", "turn-1"}, []bool{false, true}
	found := 0
	sizes := []int{len(threads), len(sessions), len(leaves), len(keys), len(workspaces), len(steps), len(metas), len(prefixes), len(befores), len(limits), 2}
	combinations(f, sizes, func(at []int) {
		q := segno.CheckpointQuery{Thread: threads[at[0]], Session: sessions[at[1]], Leaf: leaves[at[2]], Key: keys[at[3]], Workspace: workspaces[at[4]],
			Step: steps[at[5]], Meta: metas[at[6]], IDPrefix: prefixes[at[7]], Before: befores[at[8]], Limit: limits[at[9]], Pinned: pinned[at[10]]}
		if q.Thread == "" {
			q.Before = 0
		}
		want := m.expected(q)
		f.same(fmt.Sprintf("%.300v", q), f.checkpoints(q), want)
		found += len(want)
	})
	if found == 0 {
		f.Fatal("no query returned a checkpoint")
	}
}

func testAnyThreadQuery(f *fixture) {
	m := f.newListModel()
	parents := []segno.ThreadID{"", "missing"}
	for _, t := range m.threads {
		parents = append(parents, t.ID)
	}
	workspaces, sessions := []segno.WorkspaceID{"", "w1", "w3"}, []segno.SessionID{"", "s1", "s2", "s9"}
	prefixes, limits := []string{"", "a", "b1", "c"}, []int{0, 1, 3}
	combinations(f, []int{len(parents), 2, len(workspaces), len(sessions), len(prefixes), len(limits)}, func(at []int) {
		q := segno.ThreadQuery{ParentThread: parents[at[0]], TopLevel: at[1] == 1, Workspace: workspaces[at[2]], Session: sessions[at[3]],
			IDPrefix: prefixes[at[4]], Limit: limits[at[5]]}
		var want []segno.Thread
		for _, t := range m.threads {
			if !slices.Contains([]bool{
				q.ParentThread == "" || t.ParentThread == q.ParentThread,
				!q.TopLevel || t.ParentThread == "",
				q.Workspace == "" || t.Workspace == q.Workspace,
				q.Session == "" || m.session[t.ID] == q.Session,
				strings.HasPrefix(string(t.ID), q.IDPrefix),
				q.Limit == 0 || len(want) < q.Limit,
			}, false) {
				want = append(want, t)
			}
		}
		f.same(fmt.Sprintf("%+v", q), all(f, f.store.Threads(f.Context(), q)), want)
	})
}
