package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fixture is the store or saver under test, with helper methods. A method fails the test if a call
// returns an error.
type fixture struct {
	tester
	T           *testing.T
	o           Options
	store       segno.Store // nil for a saver without a store
	saver       saver.Saver
	reopen      func()             // closes and opens store and saver again
	another     func() saver.Saver // opens a second saver of the same data
	hideWatcher bool
	n           int // the number of ids so far
}

// tester is the part of testing.TB that both *testing.T and *rapid.T have.
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

// random runs a property with random input, on the same store each time. A failed round is repeated
// with simpler input, so the property must not depend on data that earlier rounds stored.
func (f *fixture) random(property func(t *rapid.T)) {
	rapid.Check(f.T, func(t *rapid.T) {
		f.tester = t
		defer func() { f.tester = f.T }()
		property(t)
	})
}

// newFixture returns a fixture for a store and a saver on it.
func newFixture(t *testing.T, s segno.Store, o Options) *fixture {
	f := &fixture{tester: t, T: t, o: o, store: s}
	f.saver = f.saverOn(s)
	if o.Reopen != nil {
		f.reopen = func() {
			f.store = o.Reopen(t, f.store)
			f.saver = f.saverOn(f.store)
		}
	}
	if o.Another != nil {
		f.another = func() saver.Saver { return f.saverOn(f.secondStore()) }
	}
	return f
}

func (f *fixture) saverOn(s segno.Store) saver.Saver {
	v := saver.New(s)
	v.Now = f.now
	return v
}

// secondStore opens the store a second time; the end of the test closes it.
func (f *fixture) secondStore() segno.Store {
	other := f.o.Another(f.T, f.store)
	f.T.Cleanup(func() { f.ok(other.Close()) })
	return other
}

func (f *fixture) close() {
	if f.store != nil {
		f.ok(f.store.Close())
	}
}

// now returns the time of the store's clock.
func (f *fixture) now() time.Time {
	if f.o.Clock != nil {
		return f.o.Clock.Now()
	}
	return time.Now()
}

// advance moves the clock, if the test has one.
func (f *fixture) advance(d time.Duration) {
	if f.o.Clock != nil {
		f.o.Clock.Advance(d)
	}
}

// id returns an id that this fixture has not used.
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

// outcome is the result of a call.
type outcome[T any] struct {
	value T
	err   error
}

func returned[T any](value T, err error) outcome[T] { return outcome[T]{value, err} }

// ok fails the test if the call returned an error, and returns its value.
func (r outcome[T]) ok(f *fixture) T {
	f.Helper()
	f.ok(r.err)
	return r.value
}

// kind fails the test unless err has the kind want.
func (f *fixture) kind(err error, want segno.Kind) {
	f.Helper()
	if err == nil {
		f.Fatalf("no error; want kind %q", want)
	}
	if got := segno.KindOf(err); got != want {
		f.Fatalf("error %q has kind %q; want %q", err, got, want)
	}
}

// conflict fails the test unless err is a lost compare-and-swap, and returns the actual head.
func (f *fixture) conflict(err error) segno.Head {
	f.Helper()
	f.kind(err, segno.KindConflict)
	var c *segno.ConflictError
	if !errors.As(err, &c) {
		f.Fatalf("error %q has no ConflictError", err)
	}
	return c.Actual
}

// same fails the test unless got equals want. Times are equal if they denote the same moment.
func (f *fixture) same(what string, got, want any) {
	f.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		f.Fatalf("%s differs (-want +got):\n%s", what, diff)
	}
}

// errOf drops the value of a call and returns its error.
func errOf[T any](_ T, err error) error { return err }

// lastErr reads a list to its end and returns the last error.
func lastErr[T any](list iter.Seq2[T, error]) (last error) {
	for _, err := range list {
		last = err
	}
	return last
}

// all reads a list that must not fail.
func all[T any](f *fixture, list iter.Seq2[T, error]) []T {
	f.Helper()
	return returned(readList(list)).ok(f)
}

// readList reads a list to its end or to its first error.
func readList[T any](list iter.Seq2[T, error]) (found []T, err error) {
	for x, err := range list {
		if err != nil {
			return nil, err
		}
		found = append(found, x)
	}
	return found, nil
}

