package storetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
	"pgregory.net/rapid"
)

// at loads one checkpoint.
func (f *fixture) at(a saver.ThreadKey, id segno.CommitID) saver.Snapshot {
	f.Helper()
	return returned(f.saver.(Traveler).At(f.Context(), a, id)).ok(f)
}

func (f *fixture) atErr(a saver.ThreadKey, id segno.CommitID) error {
	return errOf(f.saver.(Traveler).At(f.Context(), a, id))
}

func (f *fixture) history(a saver.ThreadKey, q segno.CheckpointQuery) []segno.Checkpoint {
	f.Helper()
	return all(f, f.saver.(Traveler).History(f.Context(), a, q))
}

func (f *fixture) historyIDs(a saver.ThreadKey, q segno.CheckpointQuery) (ids []segno.CommitID) {
	f.Helper()
	for _, c := range f.history(a, q) {
		ids = append(ids, c.ID)
	}
	return ids
}

// newestFirst returns the ids of checkpoints in the order of a history.
func newestFirst(saved ...saver.Snapshot) (ids []segno.CommitID) {
	for _, s := range slices.Backward(saved) {
		ids = append(ids, s.ID)
	}
	return ids
}

func (f *fixture) undo(a saver.ThreadKey, n int) saver.Snapshot {
	f.Helper()
	return returned(f.saver.(Traveler).Undo(f.Context(), a, n)).ok(f)
}

func (f *fixture) redo(a saver.ThreadKey, n int) saver.Snapshot {
	f.Helper()
	return returned(f.saver.(Traveler).Redo(f.Context(), a, n)).ok(f)
}

func (f *fixture) fork(from segno.CommitID, to saver.ThreadKey) saver.Snapshot {
	f.Helper()
	return returned(f.saver.(Traveler).Fork(f.Context(), from, to)).ok(f)
}

func (f *fixture) forkErr(from segno.CommitID, to saver.ThreadKey) error {
	return errOf(f.saver.(Traveler).Fork(f.Context(), from, to))
}

// sameContent fails the test unless got has the content of want. Ids, addresses and times may differ.
func (f *fixture) sameContent(what string, got, want saver.Snapshot) {
	f.Helper()
	want.ThreadKey, want.ID, want.Created, want.Updated = got.ThreadKey, got.ID, got.Created, got.Updated
	f.equal(what, got, want)
}

// historyTests test the older checkpoints of a thread.
var historyTests = []test{
	{"missing checkpoints", "At does not find the checkpoints of other threads; a save after an old one is a conflict", func(f *fixture) {
		saved, other := f.series(f.address(), 2), f.begin(f.address(), "of another thread")
		a := saved[0].ThreadKey
		f.kind(f.atErr(a, "missing"), segno.KindNotFound)
		f.kind(f.atErr(f.address(), saved[0].ID), segno.KindNotFound)
		f.kind(f.atErr(a, other.ID), segno.KindNotFound)
		f.same("the actual head", f.conflict(f.saveErr(with(f.at(a, saved[0].ID), "late"))).Head, saved[1].ID)
		f.remove(a)
		f.kind(f.atErr(a, saved[0].ID), segno.KindNotFound)
		f.same("the history of a deleted thread", f.historyIDs(a, segno.CheckpointQuery{}), []segno.CommitID(nil))
	}},
}

// travelTests move threads to older checkpoints.
var travelTests = []test{
	{"refused moves", "a move beyond the end or to a missing checkpoint is KindNotFound; one to another thread is refused", func(f *fixture) {
		saved, other := f.series(f.address(), 3), f.series(f.address(), 2)
		a, v := saved[0].ThreadKey, f.saver.(Traveler)
		for _, n := range []int{3, 99, 0, -1} {
			f.kind(errOf(v.Undo(f.Context(), a, n)), segno.KindNotFound)
			f.kind(errOf(v.Redo(f.Context(), a, n)), segno.KindNotFound)
		}
		f.kind(errOf(v.Undo(f.Context(), f.address(), 1)), segno.KindNotFound)
		f.kind(errOf(v.Restore(f.Context(), a, "missing")), segno.KindNotFound)
		f.kind(errOf(v.Restore(f.Context(), a, other[0].ID)), segno.KindRefused)
		f.isLatest(saved[2])
	}},
	{"undo of a decision", "undoing a decision opens its question again; the decision stays in the history", func(f *fixture) {
		s := f.asked(1)
		answered := f.save(decided(s, approve(s.Interrupts[0])))
		back := f.undo(s.ThreadKey, 1)
		f.same("the open questions", waiting(back), waiting(s))
		now := f.save(decided(back, segno.Decision{Interrupt: s.Interrupts[0].ID, Kind: segno.Reject}))
		f.same("open questions after another decision", len(waiting(f.latest(s.ThreadKey))), 0)
		f.same("the history", f.historyIDs(s.ThreadKey, segno.CheckpointQuery{}), newestFirst(s, answered, now))
	}},
	{"any journey", "after random saves, undos, redos, restores and forks every thread and checkpoint is that of a model", testJourney},
}

