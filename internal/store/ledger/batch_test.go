package ledger_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
)

// fakeSink keeps objects unchanged, and counts the calls of a batch.
type fakeSink struct {
	mu       sync.Mutex
	inStore  map[segno.Hash]bool
	encoded  map[segno.Hash]int
	spilled  []segno.Object
	finished int
	dropped  int
	fail     error // the error of Encode and Spill
}

func (f *fakeSink) Has(_ context.Context, name segno.Hash) (bool, error) { return f.inStore[name], nil }

func (f *fakeSink) Encode(_ context.Context, name segno.Hash, data []byte) (segno.Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.encoded[name]++
	return segno.Object{Name: name, Size: int64(len(data)), Data: append([]byte{}, data...)}, f.fail
}

func (f *fakeSink) Spill(_ context.Context, objects []segno.Object) (refs []segno.Object, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spilled = append(f.spilled, objects...)
	for _, o := range objects {
		refs = append(refs, segno.Object{Name: o.Name, Data: []byte("reference")})
	}
	return refs, f.fail
}

func (f *fakeSink) Finish(context.Context) ([]string, error) {
	f.finished++
	return []string{"pack"}, nil
}

func (f *fakeSink) Drop() error {
	f.dropped++
	return nil
}

func newFakeSink(inStore ...[]byte) *fakeSink {
	f := &fakeSink{inStore: map[segno.Hash]bool{}, encoded: map[segno.Hash]int{}}
	for _, data := range inStore {
		f.inStore[segno.HashOf(data)] = true
	}
	return f
}

func put(t *testing.T, b *ledger.Batch, data []byte) segno.Hash {
	t.Helper()
	name, err := b.Put(t.Context(), data)
	if err != nil || name != segno.HashOf(data) {
		t.Fatalf("Put: %s, %v", name, err)
	}
	return name
}

func TestBatchEncodesEachObjectOnce(t *testing.T) {
	sink := newFakeSink([]byte("in the store"))
	b := ledger.NewBatch(sink)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			put(t, b, []byte("new"))
			put(t, b, []byte("in the store"))
		})
	}
	all.Wait()
	if has, err := b.Has(t.Context(), segno.HashOf([]byte("other"))); has || err != nil {
		t.Errorf("Has of another object: %t, %v", has, err)
	}
	staged, err := b.Stage(t.Context())
	if err != nil || len(staged.Packs) != 1 || len(staged.Objects) != 2 {
		t.Fatalf("%+v, %v", staged, err)
	}
	if o := staged.Objects[0]; string(o.Data) != "new" || o.Size != 3 || sink.encoded[o.Name] != 1 {
		t.Errorf("the new object: %+v, encoded %d times", o, sink.encoded[o.Name])
	}
	if o := staged.Objects[1]; o.Data != nil || sink.encoded[o.Name] != 0 {
		t.Errorf("the object of the store: %+v, encoded %d times", o, sink.encoded[o.Name])
	}
}

func TestBatchSpillsWhatExceedsTheBudget(t *testing.T) {
	sink := newFakeSink()
	b := ledger.NewBatch(sink)
	big := func(first byte) []byte { return append([]byte{first}, make([]byte, ledger.MaxInline/2)...) }
	for i := range byte(5) {
		put(t, b, big(i))
	}
	put(t, b, nil)
	staged, err := b.Stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, o := range staged.Objects {
		size += len(o.Data)
	}
	if len(sink.spilled) != 4 || len(staged.Objects) != 6 || size > ledger.MaxInline {
		t.Errorf("%d objects were spilled; %d with %d bytes are staged", len(sink.spilled), len(staged.Objects), size)
	}
}

func TestBatchEnds(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		end                func(*ledger.Batch, *fakeSink) error
		want               error // the error of later calls
		finished, dropped  int
		failsWhenItIsEnded bool
	}{
		"by Stage": {end: func(b *ledger.Batch, _ *fakeSink) error { _, err := b.Stage(t.Context()); return err },
			want: segno.KindInvalid, finished: 1},
		"by Close": {end: func(b *ledger.Batch, _ *fakeSink) error { return b.Close() }, want: segno.KindInvalid, dropped: 1},
		"by an error of the sink": {end: func(b *ledger.Batch, f *fakeSink) error {
			f.fail = broken
			_, err := b.Put(t.Context(), []byte("x"))
			return err
		}, want: broken, dropped: 1, failsWhenItIsEnded: true},
	} {
		t.Run(name, func(t *testing.T) {
			sink := newFakeSink()
			b := ledger.NewBatch(sink)
			if err := tc.end(b, sink); (err != nil) != tc.failsWhenItIsEnded {
				t.Fatal(err)
			}
			_, errPut := b.Put(t.Context(), []byte("x"))
			_, errHas := b.Has(t.Context(), segno.HashOf([]byte("x")))
			_, errStage := b.Stage(t.Context())
			for _, err := range []error{errPut, errHas, errStage} {
				if !errors.Is(err, tc.want) {
					t.Errorf("error %v, want %v", err, tc.want)
				}
			}
			if err := errors.Join(b.Close(), b.Close()); err != nil {
				t.Error(err)
			}
			if sink.finished != tc.finished || sink.dropped != tc.dropped {
				t.Errorf("finished %d times and dropped %d times", sink.finished, sink.dropped)
			}
		})
	}
}

func TestBatchIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := ledger.NewBatch(newFakeSink())
	_, errPut := b.Put(ctx, []byte("x"))
	_, errStage := b.Stage(ctx)
	if !errors.Is(errPut, segno.KindCancelled) || !errors.Is(errStage, segno.KindCancelled) {
		t.Errorf("%v, %v", errPut, errStage)
	}
	put(t, b, []byte("x")) // a cancelled call does not end the batch
}

func TestEndLink(t *testing.T) {
	head := segno.Link{Session: "s1"}
	for _, c := range []segno.Commit{{}, {Link: &segno.Link{Session: "s2", Detached: true}}} {
		if ended, ends := ledger.EndLink(head, &c); ends || ended != head {
			t.Errorf("%+v ends the head session: %+v", c.Link, ended)
		}
	}
	next := &segno.Link{Session: "s2", Start: head.Start.AddDate(1, 0, 0)}
	if ended, ends := ledger.EndLink(head, &segno.Commit{Link: next}); !ends || ended.End != next.Start || ended.Session != "s1" {
		t.Errorf("the next session ends it: %t, %+v", ends, ended)
	}
}
