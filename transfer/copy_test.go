package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/dalsegno/segno/transfer"
)

// copyOf copies a thread and checks the outcome.
func copyOf(t *testing.T, from, to *side, thread segno.ThreadID, want transfer.Outcome) *transfer.Result {
	t.Helper()
	res, err := transfer.Copy(t.Context(), from, to, thread, transfer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Outcome != want {
		t.Fatalf("the outcome is %q, not %q: %+v", res.Outcome, want, res)
	}
	return res
}

func wantSame(t *testing.T, a, b *side, thread segno.ThreadID) {
	t.Helper()
	x, y := describe(t, a, thread), describe(t, b, thread)
	if !slices.Equal(x, y) {
		t.Fatalf("%s has\n%s\n%s has\n%s", a.name, strings.Join(x, "\n"), b.name, strings.Join(y, "\n"))
	}
	if p, q := pointers(t, a, thread), pointers(t, b, thread); p != q {
		t.Fatalf("%s is at %v and %s at %v", a.name, p, b.name, q)
	}
}

// example makes a thread with turns, an undone line, another line, pins and two sessions.
func example(s *side, thread segno.ThreadID) {
	s.begin(thread)
	s.turn(thread, "one")
	at := s.turn(thread, "two").Head
	s.pin(thread, at, "good")
	s.turn(thread, "three")
	s.undo(thread)
	s.undo(thread)
	s.commit(segno.Commit{Thread: thread, Link: &segno.Link{Agent: "claude", Session: "cut", Start: began.Add(time.Hour), Reason: "undo", At: at}}, "")
	s.turn(thread, "other two")
	s.turn(thread, "other three")
	s.undo(thread)
}

func TestAThreadGoesThereAndBack(t *testing.T) {
	laptop, fleet := newSQLite(t, "laptop", sqlite.Options{}), newMemory(t, "fleet")
	example(laptop, "t")
	res := copyOf(t, laptop, fleet, "t", transfer.Created)
	if res.Commits != 11 || res.Objects != 6 || res.Pins != 1 || res.Links != 2 || res.Bytes == 0 {
		t.Errorf("%+v", res)
	}
	wantSame(t, laptop, fleet, "t")
	if res := copyOf(t, laptop, fleet, "t", transfer.UpToDate); res.Commits+res.Objects+res.Pins+res.Links != 0 {
		t.Errorf("the second copy sends %+v", res)
	}
	there := fleet.turn("t", "on the fleet").Head
	if res := copyOf(t, laptop, fleet, "t", transfer.Behind); res.Head != there {
		t.Errorf("the head went back to %s", res.Head)
	}
	if res := copyOf(t, fleet, laptop, "t", transfer.Forwarded); res.Commits != 2 || res.Objects != 1 {
		t.Errorf("the way back sends %+v", res)
	}
	wantSame(t, laptop, fleet, "t")
	laptop.undo("t") // only the pointers differ
	copyOf(t, laptop, fleet, "t", transfer.Forwarded)
	wantSame(t, laptop, fleet, "t")
}

// TestAConflictBecomesALine checks that both sides keep all commits, and that no head moves, if both have new ones.
func TestAConflictBecomesALine(t *testing.T) {
	laptop, fleet := newMemory(t, "laptop"), newSQLite(t, "fleet", sqlite.Options{})
	laptop.begin("t")
	laptop.turn("t", "one")
	copyOf(t, laptop, fleet, "t", transfer.Created)
	here, there := laptop.turn("t", "here"), fleet.turn("t", "there")
	res := copyOf(t, laptop, fleet, "t", transfer.Diverged)
	if res.Head != there.Head || res.Source != here.Head {
		t.Errorf("%+v", res)
	}
	if p := pointers(t, fleet, "t"); p != [2]segno.CommitID{there.Head, there.Tip} {
		t.Errorf("the head of the fleet moved to %v", p)
	}
	line, err := fleet.Load(t.Context(), here.Head, segno.Window{})
	if err != nil || len(line.Commits) != 5 || line.Commits[4].Checkpoint.Prompt != "here" {
		t.Fatalf("the line is %+v, %v", line, err)
	}
	copyOf(t, laptop, fleet, "t", transfer.Diverged)                                                // a repetition does not move it either
	fleet.commit(segno.Commit{Thread: "t", Move: &segno.Move{Head: here.Head, Tip: here.Head}}, "") // the user goes to the line
	fleet.turn("t", "in the line")
	copyOf(t, fleet, laptop, "t", transfer.Forwarded) // the fleet has all commits of the laptop
	wantSame(t, laptop, fleet, "t")
}

func TestAForkBringsItsAncestors(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		laptop, fleet := newMemory(t, "laptop"), newMemory(t, "fleet")
		laptop.begin("parent")
		at := laptop.turn("parent", "one").Head
		laptop.turn("parent", "secret of the parent")
		laptop.fork("fork", at)
		last := laptop.turn("fork", "in the fork").Head
		laptop.fork("fork of the fork", last)
		if deleted {
			laptop.ok(laptop.Delete(t.Context(), "parent"))
		}
		copyOf(t, laptop, fleet, "fork of the fork", transfer.Created)
		wantSame(t, laptop, fleet, "fork of the fork")
		if h := fleet.head("parent"); h.Head != at {
			t.Errorf("the parent is at %s and not at the fork", h.Head)
		}
		copyOf(t, laptop, fleet, "fork", transfer.UpToDate)
		wantSame(t, laptop, fleet, "fork")
		if !deleted {
			copyOf(t, laptop, fleet, "parent", transfer.Forwarded)
			if h := fleet.head("parent"); h.Head != laptop.head("parent").Head {
				t.Errorf("the parent is at %s", h.Head)
			}
		}
		fleet.ok(fleet.Delete(t.Context(), "parent"))
		laptop.fork("late fork", at)
		copyOf(t, laptop, fleet, "late fork", transfer.Created)
		wantSame(t, laptop, fleet, "late fork")
	}
}

