package spool

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

func turn(key string) timeline.OpenTurn {
	return timeline.OpenTurn{Key: segno.TurnKey(key), Agent: "claude", Prompt: "do it", Start: time.Unix(100, 0).UTC(), Process: timeline.Process{PID: 7}}
}

func entry(id string) segno.Entry {
	return segno.Entry{Kind: segno.EntryIntent, ID: id, Name: "Bash", Body: json.RawMessage(`{"command":"ls"}`)}
}

func ids(es []segno.Entry) (out []string) {
	for _, e := range es {
		out = append(out, e.ID)
	}
	return out
}

func TestATurnOutlivesItsProcess(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	if err := New(dir, vfs.OS).SaveTurn(ctx, turn("k")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		if err := New(dir, vfs.OS).AppendEntry(ctx, "k", entry(id)); err != nil {
			t.Fatal(err)
		}
	}
	d := New(dir, vfs.OS)
	turns, err := d.Turns(ctx)
	if diff := cmp.Diff([]timeline.OpenTurn{turn("k")}, turns); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
	es, bad, err := d.Entries(ctx, "k")
	if diff := cmp.Diff([]string{"a", "b"}, ids(es)); err != nil || bad != 0 || diff != "" {
		t.Fatal(err, bad, diff)
	}
	if err := d.DeleteTurn(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	if turns, err := d.Turns(ctx); err != nil || len(turns) != 0 {
		t.Fatal("the turn is still open:", turns, err)
	}
}

func TestOpeningAgainKeepsTheEntries(t *testing.T) {
	ctx, d := t.Context(), New(t.TempDir(), vfs.OS)
	if err := d.AppendEntry(ctx, "k", entry("early")); err != nil { // an entry may come before its turn
		t.Fatal(err)
	}
	if turns, err := d.Turns(ctx); err != nil || len(turns) != 0 {
		t.Fatal("an entry alone opened a turn:", turns, err)
	}
	for _, prompt := range []string{"first", "second"} {
		o := turn("k")
		o.Prompt = prompt
		if err := d.SaveTurn(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	turns, err := d.Turns(ctx)
	if err != nil || len(turns) != 1 || turns[0].Prompt != "second" {
		t.Fatal(turns, err)
	}
	if es, _, err := d.Entries(ctx, "k"); err != nil || len(es) != 1 {
		t.Fatal(es, err)
	}
}

func TestAMessageIsOneEntryUntilItIsComplete(t *testing.T) {
	ctx, d := t.Context(), New(t.TempDir(), vfs.OS)
	if err := d.SaveTurn(ctx, turn("k")); err != nil {
		t.Fatal(err)
	}
	say := func(id, text string) segno.Entry {
		return segno.Entry{Kind: segno.EntryMessage, ID: id, Body: json.RawMessage(text)}
	}
	for _, e := range []segno.Entry{say("1", `"a"`), entry("1"), say("1", `"ab"`), say("", `"x"`), say("", `"y"`), say("2", `"c"`), say("1", `"abc"`)} {
		if err := d.AppendEntry(ctx, "k", e); err != nil {
			t.Fatal(err)
		}
	}
	es, _, err := d.Entries(ctx, "k")
	want := []segno.Entry{say("1", `"abc"`), entry("1"), say("", `"x"`), say("", `"y"`), say("2", `"c"`)}
	if diff := cmp.Diff(want, es); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestATornLineDamagesNoOtherLine(t *testing.T) {
	ctx, d := t.Context(), New(t.TempDir(), vfs.OS)
	if err := d.SaveTurn(ctx, turn("k")); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(d.turnFile("k"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("\n{\"entry\":{\"id\":\"torn"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := d.AppendEntry(ctx, "k", entry("after")); err != nil {
		t.Fatal(err)
	}
	es, bad, err := d.Entries(ctx, "k")
	if diff := cmp.Diff([]string{"after"}, ids(es)); err != nil || bad != 1 || diff != "" {
		t.Fatal(err, bad, diff)
	}
}

func TestConcurrentWritersLoseNoEntry(t *testing.T) {
	ctx, d := t.Context(), New(t.TempDir(), vfs.OS)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if err := d.AppendEntry(ctx, "k", entry("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if es, bad, err := d.Entries(ctx, "k"); err != nil || bad != 0 || len(es) != 400 {
		t.Fatal(len(es), bad, err)
	}
}

func TestSweepRemovesEntriesWithoutATurn(t *testing.T) {
	ctx, d := t.Context(), New(t.TempDir(), vfs.OS)
	for _, key := range []segno.TurnKey{"open", "orphan"} {
		if err := d.AppendEntry(ctx, key, entry("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.SaveTurn(ctx, turn("open")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		before time.Time
		want   int
	}{{time.Now().Add(-time.Hour), 1}, {time.Now().Add(time.Hour), 0}} {
		if err := d.Sweep(ctx, tt.before); err != nil {
			t.Fatal(err)
		}
		if es, _, err := d.Entries(ctx, "orphan"); err != nil || len(es) != tt.want {
			t.Errorf("%d entries are left, want %d (%v)", len(es), tt.want, err)
		}
	}
	if es, _, err := d.Entries(ctx, "open"); err != nil || len(es) != 1 {
		t.Error("an open turn lost its entries:", es, err)
	}
}

func TestDeferredCommitsAreAppliedOnceInOrder(t *testing.T) {
	ctx, d := t.Context(), New(t.TempDir(), vfs.OS)
	for _, id := range []segno.CommitID{"1", "2", "3"} {
		if err := d.Defer(ctx, []segno.Commit{{ID: id, Thread: "t"}}); err != nil {
			t.Fatal(err)
		}
	}
	var got []segno.CommitID
	busy := segno.NewError(segno.KindBusy, "", "", nil)
	err := d.ReplayDeferred(ctx, func(c segno.Commit) error {
		if c.ID == "2" {
			return busy
		}
		got = append(got, c.ID)
		return nil
	})
	if !errors.Is(err, busy) {
		t.Fatal("the error of apply was lost:", err)
	}
	if err := d.ReplayDeferred(ctx, func(c segno.Commit) error { got = append(got, c.ID); return nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]segno.CommitID{"1", "2", "3"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestACommitThatCannotBeAppliedIsSetAside(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	d := New(dir, vfs.OS)
	for _, id := range []segno.CommitID{"1", "2"} {
		if err := d.Defer(ctx, []segno.Commit{{ID: id}}); err != nil {
			t.Fatal(err)
		}
	}
	var got []segno.CommitID
	apply := func(c segno.Commit) error {
		if c.ID == "1" {
			return segno.NewError(segno.KindConflict, "", "", nil)
		}
		got = append(got, c.ID)
		return nil
	}
	if err := d.ReplayDeferred(ctx, apply); segno.KindOf(err) != segno.KindConflict {
		t.Fatal(err)
	}
	if err := d.ReplayDeferred(ctx, apply); err != nil || len(got) != 1 {
		t.Fatal("the commits after it were not applied:", got, err)
	}
	if _, err := os.Stat(dir + "/deferred/000000000001.json.failed"); err != nil {
		t.Error(err)
	}
}

func TestADamagedDeferredCommitIsSetAside(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	d := New(dir, vfs.OS)
	if err := d.Defer(ctx, []segno.Commit{{ID: "1"}}); err != nil {
		t.Fatal(err)
	}
	name := dir + "/deferred/000000000001.json"
	if err := os.WriteFile(name, []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.ReplayDeferred(ctx, func(segno.Commit) error { return nil }); segno.KindOf(err) != segno.KindCorrupt {
		t.Fatal(err)
	}
	if failed, err := d.Failed(); err != nil || len(failed) != 1 || failed[0] != name+failedSuffix {
		t.Error("the evidence is gone:", failed, err)
	}
	if err := d.ReplayDeferred(ctx, func(segno.Commit) error { return nil }); err != nil {
		t.Error("it stands in the way of others:", err)
	}
}

// TestEachCommitThatCannotBeAppliedIsKept defers a commit after an earlier one was set aside. Both cannot be applied.
func TestEachCommitThatCannotBeAppliedIsKept(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	d := New(dir, vfs.OS)
	refuse := func(segno.Commit) error { return segno.NewError(segno.KindConflict, "", "", nil) }
	for _, id := range []segno.CommitID{"first", "second", "third"} {
		if err := d.Defer(ctx, []segno.Commit{{ID: id}}); err != nil {
			t.Fatal(err)
		}
		if err := d.ReplayDeferred(ctx, refuse); segno.KindOf(err) != segno.KindConflict {
			t.Fatal(err)
		}
	}
	failed, err := d.Failed()
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, name := range failed {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, string(data))
	}
	for i, id := range []string{"first", "second", "third"} {
		if len(kept) != 3 || !strings.Contains(kept[i], id) {
			t.Fatalf("the files %q, without the %s commit: %q", failed, id, kept)
		}
	}
}

func TestOneHolderOfALock(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	unlock, err := New(dir, vfs.OS).Lock(ctx, "w")
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := New(dir, vfs.OS).Lock(short, "w"); segno.KindOf(err) != segno.KindBusy {
		t.Fatal("two holders:", err)
	}
	unlock()
	again, err := New(dir, vfs.OS).Lock(ctx, "w")
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// TestEveryFailureIsReported fails each operation of each call. The spool is as before the call, or as
// after it.
func TestEveryFailureIsReported(t *testing.T) {
	verbs := map[string]func(context.Context, *Dir) error{
		"open":  func(ctx context.Context, d *Dir) error { return d.SaveTurn(ctx, turn("k")) },
		"close": func(ctx context.Context, d *Dir) error { return d.DeleteTurn(ctx, "old") },
		"defer": func(ctx context.Context, d *Dir) error { return d.Defer(ctx, []segno.Commit{{ID: "c"}}) },
		"write": func(ctx context.Context, d *Dir) error { return d.WritePlan(ctx, "w", json.RawMessage(`"new"`)) },
		"clear": func(ctx context.Context, d *Dir) error { return d.ClearPlan(ctx, "w") },
	}
	for name, verb := range verbs {
		t.Run(name, func(t *testing.T) {
			for n := 0; ; n++ {
				ctx, dir := t.Context(), t.TempDir()
				sound := New(dir, vfs.OS)
				if err := errors.Join(sound.SaveTurn(ctx, turn("old")), sound.WritePlan(ctx, "w", json.RawMessage(`"old"`))); err != nil {
					t.Fatal(err)
				}
				faults := faultfs.FailAt(n)
				err := verb(ctx, New(dir, faults.Wrap(vfs.OS)))
				if err == nil && faults.Fired() {
					t.Fatalf("operation %d failed and nobody said so: %v", n, faults.Trace())
				}
				turns, turnErr := sound.Turns(ctx)
				plan, planErr := sound.ReadPlan(ctx, "w")
				if turnErr != nil || planErr != nil {
					t.Fatal(turnErr, planErr)
				}
				if len(turns) == 0 && name != "close" {
					t.Fatalf("operation %d lost an open turn", n)
				}
				if p := string(plan); p != `"old"` && p != `"new"` && (p != "" || name != "clear") {
					t.Fatalf("operation %d left the plan %q", n, p)
				}
				if err == nil {
					return
				}
				if err := verb(ctx, sound); err != nil {
					t.Fatalf("after operation %d failed, trying again: %v", n, err)
				}
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\n{\"open\":{\"key\":\"k\"}}\n\n{\"entry\":{\"id\":\"a\"}}\n"))
	f.Add([]byte("{\"open\":null}\n\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		name := t.TempDir() + "/x.jsonl"
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := read(t.Context(), nil, name, true); err != nil {
			t.Error("bytes alone must not be an error:", err)
		}
	})
}
