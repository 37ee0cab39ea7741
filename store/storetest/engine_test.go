package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/timeline"
)

// These tests test the root package's own code, which behaves the same on every store.

func newMemoryFixture(t *testing.T) *fixture {
	clock := NewClock()
	f := newFixture(t, memory.New(clock.Now), Options{Clock: clock})
	t.Cleanup(f.close)
	return f
}

// commitKinds commits one checkpoint of each kind, one after the other.
func (f *fixture) commitKinds(head segno.Head, kinds ...segno.CheckpointKind) segno.Head {
	f.Helper()
	for i, kind := range kinds {
		c := f.turn(head)
		c.ID = segno.CommitID(fmt.Sprintf("%s %d", kind, i+1))
		c.Checkpoint.Kind, c.Checkpoint.Step = kind, i+1
		head = f.commit(c)
	}
	return head
}

func TestFoldFields(t *testing.T) {
	f := newMemoryFixture(t)
	head := f.commitKinds(f.newThread(), segno.CheckpointStep, segno.CheckpointTurn)
	save := f.turn(head)
	save.Checkpoint.Kind, save.Checkpoint.Turn = segno.CheckpointSave, 2
	entries := f.turn(f.commit(save))
	entries.Checkpoint = nil
	note, unknown := segno.Entry{Kind: segno.EntryNote, Body: []byte(`"no message"`)}, segno.Entry{Kind: "unknown", Body: []byte(`{}`)}
	entries.Entries = append(entries.Entries, note, unknown)
	f.commit(entries)
	nodes, state := f.load(entries.ID), f.foldAt(save.ID)
	clone := state.Clone()
	f.ok(clone.Add(&nodes[len(nodes)-1]))
	f.same("the commits", []segno.CommitID{state.At, clone.At, clone.Parent}, []segno.CommitID{save.ID, entries.ID, "turn 2"})
	f.same("step, turn and messages", []int{clone.Step, clone.Turn, len(state.Messages), len(clone.Messages)}, []int{2, 2, 3, 4})
	clone.Messages[0] = []byte(`"changed"`)
	f.same("the first message", string(state.Messages[0]), string(nodes[1].Entries[0].Body))
}

// TestSaverRefusesNamespaceThreads verifies that a thread with the name of a namespace's own thread cannot be
// used.
func TestSaverRefusesNamespaceThreads(t *testing.T) {
	f := newMemoryFixture(t)
	s := f.begin(part(f.address(), "part"), "mine")
	forged := saver.ThreadKey{Thread: string(s.ThreadKey.ID())}
	for _, err := range []error{
		f.saveErr(with(saver.Snapshot{ThreadKey: forged, ID: s.ID}, "forged")),
		errOf(f.saver.Load(f.Context(), forged)),
		f.saver.Delete(f.Context(), forged),
		f.forkErr(s.ID, forged),
	} {
		f.kind(err, segno.KindInvalid)
	}
	f.same("the list", f.addresses(""), []saver.ThreadKey(nil))
	f.isLatest(s)
}

// TestSaverListsTheNewestCheckpoint verifies that List has the step and time of the newest checkpoint, even
// after further entries.
func TestSaverListsTheNewestCheckpoint(t *testing.T) {
	f := newMemoryFixture(t)
	s := f.begin(f.address(), "one")
	f.advance(time.Minute)
	s = f.save(with(s, "two"))
	for range 3 {
		f.append(s.ThreadKey, intent(f.id("call"), "tool", `1`))
		got := f.infos("")[0]
		f.same("step and times", []any{got.Step, got.Updated.Equal(s.Updated), got.Created.Equal(s.Created)}, []any{2, true, true})
	}
	v := &saver.StoreSaver{Store: f.store}
	s, err := v.Save(f.Context(), saver.Snapshot{ThreadKey: f.address()})
	f.ok(err)
	f.same("whether a saver without Now sets no time", s.Updated.IsZero(), false)
}

func TestSaverRefusesInterruptIDs(t *testing.T) {
	f := newMemoryFixture(t)
	s := f.begin(f.address(), "hello")
	one, two := f.question(s.ThreadKey, `{}`, segno.Approve), f.question(s.ThreadKey, `{"x":1}`, segno.Approve)
	two.ID = one.ID
	unnamed := one
	unnamed.ID = ""
	for _, bad := range [][]segno.Interrupt{{one, two}, {unnamed}} {
		s.Interrupts = bad
		f.kind(f.saveErr(s), segno.KindInvalid)
	}
	f.same("the open questions", len(waiting(f.latest(s.ThreadKey))), 0)
}

// TestSaveIsOneCommit verifies that a save is one commit that contains only the changes.
func TestSaveIsOneCommit(t *testing.T) {
	f := newMemoryFixture(t)
	s := f.save(f.rich(f.address()))
	before := f.head(s.ThreadKey.ID())
	kinds := func() (kinds []segno.EntryKind) {
		nodes := f.load(s.ID)
		for _, e := range nodes[len(nodes)-1].Entries {
			kinds = append(kinds, e.Kind)
		}
		return kinds
	}
	s = with(s, "one more")
	s.State["score"] = []byte(`43`)
	s = f.save(s)
	f.same("the number of commits", f.head(s.ThreadKey.ID()).Seq-before.Seq, int64(1))
	f.same("the entries", kinds(), []segno.EntryKind{segno.EntryMessage, segno.EntryState})
	s = f.save(with(f.latest(s.ThreadKey)))
	f.same("the entries of a save without a change", kinds(), []segno.EntryKind(nil))
}

