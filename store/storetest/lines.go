package storetest

import (
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
	"pgregory.net/rapid"
)

func lines() []clause {
	return []clause{
		{"what a load returns", "a line is a commit and its ancestors, oldest first, with all that was committed", whatALoadReturns},
		{"windows", "a window counts from the newest", windows},
		{"an abandoned line", "a line holds nothing of another: after an undo and a new turn the old turns are not in it", anAbandonedLine},
		{"many lines from one point", "any number of lines may begin at one commit", manyLinesFromOnePoint},
		{"forks of forks", "a fork's line goes on through the threads above it", forksOfForks},
		{"a deleted thread", "deleting a thread hides it; what a fork reaches stays", aDeletedThread},
		{"nothing there", "loading what is not there is not found", nothingThere},
		{"any history", "whatever is committed, moved and forked, each line is what an oracle says", oracle},
	}
}

// oracle drives a store by chance and compares every line with one kept by hand.
func oracle(f *fixture) {
	round := 0
	f.check(func(t *rapid.T) {
		round++
		m := &model{fixture: f, t: t, round: round, parent: map[segno.CommitID]segno.CommitID{}}
		m.fork("")
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				m.fork(m.any("fork at"))
			case 1:
				m.undo()
			case 2:
				m.grow(m.any("a line from"))
			default:
				m.grow(m.thread().Head)
			}
		}
		for range 3 {
			m.compare(m.any("load"), rapid.IntRange(0, 12).Draw(t, "last"))
		}
		for _, h := range m.heads {
			m.same("a head", m.head(h.Thread), *h)
			m.same("a thread's checkpoints", m.listed(segno.CheckpointQuery{Thread: h.Thread}), m.of[h.Thread])
		}
	})
}

type model struct {
	*fixture
	t      *rapid.T
	round  int
	heads  []*segno.Head
	nodes  []segno.CommitID
	parent map[segno.CommitID]segno.CommitID
	of     map[segno.ThreadID][]segno.CommitID // newest first
}

func (m *model) any(label string) segno.CommitID {
	return m.nodes[rapid.IntRange(0, len(m.nodes)-1).Draw(m.t, label)]
}

func (m *model) thread() *segno.Head {
	return m.heads[rapid.IntRange(0, len(m.heads)-1).Draw(m.t, "thread")]
}

func (m *model) add(id, parent segno.CommitID, thread segno.ThreadID) {
	if m.of == nil {
		m.of = map[segno.ThreadID][]segno.CommitID{}
	}
	m.nodes = append(m.nodes, id)
	m.parent[id] = parent
	m.of[thread] = append([]segno.CommitID{id}, m.of[thread]...)
}

func (m *model) fork(parent segno.CommitID) {
	c := m.base(segno.ThreadID(m.id(fmt.Sprint("thread of round ", m.round))), parent)
	head := m.commit(c)
	m.heads = append(m.heads, &head)
	m.add(c.ID, parent, c.Thread)
}

func (m *model) grow(parent segno.CommitID) {
	head := m.heads[rapid.IntRange(0, len(m.heads)-1).Draw(m.t, "writer")]
	c := at(*head, parent, m.next(*head))
	*head = m.commit(c)
	m.add(c.ID, parent, c.Thread)
}

func (m *model) undo() {
	head := m.thread()
	if up := m.parent[head.Head]; up != "" {
		*head = m.commit(m.move(*head, up, head.Tip))
	}
}

func (m *model) compare(id segno.CommitID, last int) {
	var want []segno.CommitID
	for up := id; up != "" && (last == 0 || len(want) < last); up = m.parent[up] {
		want = append(want, up)
	}
	slices.Reverse(want)
	m.same("the line", m.path(id, last), want)
}

func whatALoadReturns(f *fixture) {
	head := f.thread()
	c := f.next(head)
	head = f.commit(c)
	n := f.load(head.Head)
	want := *c.Checkpoint
	want.ID, want.Thread, want.Parent, want.Seq = c.ID, c.Thread, c.Parent, 2
	f.same("the newest", n[1], segno.Node{ID: c.ID, Thread: c.Thread, Parent: c.Parent, Seq: 2, Checkpoint: &want, Entries: c.Entries})
	f.same("the root's parent", n[0].Parent, segno.CommitID(""))
	line, err := f.store.Load(f.Context(), head.Head, segno.Window{})
	f.ok(err)
	f.same("entries nobody asked for", line.Commits[1].Entries, []segno.Entry(nil))
}

