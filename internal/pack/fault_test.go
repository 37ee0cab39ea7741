package pack_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
)

// outcome compares the files that an unpack left on a machine with those of a complete one.
type outcome struct{ files, home map[string]string }

func (m target) outcome(t testing.TB) outcome {
	t.Helper()
	return outcome{tree(t, m.dir), contentsOrNil(t, m.home)}
}

func contentsOrNil(t testing.TB, dir string) map[string]string {
	t.Helper()
	if _, err := os.Lstat(dir); err != nil {
		return nil
	}
	return contents(t, dir)
}

// village packs a world and two agents with sessions.
func village(t *testing.T) *archive.Reader {
	t.Helper()
	f := newFixture(t)
	f.write(f.project, "a", "1")
	f.say("alpha")
	f.sidecars()
	alice := f.checkpoint("alice", nil)
	f.say("beta")
	bob := f.checkpoint("bob", nil)
	world := f.put("opaque")
	name, _ := f.pack(f.checkpoint("run", func(cp *segno.Checkpoint) {
		cp.Session, cp.Workspace, cp.World = nil, nil, &segno.Document{Type: "grid/1", Data: world}
		cp.Members = map[string]segno.CommitID{"alice": alice, "bob": bob}
	}), pack.Options{})
	return f.open(name)
}

// TestAFailedUnpackLeavesNothing fails a sample of the operations, alone and with all following
// ones, for an archive with one agent and for one with two agents.
func TestAFailedUnpackLeavesNothing(t *testing.T) {
	t.Parallel()
	_, r := sample(t)
	for name, r := range map[string]*archive.Reader{"one agent": r, "two agents": village(t)} {
		want, trace := complete(t, r)
		for _, forever := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", forever ", forever), func(t *testing.T) { failSome(t, r, want, trace, forever) })
		}
	}
}

// complete returns the outcome of a complete unpack of r and its operations.
func complete(t *testing.T, r *archive.Reader) (outcome, []string) {
	t.Helper()
	to, faults := newTarget(t), faultfs.FailAt(-1)
	into := to.into()
	into.FS = faults.Wrap(vfs.OS)
	_, err := pack.Unpack(t.Context(), r, into)
	must(t, err)
	return to.outcome(t), faults.Trace()
}

// failSome fails a sample of the operations of an unpack of r. If forever is set, all following
// operations fail, too. want is the outcome of a complete unpack, and trace has its operations.
func failSome(t *testing.T, r *archive.Reader, want outcome, trace []string, forever bool) {
	t.Parallel()
	isComplete := func(o outcome) bool { return len(o.files) == len(want.files) && len(o.home) == len(want.home) }
	for _, n := range faultfs.Sample(t, trace) {
		to := newTarget(t)
		faults := faultfs.FailAt(n)
		faults.Forever = forever
		into := to.into()
		into.FS = faults.Wrap(vfs.OS)
		_, err := pack.Unpack(t.Context(), r, into)
		if !faults.Fired() {
			t.Fatalf("operation %d was not reached: %v", n, err)
		}
		op := faults.Trace()[n]
		left := to.outcome(t)
		switch {
		case err == nil || forever && left.files != nil: // with forever, nothing can be removed after the first fault
			if !isComplete(left) {
				t.Errorf("operation %d (%s): %v; it left %+v", n, op, err, left)
			}
		case !forever:
			if rest := tree(t, filepath.Dir(to.home)); len(rest) > 0 {
				t.Errorf("operation %d (%s): %v; it left %v", n, op, err, rest)
			}
		}
	}
}

// TestAFailedPackLeavesNothing fails a sample of the operations.
func TestAFailedPackLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.say("alpha")
	f.sidecars()
	at := f.checkpoint("t", nil)
	failAt := func(n int) *faultfs.Faults {
		faults, temp := faultfs.FailAt(n), t.TempDir()
		_, cleanup, err := (&pack.Packer{Store: f.store, Temp: temp, FS: faults.Wrap(vfs.OS)}).State(t.Context(), at, pack.Options{})
		if faults.Fired() != (n >= 0) || (err == nil) == faults.Fired() {
			t.Errorf("operation %d: %v; the operations were %v", n, err, faults.Trace())
		}
		must(t, cleanup())
		if left := tree(t, temp); len(left) > 0 {
			t.Errorf("operation %d: it left %v", n, left)
		}
		return faults
	}
	for _, n := range faultfs.Sample(t, failAt(-1).Trace()) {
		failAt(n)
	}
}

