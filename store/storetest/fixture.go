package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fixture is a store or a saver under test and the words to talk about it.
type fixture struct {
	tester
	T       *testing.T
	o       Options
	store   segno.Store // nil for a saver that is on none
	saver   saver.Saver
	reopen  func()
	another func() saver.Saver // beside the saver
	n       int
}

// tester is who is told: the test, or one round of a check by chance.
type tester interface {
	Helper()
	Cleanup(func())
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
}

// check asks prop by chance, over and over, of the same store. A round that fails is
// shrunk, so a property must not mind what earlier rounds left.
func (f *fixture) check(prop func(t *rapid.T)) {
	rapid.Check(f.T, func(t *rapid.T) {
		f.tester = t
		defer func() { f.tester = f.T }()
		prop(t)
	})
}

// onto is a store and the saver on it.
func onto(t *testing.T, s segno.Store, o Options) *fixture {
	f := &fixture{tester: t, T: t, o: o, store: s}
	open := func(s segno.Store) saver.Saver {
		v := saver.New(s)
		v.Now = f.now
		return v
	}
	f.saver = open(s)
	if o.Reopen != nil {
		f.reopen = func() {
			f.store = o.Reopen(t, f.store)
			f.saver = open(f.store)
		}
	}
	if o.Another != nil {
		f.another = func() saver.Saver {
			other := o.Another(t, f.store)
			t.Cleanup(func() {
				if err := other.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			return open(other)
		}
	}
	return f
}

func (f *fixture) close() {
	if f.store == nil {
		return
	}
	if err := f.store.Close(); err != nil {
		f.Errorf("close: %v", err)
	}
}

// now is the time for the store.
func (f *fixture) now() time.Time {
	if f.o.Clock != nil {
		return f.o.Clock.Now()
	}
	return time.Now()
}

// id returns an id that is new in this fixture.
func (f *fixture) id(kind string) string {
	f.n++
	return fmt.Sprintf("%s-%d", kind, f.n)
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("%v", err)
	}
}

// kind wants err to be of a kind.
func (f *fixture) kind(err error, want segno.Kind) {
	f.Helper()
	if err == nil {
		f.Fatalf("no error; want one of kind %q", want)
	}
	if got := segno.KindOf(err); got != want {
		f.Fatalf("the error %q has kind %q; want %q", err, got, want)
	}
}

// same wants two values to be equal; times are equal if they are the same moment.
func (f *fixture) same(what string, got, want any) {
	f.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		f.Fatalf("%s differs (-want +got):\n%s", what, diff)
	}
}

// commit commits c; it must succeed.
func (f *fixture) commit(c segno.Commit) segno.Head {
	f.Helper()
	head, err := f.store.Commit(f.Context(), c)
	f.ok(err)
	return head
}

// thread makes a thread with a base checkpoint.
func (f *fixture) thread() segno.Head {
	f.Helper()
	return f.commit(f.base(segno.ThreadID(f.id("thread")), ""))
}

func (f *fixture) base(id segno.ThreadID, parent segno.CommitID) segno.Commit {
	return segno.Commit{ID: segno.CommitID(f.id("base")), Thread: id, Parent: parent,
		Create:     &segno.Thread{ID: id, Created: epoch, Title: "a title", Agent: "claude", Parent: parent},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: epoch}}
}

// next is a turn on a head.
func (f *fixture) next(head segno.Head) segno.Commit {
	id := f.id("turn")
	body, err := json.Marshal("what was said in " + id)
	f.ok(err)
	return segno.Commit{ID: segno.CommitID(id), Thread: head.Thread, Parent: head.Head, Expect: head.Head, Epoch: head.Epoch,
		Entries:    []segno.Entry{{Kind: segno.EntryMessage, Turn: head.Turn + 1, Time: epoch, Name: "user", Body: body}},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: head.Turn + 1, Time: epoch.Add(time.Duration(f.n) * time.Second), Prompt: id}}
}

// turns commits n turns, each on the one before.
func (f *fixture) turns(head segno.Head, n int) segno.Head {
	f.Helper()
	for range n {
		head = f.commit(f.next(head))
	}
	return head
}

// at is a head whose writer stands somewhere else.
func at(head segno.Head, parent segno.CommitID, c segno.Commit) segno.Commit {
	c.Parent, c.Expect = parent, head.Head
	return c
}