// race calls try(k) concurrently for each k below n. Exactly one call must succeed; race returns its
// result. All others must fail with KindConflict; race returns their errors.
func race[T any](f *fixture, n int, try func(k int) (T, error)) (T, []error) {
	f.Helper()
	var mu sync.Mutex
	var won []T
	var lost []error
	var group sync.WaitGroup
	for k := range n {
		group.Go(func() {
			got, err := try(k)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				lost = append(lost, err)
			} else {
				won = append(won, got)
			}
		})
	}
	group.Wait()
	if len(won) != 1 {
		f.Fatalf("%d of %d writers succeeded; errors: %v", len(won), n, errors.Join(lost...))
	}
	for _, err := range lost {
		f.kind(err, segno.KindConflict)
	}
	return won[0], lost
}

// allocated returns how many bytes the process allocates while do runs.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func (f *fixture) commit(c segno.Commit) segno.Head {
	f.Helper()
	return returned(f.store.Commit(f.Context(), c)).ok(f)
}

func (f *fixture) commitErr(c segno.Commit) error { return errOf(f.store.Commit(f.Context(), c)) }

// newThread creates a thread with a base checkpoint.
func (f *fixture) newThread() segno.Head {
	f.Helper()
	return f.commit(f.base(segno.ThreadID(f.id("thread")), ""))
}

// base returns a commit that creates a thread.
func (f *fixture) base(id segno.ThreadID, parent segno.CommitID) segno.Commit {
	return segno.Commit{ID: segno.CommitID(f.id("base")), Thread: id, Parent: parent,
		Create:     &segno.Thread{ID: id, Created: epoch, Title: "a title", Agent: "claude", Parent: parent},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: epoch}}
}

// turn returns a commit of a turn that follows a head.
func (f *fixture) turn(head segno.Head) segno.Commit {
	id := f.id("turn")
	body := returned(json.Marshal("the message of " + id)).ok(f)
	at := epoch.Add(time.Duration(f.n) * time.Second)
	return segno.Commit{ID: segno.CommitID(id), Thread: head.Thread, Parent: head.Head, Expect: head.Head, Epoch: head.Epoch,
		Entries:    []segno.Entry{{Kind: segno.EntryMessage, Turn: head.Turn + 1, Time: epoch, Name: "user", Body: body}},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: head.Turn + 1, Time: at, Prompt: id}}
}

// step returns a commit of a Go agent's step that follows a head.
func (f *fixture) step(head segno.Head, entries ...segno.Entry) segno.Commit {
	c := f.turn(head)
	c.Checkpoint.Kind, c.Checkpoint.Agent, c.Checkpoint.Step = segno.CheckpointStep, "agent", 1
	c.Entries = append(c.Entries, entries...)
	return c
}

// files returns a turn with a workspace snapshot of these files.
func (f *fixture) files(head segno.Head, files ...string) segno.Commit {
	f.Helper()
	c := f.turn(head)
	c.Staged = f.stage(append(files, tree(files...))...)
	c.Checkpoint.Workspace = &segno.Snapshot{Workspace: "w", Tree: hash(tree(files...))}
	return c
}

// turns commits n turns.
func (f *fixture) turns(head segno.Head, n int) segno.Head {
	f.Helper()
	for range n {
		head = f.commit(f.turn(head))
	}
	return head
}

// after sets the parent of c, which still expects head.
func after(head segno.Head, parent segno.CommitID, c segno.Commit) segno.Commit {
	c.Parent, c.Expect = parent, head.Head
	return c
}

// amends makes c an amendment of the newest checkpoint, which follows parent.
func amends(head segno.Head, parent segno.CommitID, c segno.Commit) segno.Commit {
	c = after(head, parent, c)
	c.Checkpoint.Turn, c.Checkpoint.Amends = head.Turn, head.Head
	return c
}

// move returns a commit that only moves the thread's pointers.
func (f *fixture) move(head segno.Head, to, tip segno.CommitID) segno.Commit {
	return segno.Commit{ID: segno.CommitID(f.id("move")), Thread: head.Thread, Expect: head.Head, Epoch: head.Epoch,
		Move: &segno.Move{Head: to, Tip: tip}}
}

// pin returns a commit that pins a checkpoint.
func (f *fixture) pin(head segno.Head, id segno.CommitID, name string) segno.Commit {
	c := f.move(head, head.Head, head.Tip)
	c.Pin = &segno.Pin{Checkpoint: id, Name: name}
	return c
}

func (f *fixture) head(thread segno.ThreadID) segno.Head {
	f.Helper()
	return returned(f.store.Head(f.Context(), thread)).ok(f)
}