// The variables of a process that unpacks and is killed.
const (
	killAt      = "SEGNO_TEST_KILL_AT"
	killArchive = "SEGNO_TEST_KILL_ARCHIVE"
	killDir     = "SEGNO_TEST_KILL_DIR"
	killHome    = "SEGNO_TEST_KILL_HOME"
)

// TestMain unpacks an archive in a process that kills itself at the n-th operation, if these
// variables are set.
func TestMain(m *testing.M) {
	memdir.Use()
	if os.Getenv(killAt) == "" {
		soak.DrawIfShort()
		os.Exit(m.Run())
	}
	if os.Getenv(killStore) != "" {
		os.Exit(importAndDie())
	}
	os.Exit(unpackAndDie())
}

func unpackAndDie() int {
	n, err := strconv.Atoi(os.Getenv(killAt))
	if err != nil {
		return 2
	}
	faults := &faultfs.Faults{When: func() error {
		if n--; n < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // wait for the signal
		}
		return nil
	}}
	r, err := archive.Open(os.Getenv(killArchive))
	if err != nil {
		return 2
	}
	to := target{os.Getenv(killDir), os.Getenv(killHome)}
	into := to.into()
	into.FS = faults.Wrap(vfs.OS)
	if _, err := pack.Unpack(context.Background(), r, into); err != nil {
		return 2
	}
	return 0
}

// TestAKilledUnpackIsRepeated kills a process at a sample of its operations, and unpacks again.
func TestAKilledUnpackIsRepeated(t *testing.T) {
	t.Parallel()
	f, _ := sample(t)
	name, _ := f.pack(f.checkpoint("t", nil), pack.Options{})
	want, trace := complete(t, f.open(name))
	for _, n := range faultfs.Sample(t, trace) {
		to := newTarget(t)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), killAt+"="+strconv.Itoa(n), killArchive+"="+name, killDir+"="+to.dir, killHome+"="+to.home)
		err := cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatal(err)
		}
		left := to.outcome(t)
		if left.files != nil {
			if diff := cmp.Diff(want.files, left.files); diff != "" {
				t.Errorf("killed at %d: the directory is incomplete (-want +got):\n%s", n, diff)
			}
			if len(left.home) != len(want.home) {
				t.Errorf("killed at %d: the directory is there and the session is not: %v", n, left.home)
			}
			continue
		}
		got, err := pack.Unpack(t.Context(), f.open(name), to.into())
		if err != nil {
			t.Errorf("killed at %d: the second unpack: %v", n, err)
			continue
		}
		if diff := cmp.Diff(want.files, to.outcome(t).files); diff != "" || got.Agents[0].Session == "" {
			t.Errorf("killed at %d: the second unpack has the session %q (-want +got):\n%s", n, got.Agents[0].Session, diff)
		}
	}
}

// TestKilledProcessesAreCleanedUp finds the temporary directories of killed and of running
// processes.
func TestKilledProcessesAreCleanedUp(t *testing.T) {
	_, r := sample(t)
	to := newTarget(t)
	parent := filepath.Dir(to.dir)
	old := time.Now().Add(-2 * time.Hour)
	for name, isOld := range map[string]bool{".segno-pack-dead": true, ".segno-pack-new": false, ".segno-pack-busy": true, ".segno-other": true} {
		dir := filepath.Join(parent, name)
		must(t, os.MkdirAll(filepath.Join(dir, "loaded"), 0o700))
		if isOld {
			must(t, os.Chtimes(dir, old, old))
		}
	}
	busy, err := os.Open(filepath.Join(parent, ".segno-pack-busy"))
	must(t, err)
	defer busy.Close()
	must(t, vfs.Lock(t.Context(), busy, 0))
	_, err = pack.Unpack(t.Context(), r, to.into())
	must(t, err)
	got, err := filepath.Glob(filepath.Join(parent, ".segno-*"))
	must(t, err)
	var want []string
	for _, name := range []string{".segno-other", ".segno-pack-busy", ".segno-pack-new"} {
		want = append(want, filepath.Join(parent, name))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("temporary directories (-want +got):\n%s", diff)
	}
}