// forkTests begin threads at checkpoints of other threads.
var forkTests = []test{
	{"a fork is a copy", "a fork has the content and step of its checkpoint, is listed, outlives its source, and its saves follow it", func(f *fixture) {
		s := f.save(f.rich(f.address()))
		s = f.save(withMeta(with(s, "two"), map[string]string{"source": "loop"}))
		source := f.save(with(s, "three"))
		fork := f.fork(s.ID, f.address())
		f.sameContent("the fork", fork, s)
		f.isLatest(fork)
		f.same("the newest listed", f.infos("")[0].ID, fork.ID)
		f.exists(fork.ThreadKey, true)
		next := f.save(decided(with(fork, "on the fork"), approve(fork.Interrupts[0])))
		f.same("step, messages and questions of the fork", []int{next.Step, len(next.Messages), len(next.Interrupts)}, []int{3, 4, 0})
		f.same("Created", f.latest(fork.ThreadKey).Created, fork.Created)
		f.isLatest(source)
		f.sameContent("a fork of the fork", f.fork(next.ID, f.address()), next)
		f.remove(s.ThreadKey)
		f.isLatest(next)
	}},
	{"undo in a fork", "an undo in a fork reaches the checkpoints of its source; Created is the time of the fork", func(f *fixture) {
		saved := f.series(f.address(), 3)
		f.advance(time.Hour)
		fork := f.fork(saved[2].ID, f.address())
		back := f.undo(fork.ThreadKey, 2)
		f.same("id and Created", []any{back.ID, back.Created}, []any{saved[1].ID, fork.Created})
		f.sameContent("an ancestor by its id", f.at(fork.ThreadKey, saved[0].ID), saved[0])
		f.save(with(back, "from there"))
		f.same("Created from Load", f.latest(fork.ThreadKey).Created, fork.Created)
		f.same("Created from List", f.infos("")[0].Created, fork.Created)
		f.isLatest(saved[2])
	}},
	{"refused forks", "a fork to an existing thread is a conflict; one of a missing checkpoint is KindNotFound", func(f *fixture) {
		saved, other, fresh := f.series(f.address(), 2), f.begin(f.address(), "other"), f.address()
		f.kind(f.forkErr(saved[0].ID, other.ThreadKey), segno.KindConflict)
		f.isLatest(other)
		f.kind(f.forkErr("missing", fresh), segno.KindNotFound)
		f.notFound(fresh)
		f.remove(f.begin(fresh, "x").ThreadKey)
		f.kind(f.forkErr(saved[0].ID, fresh), segno.KindRefused)
		f.kind(f.forkErr(saved[0].ID, saver.ThreadKey{}), segno.KindInvalid)
		f.same("the number of threads", len(f.addresses("")), 2)
	}},
}

// journey is a random sequence of operations on a saver, with a model of the expected result.
type journey struct {
	*fixture
	t       *rapid.T
	round   int
	threads []*modelThread
	saved   map[segno.CommitID]saver.Snapshot
	parent  map[segno.CommitID]segno.CommitID
}

// modelThread is the expected state of one thread.
type modelThread struct {
	saver.ThreadKey
	head, tip segno.CommitID
	step      int
	history   []segno.CommitID // oldest first
}

func testJourney(f *fixture) {
	round := 0
	f.random(func(t *rapid.T) {
		round++
		j := &journey{fixture: f, t: t, round: round, saved: map[segno.CommitID]saver.Snapshot{}, parent: map[segno.CommitID]segno.CommitID{}}
		j.begin()
		operations := []func(){j.save, j.save, j.save, j.undo, func() { j.redo(j.pick(), j.draw("redo", 4)+1) }, j.restore, j.fork, j.begin}
		for range 1 + j.draw("operations", 9) {
			operations[j.draw("operation", len(operations))]()
		}
		j.compare()
	})
}

// draw returns a random number below n.
func (j *journey) draw(what string, n int) int { return rapid.IntRange(0, n-1).Draw(j.t, what) }

func (j *journey) pick() *modelThread { return j.threads[j.draw("thread", len(j.threads))] }

// newAddress returns the address of a new thread, or of a namespace of the first thread.
func (j *journey) newAddress() saver.ThreadKey {
	if len(j.threads) > 0 && rapid.Bool().Draw(j.t, "namespace") {
		return part(j.threads[0].ThreadKey, fmt.Sprint("part ", len(j.threads)))
	}
	return saver.ThreadKey{Thread: fmt.Sprintf("round %d thread %d", j.round, len(j.threads))}
}

func (j *journey) begin() {
	if len(j.threads) == 3 {
		return
	}
	t := &modelThread{ThreadKey: j.newAddress()}
	j.threads = append(j.threads, t)
	j.saveAfter(t, saver.Snapshot{ThreadKey: t.ThreadKey})
}

func (j *journey) save() {
	t := j.pick()
	j.saveAfter(t, j.latest(t.ThreadKey))
}