func TestPartsTravelWithTheirThread(t *testing.T) {
	laptop, fleet := newMemory(t, "laptop"), newMemory(t, "fleet")
	laptop.begin("t")
	for _, part := range []segno.ThreadID{"part", "part of a part"} {
		of := segno.ThreadID("t")
		if part != "part" {
			of = "part"
		}
		laptop.commit(segno.Commit{Thread: part, Create: &segno.Thread{ID: part, Created: began, ParentThread: of, Name: "n"},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: began}}, string(part))
	}
	if res := copyOf(t, laptop, fleet, "t", transfer.Created); res.Thread != "t" || res.Parts != 2 || res.Commits != 3 || res.Objects != 3 {
		t.Errorf("%+v", res)
	}
	for _, id := range []segno.ThreadID{"t", "part", "part of a part"} {
		wantSame(t, laptop, fleet, id)
	}
}

// parentLies is a source that names threads as parts of others, whatever their records say.
type parentLies struct {
	segno.Store
	parts map[segno.ThreadID][]segno.Thread
}

func (s parentLies) Threads(ctx context.Context, q segno.ThreadQuery) iter.Seq2[segno.Thread, error] {
	if q.ParentThread == "" {
		return s.Store.Threads(ctx, q)
	}
	return func(yield func(segno.Thread, error) bool) {
		for _, t := range s.parts[q.ParentThread] {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// TestPartsOfAHostileSource copies from stores whose parts have no end, and from one that passes another thread off as a
// part, so that a copy would move its head, too.
func TestPartsOfAHostileSource(t *testing.T) {
	here, there := newMemory(t, "here"), newMemory(t, "there")
	part := func(id, of segno.ThreadID) segno.Thread {
		there.commit(segno.Commit{Thread: id, Create: &segno.Thread{ID: id, Created: began, ParentThread: of, Name: "n"},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: began}}, string(id))
		x, _, err := segno.FindThread(t.Context(), there, id)
		there.ok(err)
		return x
	}
	part("itself", "itself")
	part("a", "b")
	part("b", "a")
	for id, parts := range map[segno.ThreadID]int{"itself": 0, "a": 1} {
		res, err := transfer.Copy(t.Context(), there, here, id, transfer.Options{})
		if err != nil || res.Parts != parts {
			t.Errorf("the copy of %s has the result %+v, %v", id, res, err)
		}
	}

	there.begin("t")
	for _, s := range []*side{here, there} {
		s.commit(segno.Commit{ID: "base of other", Thread: "other", Create: &segno.Thread{ID: "other", Created: began},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: began}}, "other")
	}
	before := here.head("other")
	there.turn("other", "a forged turn")
	other, _, err := segno.FindThread(t.Context(), there, "other")
	there.ok(err)
	lies := parentLies{there, map[segno.ThreadID][]segno.Thread{"t": {other}}}
	if _, err := transfer.Copy(t.Context(), lies, here, "t", transfer.Options{}); segno.KindOf(err) != segno.KindCorrupt {
		t.Errorf("a thread that is not a part is copied with %v", err)
	}
	other.ParentThread = "t"
	lies.parts["t"] = []segno.Thread{other}
	if _, err := transfer.Copy(t.Context(), lies, here, "t", transfer.Options{}); segno.KindOf(err) != segno.KindCorrupt && segno.KindOf(err) != segno.KindConflict {
		t.Errorf("a thread that only there is a part is copied with %v", err)
	}
	if h := here.head("other"); h.Head != before.Head {
		t.Errorf("the head of a thread that is no part moved from %s to %s", before.Head, h.Head)
	}
}

func TestTheHeadIsKept(t *testing.T) {
	laptop, fleet := newMemory(t, "laptop"), newMemory(t, "fleet")
	laptop.begin("t")
	copyOf(t, laptop, fleet, "t", transfer.Created)
	before, after := pointers(t, fleet, "t"), laptop.turn("t", "one").Head
	held, err := fleet.Acquire(t.Context(), segno.Lease{Thread: "t", Owner: "a worker", Expires: time.Now().Add(time.Hour)})
	fleet.ok(err)
	if res := copyOf(t, laptop, fleet, "t", transfer.Kept); segno.KindOf(res.Why) != segno.KindBusy || res.Head != before[0] || res.Source != after {
		t.Errorf("beside a run: %+v", res)
	}
	fleet.ok(fleet.Release(t.Context(), held))
	res, err := transfer.Copy(t.Context(), laptop, fleet, "t", transfer.Options{KeepHead: true})
	if err != nil || res.Outcome != transfer.Kept || res.Why != nil || pointers(t, fleet, "t") != before {
		t.Errorf("with KeepHead: %+v, %v", res, err)
	}
	copyOf(t, laptop, fleet, "t", transfer.Forwarded)
	wantSame(t, laptop, fleet, "t")
}

func TestADryRunWritesNothing(t *testing.T) {
	laptop, fleet := newMemory(t, "laptop"), newMemory(t, "fleet")
	example(laptop, "t")
	res, err := transfer.Copy(t.Context(), laptop, fleet, "t", transfer.Options{DryRun: true})
	if err != nil || res.Outcome != transfer.Created || res.Commits != 11 || res.Objects != 6 || res.Bytes == 0 || res.Pins != 1 || res.Links != 2 {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := fleet.Head(t.Context(), "t"); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("the thread exists: %v", err)
	}
	real := copyOf(t, laptop, fleet, "t", transfer.Created)
	if res.Head != real.Head || res.Objects != real.Objects || res.Bytes != real.Bytes {
		t.Errorf("the plan is %+v and the copy %+v", res, real)
	}
}

func TestCopyRefuses(t *testing.T) {
	laptop, fleet := newMemory(t, "laptop"), newMemory(t, "fleet")
	want := func(what string, kind segno.Kind, err error) {
		t.Helper()
		if segno.KindOf(err) != kind {
			t.Errorf("%s: %v of kind %v, not %v", what, err, segno.KindOf(err), kind)
		}
	}
	_, err := transfer.Copy(t.Context(), laptop, fleet, "none", transfer.Options{})
	want("an unknown thread", segno.KindNotFound, err)

	laptop.begin("t")
	copyOf(t, laptop, fleet, "t", transfer.Created)
	fleet.ok(fleet.Delete(t.Context(), "t"))
	_, err = transfer.Copy(t.Context(), laptop, fleet, "t", transfer.Options{})
	want("a thread that the target deleted", segno.KindNotFound, err)
	if segno.HintOf(err) == "" || !strings.Contains(err.Error(), "deleted there") {
		t.Errorf("%v, hint %q", err, segno.HintOf(err))
	}

	for i, s := range []*side{laptop, fleet} { // two machines adopted the same session
		s.commit(segno.Commit{ID: "derived", Thread: "same", Create: &segno.Thread{ID: "same", Created: began},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: began.Add(time.Duration(i) * time.Hour)}}, "x")
	}
	before := describe(t, fleet, "same")
	_, err = transfer.Copy(t.Context(), laptop, fleet, "same", transfer.Options{})
	want("another commit with the same id", segno.KindConflict, err)
	if !slices.Equal(describe(t, fleet, "same"), before) {
		t.Error("the target changed")
	}
}

