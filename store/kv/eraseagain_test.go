package kv_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
)

// TestAnInterruptedErasureIsRepeated fails each call of an erasure of a thread with directories in directories. A second
// erasure succeeds, and no object of the thread stays. The objects of another thread stay.
func TestAnInterruptedErasureIsRepeated(t *testing.T) {
	ctx := t.Context()
	policy := segno.CollectPolicy{Trace: traceList}
	for n, done := 1, false; !done; n++ {
		under := kvtest.NewMap(noon)
		s := mustOpen(t, under, kv.Options{})
		commit := func(c segno.Commit) {
			t.Helper()
			if _, err := s.Commit(ctx, c); err != nil {
				t.Fatal(err)
			}
		}
		kept := create("kept", "")
		kept.Staged, kept.Checkpoint.Workspace = lists(t, s, "shared file", "kept file")
		commit(kept)
		head := segno.CommitID("")
		for turn := range 3 {
			c := create("deleted", "")
			if turn > 0 {
				c.ID, c.Create, c.Parent, c.Expect = segno.CommitID(fmt.Sprint("turn ", turn)), nil, head, head
			}
			c.Staged, c.Checkpoint.Workspace = lists(t, s, "shared file", fmt.Sprint("deleted file ", turn))
			commit(c)
			head = c.ID
		}
		if err := s.Delete(ctx, "deleted"); err != nil {
			t.Fatal(err)
		}
		f := &faulty{kv: under}
		broken := mustOpen(t, f, kv.Options{})
		f.at = f.n + n
		_, err := broken.Erase(ctx, policy)
		if done = f.n < f.at; err != nil {
			_, err = s.Erase(ctx, policy)
		}
		if errors.Is(err, segno.KindBusy) {
			continue // the key of the first erasure stayed
		}
		if err != nil {
			t.Fatalf("after call %d (%s) failed, the second erasure: %v", n, f.hit, err)
		}
		for content, want := range map[string]bool{"shared file": true, "kept file": true, "deleted file 0": false, "deleted file 1": false,
			"deleted file 2": false} {
			if has, err := s.Objects().Has(ctx, segno.HashOf([]byte(content))); has != want || err != nil {
				t.Fatalf("after call %d (%s) failed, the store has %q: %v, %v", n, f.hit, content, has, err)
			}
		}
	}
}

// lists stages an object for each content, a list for each object, and a list of these lists.
func lists(t *testing.T, s segno.Store, contents ...string) (segno.Staged, *segno.Snapshot) {
	t.Helper()
	b := s.Objects().Batch()
	defer b.Close()
	put := func(data string) segno.Hash {
		name, err := b.Put(t.Context(), []byte(data))
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	top := "list\n"
	for _, content := range contents {
		top += put("list\n"+put(content).String()+"\n").String() + "\n"
	}
	tree := put(top)
	staged, err := b.Stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return staged, &segno.Snapshot{Workspace: "w", Tree: tree}
}

// traceList is the Trace of a policy for the objects of lists.
func traceList(ctx context.Context, o segno.Objects, c segno.Checkpoint, visit func(segno.Hash) bool) error {
	var follow func(name segno.Hash) error
	follow = func(name segno.Hash) error {
		if name.IsZero() || !visit(name) {
			return nil
		}
		data, err := o.Get(ctx, name)
		if err != nil {
			return fmt.Errorf("read list: %w", err)
		}
		list, ok := strings.CutPrefix(string(data), "list\n")
		if !ok {
			return nil
		}
		for line := range strings.Lines(list) {
			h, err := segno.ParseHash(strings.TrimSpace(line))
			if err == nil {
				err = follow(h)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return follow(c.Tree())
}