// TestRetentionWithoutTimes verifies that a thread whose checkpoints have no time does not expire, and that
// its lines stay.
func TestRetentionWithoutTimes(t *testing.T) {
	f := newMemoryFixture(t)
	c := f.base("timeless", "")
	c.Checkpoint.Time = time.Time{}
	base := f.commit(c)
	c = f.turn(base)
	c.Checkpoint.Time = time.Time{}
	f.commit(f.move(f.commit(c), base.Head, base.Head))
	f.advance(48 * time.Hour)
	rule := timeline.Retention{KeepFor: time.Hour}
	expired, err := rule.Expired(f.Context(), f.store, f.now())
	f.ok(err)
	f.same("the expired threads", expired, []segno.ThreadID(nil))
	f.same("dropped", f.retain(rule), 0)
	f.line(c.ID, 0)
}

// TestExpiredThreads verifies that a thread expires if no rule keeps one of its turns, unless it has a pin, a
// lease or an open question.
func TestExpiredThreads(t *testing.T) {
	f := newMemoryFixture(t)
	commit := func(id segno.ThreadID, entries ...segno.Entry) segno.Head {
		c := f.step(f.commit(f.base(id, "")), entries...)
		c.Checkpoint.Time = f.now()
		return f.commit(c)
	}
	commit("old")
	commit("waits", f.asks("1"))
	pinned := commit("pinned")
	f.commit(f.pin(pinned, pinned.Head, "wanted"))
	commit("parent")
	young := f.base("part", "")
	young.Create.ParentThread, young.Checkpoint.Time = "parent", f.now().Add(47*time.Hour)
	f.commit(young)
	f.advance(48 * time.Hour)
	if _, ok := f.store.(segno.Leaser); ok {
		commit("leased")
		f.acquire("leased", "a run")
	}
	for rule, want := range map[timeline.Retention][]segno.ThreadID{
		{KeepFor: 24 * time.Hour}: {"old"}, {}: nil, {KeepFor: 24 * time.Hour, KeepTurns: 1}: nil,
	} {
		expired, err := rule.Expired(f.Context(), f.store, f.now())
		f.ok(err)
		f.same(fmt.Sprintf("the expired threads with %+v", rule), expired, want)
	}
}

// TestSaveCostsItsChange verifies that the cost of a save does not depend on the number of earlier messages.
func TestSaveCostsItsChange(t *testing.T) {
	f := newMemoryFixture(t)
	s := saver.Snapshot{ThreadKey: f.address()}
	text := noise(2 << 10)
	grow := func(to int) (sum uint64) {
		for len(s.Messages) < to {
			s.Messages = append(s.Messages, message(text))
		}
		s = f.save(s)
		for range 10 {
			s.Messages = append(s.Messages, message(text))
			sum += allocated(func() { s = f.save(s) })
		}
		return sum
	}
	grow(10)
	few := grow(100)
	if many := grow(1000); many > 2*few+64<<10 {
		f.Fatalf("ten saves allocated %d bytes after 100 messages, %d after 1000", few, many)
	}
}

// TestDamageIsNotAbsence verifies that a thread that cannot be read is KindCorrupt, exists, and is not
// overwritten.
func TestDamageIsNotAbsence(t *testing.T) {
	f := newMemoryFixture(t)
	good := f.begin(f.address(), "one")
	a := good.ThreadKey
	f.append(a, segno.Entry{Kind: segno.EntryInterrupt, ID: "1", Body: json.RawMessage(`"no interrupt"`)})
	f.kind(errOf(f.saver.Load(f.Context(), a)), segno.KindCorrupt)
	f.exists(a, true)
	f.same("the list", f.addresses(""), []saver.ThreadKey{a})
	f.kind(f.saveErr(with(saver.Snapshot{ThreadKey: a}, "as if it were new")), segno.KindConflict)
	f.equal("the checkpoint before", f.at(a, good.ID), good)
	f.sameContent("a fork of it", f.fork(good.ID, f.address()), good)
}

// TestKeepTurns verifies that KeepTurns keeps the newest turns of a thread on all lines.
func TestKeepTurns(t *testing.T) {
	f := newMemoryFixture(t)
	head := f.commit(f.turn(f.newThread()))
	base := head.Head
	var ends [4]segno.CommitID
	for i := range ends {
		ends[i], head = f.abandoned(base, head)
	}
	f.advance(48 * time.Hour)
	f.same("dropped", f.retain(timeline.Retention{KeepTurns: 2}), 2)
	f.line(ends[2], 0)
	f.line(ends[3], 0)
	f.same("dropped by both rules", f.retain(timeline.Retention{KeepTurns: 1, KeepFor: 72 * time.Hour}), 0)
	f.same("dropped by the stricter rule", f.retain(timeline.Retention{KeepTurns: 1}), 1)
}