// damaged returns the error of a damaged or a missing object.
type damaged struct {
	segno.Objects
	name segno.Hash
	err  segno.Kind
}

func (d damaged) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	if name == d.name {
		return nil, segno.NewError(d.err, "read object", name.String(), nil)
	}
	return d.Objects.Get(ctx, name)
}

type withDamage struct {
	completeStore
	objects segno.Objects
}

func (s withDamage) Objects() segno.Objects { return s.objects }

func TestADamagedObjectIsNamed(t *testing.T) {
	for _, kind := range []segno.Kind{segno.KindCorrupt, segno.KindNotFound} {
		laptop, fleet := newMemory(t, "laptop"), newMemory(t, "fleet")
		laptop.begin("t")
		laptop.turn("t", "one")
		name := segno.HashOf([]byte("state of one"))
		_, err := transfer.Copy(t.Context(), withDamage{laptop, damaged{laptop.Objects(), name, kind}}, fleet, "t", transfer.Options{})
		if segno.KindOf(err) != segno.KindCorrupt || !strings.Contains(err.Error(), name.String()) {
			t.Errorf("the error is %v", err)
		}
		copyOf(t, laptop, fleet, "t", transfer.Created)
		wantSame(t, laptop, fleet, "t")
	}
}

func TestSealedStores(t *testing.T) {
	key := func(b byte) sqlite.Options { return sqlite.Options{Key: slices.Repeat([]byte{b}, 32)} }
	laptop, fleet := newSQLite(t, "laptop", key(1)), newSQLite(t, "fleet", key(2))
	example(laptop, "t")
	copyOf(t, laptop, fleet, "t", transfer.Created)
	wantSame(t, laptop, fleet, "t")
}

