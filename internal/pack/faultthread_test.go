package pack_test

import (
	"context"
	"errors"
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
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
)

// killStore is the variable with the directory of the machine for a process that imports a thread.
const killStore = "SEGNO_TEST_KILL_STORE"

// countingStore calls count before and after each change of a store.
type countingStore struct {
	pack.Store
	count func() error
}

func (s countingStore) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	if err := s.count(); err != nil {
		return segno.Head{}, err
	}
	head, err := s.Store.Commit(ctx, c)
	if counted := s.count(); err == nil {
		err = counted
	}
	return head, err
}

// importWith imports an archive into the store of a machine. Each operation on a file and each
// change of the store is counted.
func importWith(ctx context.Context, dir, name string, faults *faultfs.Faults, count func() error) (*pack.ImportedThread, error) {
	fsys := faults.Wrap(vfs.OS)
	place := local.Place{Store: filepath.Join(dir, "store"), UserHome: dir, Homes: local.Homes{"claude": filepath.Join(dir, "claude")}, Now: time.Now, FS: fsys}
	store, err := place.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	r, err := archive.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	m := &pack.Importer{Store: countingStore{store.Store, count}, Register: store.Register, FS: fsys, Open: func(rec segno.WorkspaceRecord) (segno.Workspace, error) {
		tl, err := store.Timeline(rec, nil)
		if err != nil {
			return nil, err
		}
		return tl.Workspace, nil
	}}
	return m.Thread(ctx, r, pack.Into{Dir: filepath.Join(dir, "in"), TrustSession: true})
}

func importAndDie() int {
	n, err := strconv.Atoi(os.Getenv(killAt))
	if err != nil {
		return 2
	}
	count := func() error {
		if n--; n < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // wait for the signal
		}
		return nil
	}
	if _, err := importWith(context.Background(), os.Getenv(killStore), os.Getenv(killArchive), &faultfs.Faults{When: count}, count); err != nil {
		return 2
	}
	return 0
}

// importTrace returns the operations of a complete import: those on files, and "commit" before and after
// each change of the store.
func importTrace(t *testing.T, name string) (trace []string) {
	t.Helper()
	var faults faultfs.Faults
	commits := 0
	faults.When = func() error { trace = append(trace, ""); return nil }
	_, err := importWith(t.Context(), newMachine(t).dir, name, &faults, func() error {
		trace = append(trace, "commit")
		commits++
		return nil
	})
	must(t, err)
	files := faults.Trace()
	if len(files)+commits != len(trace) || commits == 0 {
		t.Fatalf("%d operations on files, %d on the store, %d in all", len(files), commits, len(trace))
	}
	for i, op := range trace {
		if op == "" {
			trace[i], files = files[0], files[1:]
		}
	}
	return trace
}

// imported is the result of an import: the thread and the files.
type imported struct {
	History []string
	Files   map[string]string
}

// TestAKilledImportIsCompleted kills a process at a sample of its operations, and imports again.
func TestAKilledImportIsCompleted(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	f := longThread(t)
	name, _ := packThread(t, f.store, "t", pack.Options{})
	want := history(t, f.store, "t")
	for _, n := range faultfs.Sample(t, importTrace(t, name)) {
		m := newMachine(t)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), killAt+"="+strconv.Itoa(n), killArchive+"="+name, killStore+"="+m.dir)
		err := cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("operation %d: %v", n, err)
		}
		m.reopen()
		m.completes(n, f.open(name), want)
	}
}

// completes imports again after an incomplete import, and checks the result.
func (m *machine) completes(n int, r *archive.Reader, want []string) {
	m.Helper()
	dir := filepath.Join(m.dir, "in")
	got, err := m.importer().Thread(m.Context(), r, pack.Into{Dir: dir, TrustSession: true})
	if err != nil {
		m.Errorf("operation %d: the second import: %v", n, err)
		return
	}
	if got.Thread != "t" {
		m.Errorf("operation %d: the second import made %s", n, got.Thread)
	}
	files := map[string]string{"a": "two\n", "hard": "two\n", "sub/b": "b\n"}
	if diff := cmp.Diff(imported{want, files}, imported{history(m, m.store, got.Thread), contents(m, dir)}); diff != "" {
		m.Errorf("operation %d: the second import (-want +got):\n%s", n, diff)
	}
	threads := 0
	for range m.store.Threads(m.Context(), segno.ThreadQuery{}) {
		threads++
	}
	if threads != 1 {
		m.Errorf("operation %d: %d threads", n, threads)
	}
	if err := check(m, m); err != nil {
		m.Errorf("operation %d: %v", n, err)
	}
}

// TestAFailedImportIsCompleted fails a sample of the operations, and imports again.
func TestAFailedImportIsCompleted(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	f := longThread(t)
	name, _ := packThread(t, f.store, "t", pack.Options{})
	want := history(t, f.store, "t")
	for _, n := range faultfs.Sample(t, importTrace(t, name)) {
		m := newMachine(t)
		left := n
		fired := false
		fail := func() error {
			if left--; left < 0 {
				fired = true
				return syscall.ENOSPC
			}
			return nil
		}
		_, err := importWith(t.Context(), m.dir, name, &faultfs.Faults{When: fail}, fail)
		if !fired || err == nil {
			t.Errorf("operation %d: %v; it failed: %v", n, err, fired)
		}
		m.reopen()
		m.completes(n, f.open(name), want)
	}
}