func windows(f *fixture) {
	head := f.turns(f.thread(), 9)
	all := f.path(head.Head, 0)
	for last := range 14 {
		want := all
		if last > 0 {
			want = all[max(0, len(all)-last):]
		}
		f.same(fmt.Sprintf("the last %d", last), f.path(head.Head, last), want)
	}
	_, err := f.store.Load(f.Context(), head.Head, segno.Window{Last: -1})
	f.kind(err, segno.KindInvalid)
}

func anAbandonedLine(f *fixture) {
	head := f.turns(f.thread(), 4)
	old := f.path(head.Head, 0)
	head = f.commit(f.move(head, old[2], head.Tip))
	head = f.turns(head, 2)
	now := f.path(head.Head, 0)
	f.same("the shared part", now[:3], old[:3])
	if len(now) != 5 || slices.Contains(now, old[3]) || slices.Contains(now, old[4]) {
		f.Fatalf("the new line is %v; the old one %v", now, old)
	}
	f.same("the old line", f.path(old[4], 0), old)
}

func manyLinesFromOnePoint(f *fixture) {
	head := f.turns(f.thread(), 2)
	root := f.path(head.Head, 0)
	for range 6 {
		head = f.commit(at(head, root[1], f.next(head)))
		head = f.turns(head, 1)
		f.same("a line's beginning", f.path(head.Head, 0)[:2], root[:2])
		f.same("a line's length", len(f.path(head.Head, 0)), 4)
	}
}

func forksOfForks(f *fixture) {
	head := f.turns(f.thread(), 2)
	want := f.path(head.Head, 0)
	for depth := range 12 {
		fork := f.commit(f.base(segno.ThreadID(fmt.Sprint("fork ", depth)), head.Head))
		want = append(want, fork.Head)
		f.turns(head, 1) // the thread above goes on
		head = f.turns(fork, 1)
		want = append(want, head.Head)
		f.same("the line", f.path(head.Head, 0), want)
		f.same("its end", f.path(head.Head, 3), want[len(want)-3:])
	}
	got := f.load(head.Head)
	f.same("the thread of the oldest", got[0].Thread, segno.ThreadID("thread-1"))
	f.same("the thread of the newest", got[len(got)-1].Thread, segno.ThreadID("fork 11"))
}

func aDeletedThread(f *fixture) {
	head := f.turns(f.thread(), 3)
	want := f.path(head.Head, 2)
	line := f.path(head.Head, 0)
	fork := f.commit(f.base("fork", want[0]))
	f.ok(f.store.Delete(f.Context(), head.Thread))
	_, err := f.store.Head(f.Context(), head.Thread)
	f.kind(err, segno.KindNotFound)
	_, err = f.store.Commit(f.Context(), f.next(head))
	f.kind(err, segno.KindNotFound)
	f.kind(f.store.Delete(f.Context(), head.Thread), segno.KindNotFound)
	f.same("its checkpoints", f.listed(segno.CheckpointQuery{Thread: head.Thread}), []segno.CommitID(nil))
	f.same("all checkpoints", f.listed(segno.CheckpointQuery{}), []segno.CommitID{fork.Head})
	f.same("the threads", f.threads(segno.ThreadQuery{}), []segno.ThreadID{"fork"})
	f.same("the fork's line", f.path(fork.Head, 0), append(line[:3:3], fork.Head))
	back := f.commit(f.move(fork, line[1], fork.Tip))
	f.same("a fork undone into the deleted thread", f.path(back.Head, 0), line[:2])
}

func nothingThere(f *fixture) {
	_, err := f.store.Load(f.Context(), "nobody", segno.Window{})
	f.kind(err, segno.KindNotFound)
	_, err = f.store.Load(f.Context(), "", segno.Window{})
	f.kind(err, segno.KindNotFound)
}