// interrupted is a store whose n-th write fails, before or after it takes effect, as does each later call: the process
// is gone.
type interrupted struct {
	completeStore
	left    int
	isAfter bool
}

var errGone = errors.New("the process is gone")

// run makes one write.
func (s *interrupted) run(write func() error) error {
	if s.left--; s.left > 0 || s.left == 0 && s.isAfter {
		if err := write(); err != nil || s.left > 0 {
			return err
		}
	}
	return segno.NewError(segno.KindIO, "write", "", errGone)
}

func (s *interrupted) Commit(ctx context.Context, c segno.Commit) (h segno.Head, err error) {
	err = s.run(func() (err error) { h, err = s.completeStore.Commit(ctx, c); return err })
	return h, err
}

func (s *interrupted) Objects() segno.Objects {
	return interruptedObjects{s.completeStore.Objects(), s}
}

type interruptedObjects struct {
	segno.Objects
	s *interrupted
}

func (o interruptedObjects) Keep(ctx context.Context, staged segno.Staged) error {
	return o.s.run(func() error { return o.Objects.Keep(ctx, staged) })
}

// TestAnInterruptedCopyContinues ends a copy at each of its writes. Whatever was done, the target then has no commit
// without its objects, and another copy completes the work.
func TestAnInterruptedCopyContinues(t *testing.T) {
	for n := 1; ; n++ {
		done := false
		for _, isAfter := range []bool{false, true} {
			laptop, fleet := newMemory(t, "laptop"), newMemory(t, "fleet")
			example(laptop, "parent")
			laptop.fork("t", laptop.head("parent").Head)
			laptop.turn("t", "last")
			_, err := transfer.Copy(t.Context(), laptop, &interrupted{fleet, n, isAfter}, "t", transfer.Options{})
			if done = err == nil; done {
				break
			}
			if !errors.Is(err, errGone) {
				t.Fatalf("write %d: %v", n, err)
			}
			for c, err := range fleet.Checkpoints(t.Context(), segno.CheckpointQuery{}) {
				for _, name := range c.Refs() {
					if has, hasErr := fleet.Objects().Has(t.Context(), name); !has || hasErr != nil || err != nil {
						t.Fatalf("write %d: checkpoint %s lacks its object: %v, %v", n, c.ID, hasErr, err)
					}
				}
			}
			if _, err := transfer.Copy(t.Context(), laptop, fleet, "t", transfer.Options{}); err != nil {
				t.Fatalf("after write %d: %v", n, err)
			}
			wantSame(t, laptop, fleet, "t")
			if h := fleet.head("parent"); h.Head != laptop.head("parent").Head {
				t.Fatalf("after write %d the parent is at %s", n, h.Head)
			}
		}
		if done {
			if n < 10 {
				t.Errorf("a copy has only %d writes", n)
			}
			return
		}
	}
}

