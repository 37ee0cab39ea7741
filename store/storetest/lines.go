package storetest

import (
	"slices"

	"github.com/dalsegno/segno"
	"pgregory.net/rapid"
)

// lineTests test the ancestors of a commit.
var lineTests = []test{
	{"what a load returns", "a line has the commit and its ancestors, oldest first, with entries on request", func(f *fixture) {
		head := f.newThread()
		c := f.turn(head)
		f.commit(c)
		n := f.load(c.ID)
		want := *c.Checkpoint
		want.ID, want.Thread, want.Parent, want.Seq = c.ID, c.Thread, c.Parent, 2
		f.same("the newest", n[1], segno.Node{ID: c.ID, Thread: c.Thread, Parent: c.Parent, Seq: 2, Checkpoint: &want, Entries: c.Entries})
		f.same("the parent of the root", n[0].Parent, segno.CommitID(""))
		line := returned(f.store.Load(f.Context(), c.ID, segno.Window{})).ok(f)
		f.same("entries that the window omits", line.Commits[1].Entries, []segno.Entry(nil))
		f.kind(f.loadErr("missing"), segno.KindNotFound)
		f.kind(f.loadErr(""), segno.KindNotFound)
		f.kind(errOf(f.store.Load(f.Context(), c.ID, segno.Window{Last: -1})), segno.KindInvalid)
	}},
	{"a deleted thread", "a deleted thread is not found; commits that a fork reaches stay", func(f *fixture) {
		head := f.turns(f.newThread(), 3)
		line := f.line(head.Head, 0)
		fork := f.commit(f.base("fork", line[2]))
		f.ok(f.store.Delete(f.Context(), head.Thread))
		for _, err := range []error{
			errOf(f.store.Head(f.Context(), head.Thread)),
			f.commitErr(f.turn(head)),
			f.store.Delete(f.Context(), head.Thread),
		} {
			f.kind(err, segno.KindNotFound)
		}
		f.same("its checkpoints", f.find(segno.CheckpointQuery{Thread: head.Thread}), []segno.CommitID(nil))
		f.same("all checkpoints", f.find(segno.CheckpointQuery{}), []segno.CommitID{fork.Head})
		f.same("the threads", f.threads(segno.ThreadQuery{}), []segno.ThreadID{"fork"})
		f.same("the line of the fork", f.line(fork.Head, 0), append(line[:3:3], fork.Head))
		back := f.commit(f.move(fork, line[1], fork.Tip))
		f.same("an undo in the fork into the deleted thread", f.line(back.Head, 0), line[:2])
	}},
	{"any history", "after random commits, moves and forks every line is that of a model", func(f *fixture) {
		f.random(func(t *rapid.T) {
			m := &lineModel{fixture: f, t: t, commits: map[segno.CommitID]segno.Commit{}, byThread: map[segno.ThreadID][]segno.CommitID{}}
			m.fork("")
			for range rapid.IntRange(1, 40).Draw(t, "steps") {
				switch rapid.IntRange(0, 5).Draw(t, "operation") {
				case 0:
					m.fork(m.pick())
				case 1:
					m.undo()
				case 2:
					m.grow(m.pick())
				default:
					m.grow(m.pickHead().Head)
				}
			}
			for range 3 {
				m.compare(m.pick(), rapid.IntRange(0, 12).Draw(t, "last"))
			}
			for _, h := range m.heads {
				m.same("a head", m.head(h.Thread), *h)
				m.same("the checkpoints of a thread", m.find(segno.CheckpointQuery{Thread: h.Thread}), m.byThread[h.Thread])
				m.compare(h.Head, 0)
			}
		})
	}},
}

// lineModel holds the expected threads and lines.
type lineModel struct {
	*fixture
	t        *rapid.T
	heads    []*segno.Head
	nodes    []segno.CommitID
	commits  map[segno.CommitID]segno.Commit
	byThread map[segno.ThreadID][]segno.CommitID // newest first
}

func (m *lineModel) pick() segno.CommitID { return rapid.SampledFrom(m.nodes).Draw(m.t, "commit") }

func (m *lineModel) pickHead() *segno.Head { return rapid.SampledFrom(m.heads).Draw(m.t, "thread") }

func (m *lineModel) add(c segno.Commit) {
	m.nodes = append(m.nodes, c.ID)
	m.commits[c.ID] = c
	if c.Checkpoint != nil {
		m.byThread[c.Thread] = append([]segno.CommitID{c.ID}, m.byThread[c.Thread]...)
	}
}

func (m *lineModel) fork(parent segno.CommitID) {
	c := m.base(segno.ThreadID(m.id("thread")), parent)
	head := m.commit(c)
	m.heads = append(m.heads, &head)
	m.add(c)
}

func (m *lineModel) grow(parent segno.CommitID) {
	head := m.pickHead()
	c := after(*head, parent, m.turn(*head))
	if rapid.IntRange(0, 4).Draw(m.t, "without a checkpoint") == 0 {
		c.Checkpoint = nil
	}
	*head = m.commit(c)
	m.add(c)
}

func (m *lineModel) undo() {
	head := m.pickHead()
	if parent := m.commits[head.Head].Parent; parent != "" {
		*head = m.commit(m.move(*head, parent, head.Tip))
	}
}

func (m *lineModel) compare(id segno.CommitID, last int) {
	var want []segno.Node
	for id := id; id != "" && (last == 0 || len(want) < last); id = m.commits[id].Parent {
		c := m.commits[id]
		want = append(want, segno.Node{ID: id, Thread: c.Thread, Parent: c.Parent, Entries: c.Entries})
	}
	slices.Reverse(want)
	line, err := m.store.Load(m.Context(), id, segno.Window{Last: last, Entries: true})
	m.ok(err)
	for i := range line.Commits {
		n := &line.Commits[i]
		m.same("whether it has a checkpoint", n.Checkpoint != nil, m.commits[n.ID].Checkpoint != nil)
		n.Seq, n.Checkpoint = 0, nil
	}
	m.same("the line", line.Commits, want)
}