// move is a commit that only moves the pointers.
func (f *fixture) move(head segno.Head, to, tip segno.CommitID) segno.Commit {
	return segno.Commit{ID: segno.CommitID(f.id("move")), Thread: head.Thread, Expect: head.Head, Epoch: head.Epoch,
		Move: &segno.Move{Head: to, Tip: tip}}
}

func (f *fixture) head(thread segno.ThreadID) segno.Head {
	f.Helper()
	head, err := f.store.Head(f.Context(), thread)
	f.ok(err)
	return head
}

// load loads a whole line with its entries.
func (f *fixture) load(at segno.CommitID) []segno.Node {
	f.Helper()
	line, err := f.store.Load(f.Context(), at, segno.Window{Entries: true})
	f.ok(err)
	return line.Commits
}

// path is the ids of a line.
func (f *fixture) path(at segno.CommitID, last int) (ids []segno.CommitID) {
	f.Helper()
	line, err := f.store.Load(f.Context(), at, segno.Window{Last: last})
	f.ok(err)
	for _, n := range line.Commits {
		ids = append(ids, n.ID)
	}
	return ids
}

// list collects a query's answer.
func (f *fixture) list(q segno.CheckpointQuery) (found []segno.Checkpoint) {
	f.Helper()
	for c, err := range f.store.Checkpoints(f.Context(), q) {
		f.ok(err)
		found = append(found, c)
	}
	return found
}

// listed is the ids a query answers with.
func (f *fixture) listed(q segno.CheckpointQuery) (ids []segno.CommitID) {
	f.Helper()
	for _, c := range f.list(q) {
		ids = append(ids, c.ID)
	}
	return ids
}

func (f *fixture) threads(q segno.ThreadQuery) (ids []segno.ThreadID) {
	f.Helper()
	for t, err := range f.store.Threads(f.Context(), q) {
		f.ok(err)
		ids = append(ids, t.ID)
	}
	return ids
}

// stage puts objects into a batch of their own.
func (f *fixture) stage(data ...string) segno.Staged {
	f.Helper()
	b := f.store.Objects().Batch()
	defer b.Close()
	for _, d := range data {
		_, err := b.Put(f.Context(), []byte(d))
		f.ok(err)
	}
	staged, err := b.Stage(f.Context())
	f.ok(err)
	return staged
}

func (f *fixture) has(data string) bool {
	f.Helper()
	ok, err := f.store.Objects().Has(f.Context(), name(data))
	f.ok(err)
	return ok
}

func name(data string) segno.Hash { return segno.HashOf([]byte(data)) }

// A tree in these tests is an object that lists the names of others, one a line.
const treeMark = "tree\n"

func tree(data ...string) string {
	text := treeMark
	for _, d := range data {
		text += name(d).String() + "\n"
	}
	return text
}

// trace follows trees, as a workspace's Trace does.
func trace(ctx context.Context, o segno.Objects, c segno.Checkpoint, visit func(segno.Hash) bool) error {
	root := c.Tree()
	if root.IsZero() || !visit(root) {
		return nil
	}
	data, err := o.Get(ctx, root)
	if err != nil {
		return err
	}
	list, ok := strings.CutPrefix(string(data), treeMark)
	if !ok {
		return nil
	}
	for line := range strings.Lines(list) {
		h, err := segno.ParseHash(strings.TrimSpace(line))
		if err != nil {
			return err
		}
		visit(h)
	}
	return nil
}

// sound wants a store that can check itself to find nothing.
func (f *fixture) sound() {
	f.Helper()
	k, ok := f.store.(segno.Checker)
	if !ok || f.Failed() {
		return
	}
	_, err := k.Check(f.Context(), segno.CheckPolicy{Trace: trace}, func(err error) bool {
		f.Errorf("check: %v", err)
		return true
	})
	if err != nil && segno.KindOf(err) != segno.KindInvalid { // a clause may have closed it
		f.Errorf("check: %v", err)
	}
}

// conflict wants err to be a lost race, and returns the head that won.
func (f *fixture) conflict(err error) segno.Head {
	f.Helper()
	f.kind(err, segno.KindConflict)
	var c *segno.ConflictError
	if !errors.As(err, &c) {
		f.Fatalf("the error %q carries no ConflictError", err)
	}
	return c.Actual
}