// TestRandomHistories works on both sides and copies in both directions. No commit is ever lost, a head only moves to a
// commit of the other side that contains it, and in the end one copy makes both sides equal.
func TestRandomHistories(t *testing.T) {
	for _, seed := range soak.Seeds(t, 20, 2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		sides := []*side{newMemory(t, "laptop"), newMemory(t, "fleet")}
		example(sides[0], "t")
		copyOf(t, sides[0], sides[1], "t", transfer.Created)
		for i := range 12 {
			s, other := sides[r.IntN(2)], sides[r.IntN(2)]
			switch r.IntN(6) {
			case 0, 1:
				s.turn("t", fmt.Sprint("turn ", i))
			case 2:
				s.undo("t")
			case 3:
				s.pin("t", s.head("t").Tip, fmt.Sprint("pin ", i))
			case 4:
				s.commit(segno.Commit{Thread: "t", Link: &segno.Link{Agent: "claude", Session: segno.SessionID(fmt.Sprint("session ", i)), Start: began.Add(time.Duration(i))}}, "")
			case 5:
				if s == other {
					continue
				}
				before := pointers(t, other, "t")
				res, err := transfer.Copy(t.Context(), s, other, "t", transfer.Options{})
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if after := pointers(t, other, "t"); res.Outcome != transfer.Forwarded && after != before || after[0] != res.Head {
					t.Fatalf("seed %d: %s moved from %v to %v: %+v", seed, other.name, before, after, res)
				}
				have := describe(t, other, "t")
				for _, want := range describe(t, s, "t") {
					if strings.Contains(want, `"prompt"`) && !slices.Contains(have, want) {
						t.Fatalf("seed %d: %s lacks %s", seed, other.name, want)
					}
				}
			}
		}
		for range 2 {
			for i := range sides {
				if _, err := transfer.Copy(t.Context(), sides[i], sides[1-i], "t", transfer.Options{}); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		}
		nodes := func(s *side) []string {
			return slices.DeleteFunc(describe(t, s, "t"), func(line string) bool { return !strings.HasPrefix(line, `{"ID"`) })
		}
		if a, b := nodes(sides[0]), nodes(sides[1]); !slices.Equal(a, b) {
			t.Fatalf("seed %d: the commits differ:\n%s\n\n%s", seed, strings.Join(a, "\n"), strings.Join(b, "\n"))
		}
	}
}

// racing is a store in which another writer adds a turn before the n-th commit.
type racing struct {
	completeStore
	left int
	turn func()
}

func (s *racing) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	if s.left--; s.left == 0 {
		s.turn()
	}
	return s.completeStore.Commit(ctx, c)
}

