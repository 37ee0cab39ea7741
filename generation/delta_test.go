package generation_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/generation"
)

// largeFile is the size of the file that the agent of leavesLargeFile writes.
const largeFile = 1 << 20

// leavesLargeFile makes the agent write a file in its first turn that no program can compress.
func (r *rig) leavesLargeFile(more func(turn int) string) {
	r.kind.more = func(turn int) string {
		command := "true"
		if turn == 1 {
			command = fmt.Sprintf("head -c %d /dev/urandom > large", largeFile)
		}
		return command + "; " + more(turn)
	}
}

// describeArchives returns the names of the archives of a run, with the base of each delta.
func (r *rig) describeArchives(run string) (all []string) {
	r.Helper()
	l, err := generation.ReadLog(r.path(), "village")
	if err != nil {
		r.Fatal(err)
	}
	for _, c := range l.Checkpoints {
		if c.Run != run {
			continue
		}
		if c.Error != "" {
			r.Error(c.Error)
		}
		text := strings.TrimSuffix(filepath.Base(c.Path), ".ckpt")
		if c.Base != "" {
			text += " of " + strings.TrimSuffix(c.Base, ".ckpt")
		}
		all = append(all, text)
	}
	return all
}

// TestCheckpointsAreDeltas makes checkpoints of a workspace in which little changes. Those between the first and the last
// one of a generation have the size of the change, and the experiment continues from each of them.
func TestCheckpointsAreDeltas(t *testing.T) {
	r := newRig(t)
	r.leavesLargeFile(func(int) string { return "true" })
	c := r.config(1, 5)
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"gen001-t000001", "gen001-t000002 of gen001-t000001", "gen001-t000003 of gen001-t000001", "gen001-t000004 of gen001-t000001", "gen001-t000005"}
	if diff := cmp.Diff(want, r.describeArchives("village-g001")); diff != "" {
		t.Error(diff)
	}
	large, err := os.ReadFile(r.path("village-g001/agents/Ada/workspace/large"))
	if err != nil {
		t.Fatal(err)
	}
	for tick := 1; tick <= 5; tick++ {
		info, err := os.Stat(r.path("village-g001/checkpoints", fmt.Sprintf("gen001-t%06d.ckpt", tick)))
		if err != nil || (info.Size() > largeFile) != (tick == 1 || tick == 5) {
			t.Errorf("the archive of tick %d has %d bytes, %v", tick, info.Size(), err)
		}
	}
	kept := r.path("kept")
	if err := os.Rename(r.path("village-g001/checkpoints"), kept); err != nil {
		t.Fatal(err)
	}
	for tick := 1; tick <= 5; tick++ {
		c.ResumeFrom = filepath.Join(kept, fmt.Sprintf("gen001-t%06d.ckpt", tick))
		turns := len(r.kind.turns)
		if err := generation.New(c).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(r.kind.turns) - turns; n != 5-tick {
			t.Errorf("from tick %d on, %d turns were made", tick, n)
		}
		r.checkNotes("village-g001", 5)
		if now, err := os.ReadFile(r.path("village-g001/agents/Ada/workspace/large")); err != nil || string(now) != string(large) {
			t.Errorf("from tick %d on, the large file is another one: %v", tick, err)
		}
	}
}

// TestLargeDeltaIsTheLast has a large change. The archive after it is full.
func TestLargeDeltaIsTheLast(t *testing.T) {
	r := newRig(t)
	r.leavesLargeFile(func(turn int) string {
		if turn == 2 {
			return fmt.Sprintf("head -c %d /dev/urandom > other", largeFile)
		}
		return "true"
	})
	if err := generation.New(r.config(1, 5)).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"gen001-t000001", "gen001-t000002 of gen001-t000001", "gen001-t000003", "gen001-t000004 of gen001-t000003", "gen001-t000005"}
	if diff := cmp.Diff(want, r.describeArchives("village-g001")); diff != "" {
		t.Error(diff)
	}
}

// TestBaseIsKept keeps the archive that a kept delta needs, and removes it when no kept archive needs it.
func TestBaseIsKept(t *testing.T) {
	r := newRig(t)
	var seen []string
	r.leavesLargeFile(func(int) string { return "true" })
	r.on = func(e generation.Event) {
		if e.Kind == generation.EventTurn && e.Tick == 4 { // after the checkpoint of tick 4
			seen = r.archives("village-g001")
		}
	}
	c := r.config(1, 5)
	c.Keep = 1
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"gen001-t000001.ckpt", "gen001-t000004.ckpt"}, seen); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"gen001-t000005.ckpt"}, r.archives("village-g001")); diff != "" {
		t.Error(diff)
	}
}