// load loads a whole line with its entries.
func (f *fixture) load(id segno.CommitID) []segno.Node {
	f.Helper()
	line := returned(f.store.Load(f.Context(), id, segno.Window{Entries: true})).ok(f)
	return line.Commits
}

func (f *fixture) loadErr(id segno.CommitID) error {
	return errOf(f.store.Load(f.Context(), id, segno.Window{}))
}

// line returns the ids of the last commits of a line; last is their number, 0 means all.
func (f *fixture) line(id segno.CommitID, last int) (ids []segno.CommitID) {
	f.Helper()
	line := returned(f.store.Load(f.Context(), id, segno.Window{Last: last})).ok(f)
	for _, n := range line.Commits {
		ids = append(ids, n.ID)
	}
	return ids
}

// checkpoints returns the checkpoints that q selects.
func (f *fixture) checkpoints(q segno.CheckpointQuery) []segno.Checkpoint {
	f.Helper()
	return all(f, f.store.Checkpoints(f.Context(), q))
}

// find returns the ids of the checkpoints that q selects.
func (f *fixture) find(q segno.CheckpointQuery) (ids []segno.CommitID) {
	f.Helper()
	for _, c := range f.checkpoints(q) {
		ids = append(ids, c.ID)
	}
	return ids
}

// threads returns the ids of the threads that q selects.
func (f *fixture) threads(q segno.ThreadQuery) (ids []segno.ThreadID) {
	f.Helper()
	for _, t := range all(f, f.store.Threads(f.Context(), q)) {
		ids = append(ids, t.ID)
	}
	return ids
}

// joined returns all ids in one string.
func joined[ID ~string](ids []ID) string {
	text := make([]string, len(ids))
	for i, id := range ids {
		text[i] = string(id)
	}
	return strings.Join(text, " ")
}

// stage puts objects into a new batch.
func (f *fixture) stage(data ...string) segno.Staged {
	f.Helper()
	b := f.store.Objects().Batch()
	defer b.Close()
	for _, d := range data {
		f.ok(errOf(b.Put(f.Context(), []byte(d))))
	}
	return returned(b.Stage(f.Context())).ok(f)
}

// keep stores objects that no commit refers to.
func (f *fixture) keep(data ...string) {
	f.Helper()
	f.ok(f.store.Objects().Keep(f.Context(), f.stage(data...)))
}

func (f *fixture) has(data string) bool {
	f.Helper()
	return returned(f.store.Objects().Has(f.Context(), hash(data))).ok(f)
}

// present fails the test unless the store has these objects.
func (f *fixture) present(data ...string) {
	f.Helper()
	for _, d := range data {
		got := returned(f.store.Objects().Get(f.Context(), hash(d))).ok(f)
		if !f.has(d) || string(got) != d {
			f.Fatalf("an object of %d bytes is missing or different", len(d))
		}
	}
}

// missing fails the test if the store has one of these objects.
func (f *fixture) missing(data ...string) {
	f.Helper()
	for _, d := range data {
		if f.has(d) {
			f.Fatalf("the object %.40q exists", d)
		}
		f.kind(errOf(f.store.Objects().Get(f.Context(), hash(d))), segno.KindNotFound)
	}
}

func hash(data string) segno.Hash { return segno.HashOf([]byte(data)) }

// noise returns text that hardly compresses. It returns the same text in each call.
func noise(n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	var b strings.Builder
	b.Grow(n + 64)
	for h := hash("noise"); b.Len() < n; h = segno.HashOf(h[:]) {
		for _, x := range h {
			b.WriteByte(letters[x%64])
		}
	}
	return b.String()[:n]
}

// A tree in these tests is an object that lists the names of other objects, one per line.
const treeMark = "tree\n"

func tree(data ...string) string {
	text := treeMark
	for _, d := range data {
		text += hash(d).String() + "\n"
	}
	return text
}

// trace visits the objects of a tree, as a workspace's Trace does.
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

// check runs the store's own check if the store is a [segno.Checker].
func (f *fixture) check() {
	f.Helper()
	k, ok := f.store.(segno.Checker)
	if !ok || f.Failed() {
		return
	}
	_, err := k.Check(f.Context(), segno.CheckPolicy{Trace: trace}, func(err error) bool {
		f.Errorf("check: %v", err)
		return true
	})
	if err != nil && segno.KindOf(err) != segno.KindInvalid { // the test may have closed the store
		f.Errorf("check: %v", err)
	}
}