// TestAnotherWriterDuringACopy adds a turn in the target before each commit of a copy.
func TestAnotherWriterDuringACopy(t *testing.T) {
	for n := 1; n < 8; n++ {
		laptop, fleet := newMemory(t, "laptop"), newMemory(t, "fleet")
		laptop.begin("t")
		copyOf(t, laptop, fleet, "t", transfer.Created)
		laptop.turn("t", "one")
		laptop.turn("t", "two")
		var theirs segno.CommitID
		race := &racing{fleet, n, func() { theirs = fleet.turn("t", "theirs").Head }}
		res, err := transfer.Copy(t.Context(), laptop, race, "t", transfer.Options{})
		if err != nil {
			t.Fatalf("commit %d: %v", n, err)
		}
		if theirs == "" {
			if n < 4 {
				t.Errorf("a copy has only %d commits", n)
			}
			return
		}
		if res.Outcome != transfer.Diverged || fleet.head("t").Head != theirs {
			t.Errorf("commit %d: %+v, and the head is %s", n, res, fleet.head("t").Head)
		}
		if _, err := fleet.Load(t.Context(), laptop.head("t").Head, segno.Window{Last: 1}); err != nil {
			t.Errorf("commit %d: the line is missing: %v", n, err)
		}
	}
}

// TestAnInterruptedCopyKeepsItsObjects ends a copy of large objects of one commit while they are sent. Those that were sent
// are not sent again.
func TestAnInterruptedCopyKeepsItsObjects(t *testing.T) {
	laptop, fleet := newMemory(t, "laptop"), newMemory(t, "fleet")
	laptop.begin("t")
	for i := range 4 {
		laptop.commit(segno.Commit{Thread: "t", Parent: laptop.head("t").Head, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointSave, Time: began}},
			strings.Repeat(fmt.Sprint(i), 17<<20))
	}
	if _, err := transfer.Copy(t.Context(), laptop, &interrupted{fleet, 2, false}, "t", transfer.Options{}); !errors.Is(err, errGone) {
		t.Fatal(err)
	}
	res := copyOf(t, laptop, fleet, "t", transfer.Created)
	if res.Objects >= 5 || pointers(t, laptop, "t") != pointers(t, fleet, "t") {
		t.Errorf("the second copy sends %d of 5 objects", res.Objects)
	}
}

// farStore counts the requests that a store behind a network would get for objects.
type farStore struct {
	completeStore
	reads, finds atomic.Int64
}

func (s *farStore) ReadObjects(ctx context.Context, names []segno.Hash, visit func(segno.Hash, []byte) error) error {
	s.reads.Add(1)
	for _, name := range names {
		data, err := s.Objects().Get(ctx, name)
		if err == nil {
			err = visit(name, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *farStore) MissingObjects(ctx context.Context, names []segno.Hash) (missing []segno.Hash, err error) {
	s.finds.Add(1)
	for _, name := range names {
		if has, err := s.Objects().Has(ctx, name); err != nil {
			return nil, err
		} else if !has {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// TestManyObjectsNeedFewRequests copies 400 objects between stores behind networks.
func TestManyObjectsNeedFewRequests(t *testing.T) {
	laptop, fleet := newMemory(t, "laptop"), newMemory(t, "fleet")
	laptop.begin("t")
	for i := range 399 {
		laptop.turn("t", fmt.Sprint("turn ", i))
	}
	from, to := &farStore{completeStore: laptop}, &farStore{completeStore: fleet}
	res, err := transfer.Copy(t.Context(), from, to, "t", transfer.Options{})
	if err != nil || res.Objects != 400 {
		t.Fatalf("%+v, %v", res, err)
	}
	if from.reads.Load() > 40 || to.finds.Load() > 10 {
		t.Errorf("%d reads and %d questions for %d objects", from.reads.Load(), to.finds.Load(), res.Objects)
	}
	wantSame(t, laptop, fleet, "t")
}