// saveAfter saves random changes of s.
func (j *journey) saveAfter(t *modelThread, s saver.Snapshot) {
	before, keep := s.ID, len(s.Messages)
	if rapid.Bool().Draw(j.t, "remove messages") {
		keep = j.draw("keep", keep+1)
	}
	s.Messages = s.Messages[:keep]
	s = with(s, rapid.SliceOfN(rapid.String(), 0, 3).Draw(j.t, "messages")...)
	s.State = maps.Clone(s.State)
	if s.State == nil {
		s.State = map[string]json.RawMessage{}
	}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 2).Draw(j.t, "keys") {
		s.State[key] = json.RawMessage(fmt.Sprint(j.draw("value", 4)))
		if rapid.Bool().Draw(j.t, "delete") {
			delete(s.State, key)
		}
	}
	s.Meta = map[string]string{"m": fmt.Sprint(j.draw("meta", 3))}
	want := s
	s = j.fixture.save(s)
	want.ID, want.Step, want.Created, want.Updated = s.ID, t.step+1, s.Created, s.Updated
	j.equal("the result of Save", s, want)
	j.saved[s.ID], j.parent[s.ID] = want, before
	t.head, t.tip, t.step, t.history = s.ID, s.ID, s.Step, append(t.history, s.ID)
}

// line returns the ids from the root to id.
func (j *journey) line(id segno.CommitID) (ids []segno.CommitID) {
	for ; id != ""; id = j.parent[id] {
		ids = append(ids, id)
	}
	slices.Reverse(ids)
	return ids
}

// moved moves the model and compares the result of the move.
func (j *journey) moved(t *modelThread, got saver.Snapshot, to, tip segno.CommitID) {
	t.head, t.tip, t.step = to, tip, j.saved[to].Step
	j.same("the id", got.ID, to)
	j.sameContent("the result of the move", got, j.saved[to])
}

func (j *journey) undo() {
	t, n := j.pick(), 1+j.draw("undo", 4)
	line := j.line(t.head)
	got, err := j.saver.(Traveler).Undo(j.Context(), t.ThreadKey, n)
	if n >= len(line) {
		j.kind(err, segno.KindNotFound)
		return
	}
	j.ok(err)
	j.moved(t, got, line[len(line)-1-n], t.tip)
}

func (j *journey) redo(t *modelThread, n int) {
	ahead := j.line(t.tip)[len(j.line(t.head)):]
	got, err := j.saver.(Traveler).Redo(j.Context(), t.ThreadKey, n)
	if n > len(ahead) {
		j.kind(err, segno.KindNotFound)
		return
	}
	j.ok(err)
	j.moved(t, got, ahead[n-1], t.tip)
}

func (j *journey) restore() {
	t := j.pick()
	to := t.history[j.draw("restore", len(t.history))]
	got, err := j.saver.(Traveler).Restore(j.Context(), t.ThreadKey, to)
	j.ok(err)
	tip := to
	if slices.Contains(j.line(t.tip), to) {
		tip = t.tip
	}
	j.moved(t, got, to, tip)
}

func (j *journey) fork() {
	if len(j.threads) == 3 {
		return
	}
	t := j.pick()
	from, a := t.history[j.draw("fork", len(t.history))], j.newAddress()
	got := j.fixture.fork(from, a)
	j.sameContent("the fork", got, j.saved[from])
	j.saved[got.ID], j.parent[got.ID] = got, from
	j.threads = append(j.threads, &modelThread{ThreadKey: a, head: got.ID, tip: got.ID, step: got.Step, history: []segno.CommitID{got.ID}})
}

// compare compares every thread and every checkpoint with the model, and one random query of a history.
func (j *journey) compare() {
	for _, t := range j.threads {
		j.sameContent("a thread", j.latest(t.ThreadKey), j.saved[t.head])
		for _, id := range t.history {
			j.equal("a checkpoint", j.at(t.ThreadKey, id), j.saved[id])
		}
		h := j.history(t.ThreadKey, segno.CheckpointQuery{})
		q := segno.CheckpointQuery{Limit: j.draw("limit", 3), Step: j.draw("step", 3), Before: h[j.draw("before", len(h))].Seq}
		if rapid.Bool().Draw(j.t, "by meta") {
			q.Meta = map[string]string{"m": fmt.Sprint(j.draw("meta", 3))}
		}
		var ids, want []segno.CommitID
		for i, c := range h {
			if ids = append(ids, c.ID); i > 0 && c.Seq >= h[i-1].Seq {
				j.Fatalf("seq %d comes after seq %d", c.Seq, h[i-1].Seq)
			}
			s := j.saved[c.ID]
			j.same("parent and step", []any{c.Parent, c.Step}, []any{j.parent[c.ID], s.Step})
			matches := c.Seq < q.Before && (q.Step == 0 || s.Step == q.Step) && (q.Meta == nil || s.Meta["m"] == q.Meta["m"])
			if matches && (q.Limit == 0 || len(want) < q.Limit) {
				want = append(want, c.ID)
			}
		}
		slices.Reverse(ids)
		j.same("a history", ids, t.history)
		j.same(fmt.Sprintf("the history of %q: %+v", t.ThreadKey, q), j.historyIDs(t.ThreadKey, q), want)
		j.redo(t, 1)
	}
}