// TestRemovedBase removes the base of the newest archives while the experiment runs, and then makes the agent fail. The
// archive after that is full, so that the generation continues from it.
func TestRemovedBase(t *testing.T) {
	r := newRig(t)
	r.leavesLargeFile(func(turn int) string {
		switch turn {
		case 3:
			return "rm " + r.path("village-g001/checkpoints/gen001-t000001.ckpt")
		case 4:
			return "exit 1"
		}
		return "true"
	})
	c := r.config(1, 5)
	c.Retries = 1
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	begins := r.find(generation.EventBegin)
	if len(begins) != 2 || begins[1].Tick != 3 {
		t.Errorf("it began with %+v", begins)
	}
	r.checkNotes("village-g001", 5)
}

// TestDeltaElsewhere continues from a delta in an installation that has no record of it. It needs the base beside the
// delta, with the name that it had.
func TestDeltaElsewhere(t *testing.T) {
	here, there := newRig(t), newRig(t)
	here.leavesLargeFile(func(int) string { return "true" })
	if err := generation.New(here.config(1, 4)).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	move := func(name, to string) {
		t.Helper()
		if err := os.Rename(here.path("village-g001/checkpoints", name), filepath.Join(there.dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	move("gen001-t000003.ckpt", "moved.ckpt")
	c := there.config(1, 4)
	c.ResumeFrom, c.Trust, c.Ours = filepath.Join(there.dir, "moved.ckpt"), true, func(string) bool { return false }
	err := generation.New(c).Run(t.Context())
	if segno.KindOf(err) != segno.KindNotFound || !strings.Contains(err.Error(), "delta of gen001-t000001.ckpt") || segno.HintOf(err) == "" {
		t.Errorf("without its base: %v", err)
	}
	move("gen001-t000004.ckpt", "gen001-t000001.ckpt") // another archive with the name of the base
	if err := generation.New(c).Run(t.Context()); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("with another archive: %v", err)
	}
	move("gen001-t000001.ckpt", "gen001-t000001.ckpt")
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(there.kind.turns) != 1 {
		t.Errorf("%d turns, want 1", len(there.kind.turns))
	}
	there.checkNotes("village-g001", 4)
	if info, err := os.Stat(there.path("village-g001/agents/Ada/workspace/large")); err != nil || info.Size() != largeFile {
		t.Errorf("the large file is %+v, %v", info, err)
	}
}

// TestDamagedBase damages the base of all checkpoints of a run and makes its agent fail. The generation continues from
// the newest checkpoint, which the store has. Without the store, each checkpoint is reported, and it begins again.
func TestDamagedBase(t *testing.T) {
	for _, hasStore := range []bool{true, false} {
		t.Run(fmt.Sprint("store ", hasStore), func(t *testing.T) {
			r := newRig(t)
			r.leavesLargeFile(func(turn int) string {
				if turn != 4 {
					return "true"
				}
				path := r.path("village-g001/checkpoints/gen001-t000001.ckpt")
				data, err := os.ReadFile(path)
				if err != nil {
					t.Error(err)
				}
				data[len(data)/2] ^= 1
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Error(err)
				}
				return "exit 1"
			})
			c := r.config(1, 4)
			if err := generation.New(c).Run(t.Context()); segno.KindOf(err) != segno.KindIO {
				t.Fatal(err)
			}
			begin, refused := 3, 0
			if !hasStore {
				begin, refused = 0, 3
				place := r.store.Place()
				place.Store = filepath.Join(r.dir, "other store")
				other, err := place.Open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { other.Close() })
				r.store = other
				c = r.config(1, 4)
			}
			if err := generation.New(c).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if bad := r.find(generation.EventBadCheckpoint); len(bad) != refused {
				t.Errorf("refused are %+v", bad)
			}
			if begins := r.find(generation.EventBegin); len(begins) != 2 || begins[1].Tick != begin {
				t.Errorf("it began with %+v", begins)
			}
			r.checkNotes("village-g001", 4)
			if info, err := os.Stat(r.path("village-g001/agents/Ada/workspace/large")); hasStore && (err != nil || info.Size() != largeFile) {
				t.Errorf("the large file is %+v, %v", info, err)
			}
		})
	}
}
