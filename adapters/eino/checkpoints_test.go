package segnoeino_test

import (
	"context"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	segnoeino "github.com/dalsegno/segno/adapters/eino"
	"github.com/dalsegno/segno/store/memory"
)

func newCheckpoints(t *testing.T) *segnoeino.Checkpoints {
	t.Helper()
	store := memory.New(nil)
	t.Cleanup(func() { _ = store.Close() })
	return segnoeino.New(store)
}

func set(t *testing.T, c *segnoeino.Checkpoints, id, checkpoint string) {
	t.Helper()
	if err := c.Set(t.Context(), id, []byte(checkpoint)); err != nil {
		t.Fatal(err)
	}
}

func wantCheckpoint(t *testing.T, c *segnoeino.Checkpoints, id, want string) {
	t.Helper()
	got, found, err := c.Get(t.Context(), id)
	if err != nil || found != (want != "") || string(got) != want {
		t.Fatalf("Get(%s) = %q, %v, %v; want %q", id, got, found, err, want)
	}
}

func TestEverySetIsAVersion(t *testing.T) {
	c, ctx := newCheckpoints(t), t.Context()
	wantCheckpoint(t, c, "a", "")
	for _, text := range []string{`{"step":1}`, "\x00\xffbinary", `{"step":3}`} {
		set(t, c, "a", text)
		wantCheckpoint(t, c, "a", text)
	}
	var versions []segno.CommitID
	for v, err := range c.History(ctx, "a") {
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, v.ID)
	}
	if len(versions) != 3 {
		t.Fatalf("the history has %d versions", len(versions))
	}
	if err := c.Undo(ctx, "a", 1); err != nil {
		t.Fatal(err)
	}
	wantCheckpoint(t, c, "a", "\x00\xffbinary")
	if err := c.Redo(ctx, "a", 1); err != nil {
		t.Fatal(err)
	}
	wantCheckpoint(t, c, "a", `{"step":3}`)
	if err := c.Fork(ctx, versions[2], "b"); err != nil {
		t.Fatal(err)
	}
	wantCheckpoint(t, c, "b", `{"step":1}`)
	set(t, c, "b", "other")
	wantCheckpoint(t, c, "a", `{"step":3}`)
	if err := c.Restore(ctx, "a", versions[2]); err != nil {
		t.Fatal(err)
	}
	wantCheckpoint(t, c, "a", `{"step":1}`)
}

// Two runs read the same version and write. The second one must not replace what the first one wrote.
func TestTheLastWriterDoesNotWin(t *testing.T) {
	store := memory.New(nil)
	defer store.Close()
	for name, second := range map[string]*segnoeino.Checkpoints{"same": nil, "other": segnoeino.New(store)} {
		first := segnoeino.New(store)
		if second == nil {
			second = first
		}
		for _, before := range []string{"", "v1"} {
			id := name + before
			if before != "" {
				set(t, first, id, before)
			}
			wantCheckpoint(t, first, id, before)
			wantCheckpoint(t, second, id, before)
			set(t, first, id, "of the first")
			if err := second.Set(t.Context(), id, []byte("of the second")); segno.KindOf(err) != segno.KindConflict {
				t.Errorf("%s: the error of the second writer is %v", id, err)
			}
			wantCheckpoint(t, first, id, "of the first")
		}
	}
}

// A run that ignores the checkpoint writes without reading. Older versions stay.
func TestSetWithoutGetFollowsTheNewestVersion(t *testing.T) {
	c := newCheckpoints(t)
	set(t, c, "a", "1")
	set(t, c, "a", "2")
	wantCheckpoint(t, c, "a", "2")
	if n := len(slices.Collect(keys(c, t.Context(), "a"))); n != 2 {
		t.Errorf("the history has %d versions", n)
	}
}

func keys(c *segnoeino.Checkpoints, ctx context.Context, id string) func(func(segno.CommitID) bool) {
	return func(yield func(segno.CommitID) bool) {
		for v, err := range c.History(ctx, id) {
			if err != nil || !yield(v.ID) {
				return
			}
		}
	}
}

func TestDeleteBeginsAgainAndKeepsVersions(t *testing.T) {
	c := newCheckpoints(t)
	if err := c.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	set(t, c, "a", "1")
	if err := c.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	wantCheckpoint(t, c, "a", "")
	set(t, c, "a", "2")
	if err := c.Undo(t.Context(), "a", 2); err != nil {
		t.Fatal(err)
	}
	wantCheckpoint(t, c, "a", "1")
}

// A run that read the checkpoint completes, and deletes it as Eino's agents do. The next run writes without reading.
func TestTheRunAfterADeletedOneIsSaved(t *testing.T) {
	c := newCheckpoints(t)
	set(t, c, "a", "1")
	wantCheckpoint(t, c, "a", "1")
	if err := c.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	set(t, c, "a", "2")
	wantCheckpoint(t, c, "a", "2")
}

// Runs that failed have read the checkpoint and write nothing. Later runs write without reading.
func TestAFailedRunLeavesNoRead(t *testing.T) {
	c := newCheckpoints(t)
	set(t, c, "a", "1")
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		if _, found, err := c.Get(ctx, "a"); err != nil || !found {
			t.Fatal(err)
		}
		cancel()
	}
	set(t, c, "a", "2")
	set(t, c, "a", "3")
	wantCheckpoint(t, c, "a", "3")
}
