package workspaces_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/fleet/workspaces"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/file"
	"github.com/dalsegno/segno/workspace"
)

// killArg makes the test program a worker that is killed; see TestAKilledWorkerLeavesASoundCache.
const killArg = "SEGNO_TEST_KILL"

func TestMain(m *testing.M) {
	if os.Getenv(killArg) != "" {
		if err := beKilled(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	memdir.Use()
	goleak.VerifyTestMain(m)
}

// fixture is a store with snapshots of one workspace, and a cache.
type fixture struct {
	*testing.T
	base  string
	store *file.Store
	reads *reads
	tree  string // the directory from which save makes snapshots
	cache *workspaces.Cache
}

// reads counts the reads of objects from the store.
type reads struct {
	segno.Objects
	n atomic.Int64
}

func (r *reads) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	r.n.Add(1)
	return r.Objects.Get(ctx, name)
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, base: t.TempDir()}
	var err error
	f.store, err = file.Open(t.Context(), filepath.Join(f.base, "store"), file.Options{})
	f.must(err)
	t.Cleanup(func() { f.must(f.store.Close()) })
	f.reads = &reads{Objects: f.store.Objects()}
	f.tree = filepath.Join(f.base, "tree")
	f.must(os.Mkdir(f.tree, 0o755))
	f.cache = f.open(workspaces.Options{})
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) open(o workspaces.Options) *workspaces.Cache {
	f.Helper()
	o.Objects = f.reads
	c, err := workspaces.Open(filepath.Join(f.base, "cache"), o)
	f.must(err)
	return c
}

func write(dir, name, text string) error {
	path := filepath.Join(dir, name)
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
}

// save writes files to the tree, "" to remove one, and returns a snapshot of it.
func (f *fixture) save(files map[string]string) segno.Snapshot {
	f.Helper()
	for name, text := range files {
		if text == "" {
			f.must(os.RemoveAll(filepath.Join(f.tree, name)))
			continue
		}
		f.must(write(f.tree, name, text))
	}
	return f.snapshot(f.tree)
}

func (f *fixture) snapshot(dir string) segno.Snapshot {
	f.Helper()
	d, err := workspace.Open(dir, workspace.Options{ID: "w", Objects: f.store.Objects()})
	f.must(err)
	batch := f.store.Objects().Batch()
	defer batch.Close()
	s, err := d.Snapshot(f.Context(), batch)
	f.must(err)
	staged, err := batch.Stage(f.Context())
	f.must(err)
	f.must(f.store.Objects().Keep(f.Context(), staged))
	return s
}

func (f *fixture) checkout(c *workspaces.Cache, s segno.Snapshot) *workspaces.Checkout {
	f.Helper()
	d, err := c.Checkout(f.Context(), s)
	f.must(err)
	if len(d.Missing) > 0 {
		f.Errorf("missing: %v", d.Missing)
	}
	f.sameFiles(d, s)
	return d
}

// sameFiles checks that the files of a directory are those of a snapshot, except those that no snapshot contains.
func (f *fixture) sameFiles(d *workspaces.Checkout, s segno.Snapshot) {
	f.Helper()
	w, err := workspace.Open(d.Files(), workspace.Options{ID: "w", Objects: f.store.Objects()})
	f.must(err)
	changes, err := w.Diff(f.Context(), f.snapshot(d.Files()).Tree, s.Tree)
	f.must(err)
	for _, c := range changes {
		if c.From.Type != segno.EntityProtected && c.To.Type != segno.EntityProtected {
			f.Errorf("%s is %+v, want %+v", c.Path, c.From, c.To)
		}
	}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if rel, relErr := filepath.Rel(dir, path); relErr == nil {
			all[rel] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(all))
}

// TestADirectoryIsUsedAgain checks out several states, while the agent changes files and leaves others.
func TestADirectoryIsUsedAgain(t *testing.T) {
	f := newFixture(t)
	states := []segno.Snapshot{
		f.save(map[string]string{"a": "1", "dir/b": "2", "package.json": "{}", "node_modules/x.js": "x"}), // node_modules is protected
		f.save(map[string]string{"a": "1b", "dir": "", "c/d/e": "3"}),
		f.save(map[string]string{"c/d": "", "c": "", "dir/b": "2"}),
	}
	root := ""
	for n, i := range []int{0, 1, 2, 2, 0, 1} {
		d := f.checkout(f.cache, states[i])
		if d.IsWarm() != (n > 0) || n > 0 && d.Root() != root {
			t.Errorf("checkout %d uses %s, want %s", n, d.Root(), root)
		}
		root = d.Root()
		if got := slices.Contains(list(t, d.Files()), "node_modules/cached"); got != (n > 0) {
			t.Errorf("checkout %d: whether the protected directory has its file: %v", n, got)
		}
		f.must(write(d.Files(), "node_modules/cached", "y"))
		f.must(write(d.Files(), "a", "changed"))
		f.must(write(d.Files(), "new/file", "new"))
		f.must(d.Release(t.Context(), segno.Hash{}))
	}
	if _, err := f.cache.Checkout(t.Context(), segno.Snapshot{}); segno.KindOf(err) != segno.KindInvalid {
		t.Errorf("a snapshot without a workspace: %v", err)
	}
}

// TestAWarmCheckoutWritesNothing checks that a directory that already equals the snapshot costs no read from the store and no
// write of a file, and that a new directory with known contents costs no read, either.
func TestAWarmCheckoutWritesNothing(t *testing.T) {
	f := newFixture(t)
	files := map[string]string{}
	for i := range 50 {
		files["dir/"+strconv.Itoa(i)] = strings.Repeat("x", i+1)
	}
	s := f.save(files)
	d := f.checkout(f.cache, s)
	inode := func() any {
		fi, err := os.Stat(filepath.Join(d.Files(), "dir/7"))
		f.must(err)
		return fi.Sys().(*syscall.Stat_t).Ino
	}
	before := inode()
	f.must(d.Release(t.Context(), s.Tree))
	reads := f.reads.n.Load()
	faults := faultfs.FailAt(-1)
	d = f.checkout(f.open(workspaces.Options{FS: faults.Wrap(vfs.OS)}), s)
	second := f.checkout(f.cache, s) // the first one is in use
	if second.IsWarm() || second.Root() == d.Root() {
		t.Error("two checkouts have one directory")
	}
	if got := f.reads.n.Load(); got != reads {
		t.Errorf("%d reads from the store", got-reads)
	}
	if inode() != before {
		t.Error("a file was written again")
	}
	if n := len(faults.Trace()); n > 40 {
		t.Errorf("%d operations: %q", n, faults.Trace())
	}
	f.must(d.Release(t.Context(), s.Tree))
	f.must(second.Release(t.Context(), s.Tree))
}

// TestNewFilesHaveTheirTimes checks the times in a new directory, and that a used one gets newer files than before.
func TestNewFilesHaveTheirTimes(t *testing.T) {
	f := newFixture(t)
	long := time.Now().Add(-time.Hour).Truncate(time.Second)
	f.must(write(f.tree, "a", "1"))
	f.must(os.Chtimes(filepath.Join(f.tree, "a"), long, long))
	s := f.save(nil)
	d := f.checkout(f.cache, s)
	mtime := func() time.Time {
		fi, err := os.Stat(filepath.Join(d.Files(), "a"))
		f.must(err)
		return fi.ModTime()
	}
	if got := mtime(); !got.Equal(long) {
		t.Errorf("the time of a new file is %v, want %v", got, long)
	}
	f.must(write(d.Files(), "a", "2"))
	f.must(d.Release(t.Context(), segno.Hash{}))
	d = f.checkout(f.cache, s)
	if got := mtime(); got.Equal(long) { // a build made from "2" would look newer
		t.Errorf("the time of a file that was written again is %v", got)
	}
	f.must(d.Release(t.Context(), s.Tree))
}

// TestTwoWorkersNeverShareADirectory checks out one workspace many times at once, with two caches over one directory.
func TestTwoWorkersNeverShareADirectory(t *testing.T) {
	f := newFixture(t)
	states := []segno.Snapshot{f.save(map[string]string{"a": "1"}), f.save(map[string]string{"a": "2", "b": "3"})}
	caches := []*workspaces.Cache{f.cache, f.open(workspaces.Options{MaxBytes: 1})} // the second one removes all that it can
	var all sync.WaitGroup
	var users sync.Map
	errs := make(chan error, 1000)
	for w := range 6 {
		all.Go(func() {
			for n := range 8 {
				s := states[(w+n)%2]
				d, err := caches[w%2].Checkout(t.Context(), s)
				if err != nil {
					errs <- err
					return
				}
				if other, used := users.LoadOrStore(d.Root(), w); used {
					errs <- fmt.Errorf("workers %d and %v both have %s", w, other, d.Root())
				}
				if data, err := os.ReadFile(filepath.Join(d.Files(), "a")); err != nil || string(data) != strconv.Itoa((w+n)%2+1) {
					errs <- fmt.Errorf("the file contains %q, %v", data, err)
				}
				errs <- write(d.Files(), "a", "changed")
				users.Delete(d.Root())
				errs <- d.Release(t.Context(), segno.Hash{})
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestAProcessThatIsBeingStartedHoldsNoDirectory releases a directory while the program starts a process for another thread. For a
// moment, that process has the files that are open. The directory is used again.
func TestAProcessThatIsBeingStartedHoldsNoDirectory(t *testing.T) {
	f := newFixture(t)
	s := f.save(map[string]string{"a": "1"})
	d := f.checkout(f.cache, s)
	fd, err := d.Inherit()
	f.must(err)
	defer syscall.Close(fd)
	f.must(d.Release(t.Context(), s.Tree))
	d = f.checkout(f.cache, s)
	if !d.IsWarm() {
		t.Error("the directory is not used again")
	}
	f.must(d.Release(t.Context(), s.Tree))
}

// TestADirectoryOfADeadWorkerIsNotUsed checks that a directory that was not released, or was used before the machine
// restarted, is removed.
func TestADirectoryOfADeadWorkerIsNotUsed(t *testing.T) {
	f := newFixture(t)
	s := f.save(map[string]string{"a": "1"})
	d := f.checkout(f.cache, s)
	dead := d.Root()
	f.must(d.Abandon())
	d = f.checkout(f.cache, s)
	if d.IsWarm() || d.Root() == dead {
		t.Error("the directory of a dead worker is used again")
	}
	if _, err := os.Lstat(dead); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the directory of a dead worker is still there:", err)
	}
	f.must(d.Release(t.Context(), s.Tree))
	if now := filepath.Base(d.Root()); now != "2" {
		t.Errorf("the new directory is %s", now)
	}
	f.cache.SetBoot("another start")
	if d = f.checkout(f.cache, s); d.IsWarm() {
		t.Error("a directory is used again after a restart of the machine")
	}
	f.must(d.Release(t.Context(), s.Tree))
}

// TestAFileIsNotShared changes a large file in place. The cache and other directories keep their content.
func TestAFileIsNotShared(t *testing.T) {
	f := newFixture(t)
	s := f.save(map[string]string{"large": strings.Repeat("0123456789abcdef", 64<<10)})
	first := f.checkout(f.cache, s)
	large, err := os.OpenFile(filepath.Join(first.Files(), "large"), os.O_RDWR, 0)
	f.must(err)
	_, err = large.WriteAt([]byte("changed"), 4096)
	f.must(errors.Join(err, large.Close()))
	second := f.checkout(f.cache, s)
	f.must(first.Release(t.Context(), segno.Hash{}))
	f.must(f.checkout(f.cache, s).Release(t.Context(), s.Tree))
	f.must(second.Release(t.Context(), s.Tree))
}

// TestADamagedObjectIsReadAgain damages each file of the objects.
func TestADamagedObjectIsReadAgain(t *testing.T) {
	f := newFixture(t)
	s := f.save(map[string]string{"a": "1", "dir/b": "2"})
	first := f.checkout(f.cache, s)
	n := 0
	f.must(filepath.WalkDir(filepath.Join(f.base, "cache", "objects"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		n++
		return os.WriteFile(path, []byte("damaged"), 0o600)
	}))
	if n < 4 { // two contents, two trees
		t.Errorf("%d objects are kept", n)
	}
	second := f.checkout(f.cache, s)
	f.must(first.Release(t.Context(), s.Tree))
	f.must(second.Release(t.Context(), s.Tree))
}

// TestAMissingObjectIsAnError checks out a snapshot whose objects the store lacks.
func TestAMissingObjectIsAnError(t *testing.T) {
	f := newFixture(t)
	_, err := f.cache.Checkout(t.Context(), segno.Snapshot{Workspace: "w", Tree: segno.HashOf([]byte("none"))})
	if segno.KindOf(err) != segno.KindCorrupt {
		t.Errorf("the error is %v", err)
	}
	if names := list(t, filepath.Join(f.base, "cache", "trash")); len(names) != 1 {
		t.Errorf("the trash contains %q", names)
	}
}

// TestTheOldestIsRemoved makes a cache that is too large.
func TestTheOldestIsRemoved(t *testing.T) {
	f := newFixture(t)
	now := time.Now()
	c := f.open(workspaces.Options{MaxBytes: 400 << 10, Now: func() time.Time { now = now.Add(time.Minute); return now }})
	var roots []string
	for i := range 6 {
		s := f.save(map[string]string{"large": strings.Repeat(strconv.Itoa(i), 100<<10)})
		s.Workspace = segno.WorkspaceID("w" + strconv.Itoa(i))
		d := f.checkout(c, s)
		roots = append(roots, d.Root())
		f.must(d.Release(t.Context(), s.Tree))
	}
	exists := func(i int) bool { _, err := os.Lstat(roots[i]); return err == nil }
	if exists(0) || exists(1) || !exists(5) {
		t.Errorf("of the directories, these exist: %v %v … %v", exists(0), exists(1), exists(5))
	}
	var total int64
	f.must(filepath.WalkDir(filepath.Join(f.base, "cache"), func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		fi, err := e.Info()
		if err == nil {
			total += fi.Size()
		}
		return err
	}))
	if total > 400<<10 {
		t.Errorf("the cache has %d bytes", total)
	}
}

// TestRoomIsMadeOfADeadWorkersDirectory checks that no other directory gets the path of one that was removed to make room, if
// the processes of a dead worker may still use it.
func TestRoomIsMadeOfADeadWorkersDirectory(t *testing.T) {
	f := newFixture(t)
	c := f.open(workspaces.Options{MaxBytes: 1})
	s := f.save(map[string]string{"a": "1"})
	d := f.checkout(c, s)
	dead := d.Root()
	f.must(d.Abandon())
	other := s
	other.Workspace = "other"
	f.must(f.checkout(c, other).Release(t.Context(), s.Tree)) // makes room
	if _, err := os.Lstat(dead); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("the directory of the dead worker is still there:", err)
	}
	d = f.checkout(c, s)
	if d.Root() == dead {
		t.Error("a new directory has the path of the dead worker's")
	}
	f.must(d.Release(t.Context(), s.Tree))
}

// TestAFullDisk fails each operation of a checkout, as a full disk does, and then checks out again.
func TestAFullDisk(t *testing.T) {
	f := newFixture(t)
	s := f.save(map[string]string{"a": "1", "dir/b": "2"})
	trace := faultfs.FailAt(-1)
	f.must(f.checkout(f.open(workspaces.Options{FS: trace.Wrap(vfs.OS)}), s).Discard())
	f.must(os.RemoveAll(filepath.Join(f.base, "cache")))
	f.open(workspaces.Options{})
	for _, n := range faultfs.Sample(t, trace.Trace()) {
		faults := faultfs.FailAt(n)
		faults.Forever = true
		c, err := workspaces.Open(filepath.Join(f.base, "cache"), workspaces.Options{Objects: f.reads, FS: faults.Wrap(vfs.OS)})
		var d *workspaces.Checkout
		if err == nil {
			d, err = c.Checkout(t.Context(), s)
		}
		if err == nil {
			err = d.Release(t.Context(), s.Tree)
		}
		if err == nil && faults.Fired() || err != nil && (segno.KindOf(err) != segno.KindIO || !errors.Is(err, syscall.ENOSPC)) {
			t.Errorf("operation %d: %v", n, err)
		}
		f.must(f.checkout(f.cache, s).Release(t.Context(), s.Tree))
	}
}

// TestAKilledWorkerLeavesASoundCache kills a process with SIGKILL at an operation of its checkouts.
func TestAKilledWorkerLeavesASoundCache(t *testing.T) {
	f := newFixture(t)
	states := []segno.Snapshot{f.save(map[string]string{"a": "1", "dir/b": "2"}), f.save(map[string]string{"a": "1b", "dir": "", "c/d/e": "3"})}
	var trees []string
	for _, s := range states {
		trees = append(trees, s.Tree.String(), s.Times.String())
	}
	for _, seed := range soak.Seeds(t, 3, 300) {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), killArg+"="+strconv.FormatUint(seed%70, 10), "SEGNO_TEST_BASE="+f.base,
			"SEGNO_TEST_TREES="+strings.Join(trees, " "))
		out, err := cmd.CombinedOutput()
		if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
			t.Fatalf("the worker was not killed: %v\n%s", err, out)
		}
		for _, s := range states {
			f.must(f.checkout(f.cache, s).Release(t.Context(), s.Tree))
		}
	}
}

// beKilled checks out states until it has made the number of operations that the environment names.
func beKilled(ctx context.Context) error {
	limit, err := strconv.Atoi(os.Getenv(killArg))
	if err != nil {
		return err
	}
	base := os.Getenv("SEGNO_TEST_BASE")
	store, err := file.Open(ctx, filepath.Join(base, "store"), file.Options{})
	if err != nil {
		return err
	}
	var n atomic.Int64
	faults := &faultfs.Faults{When: func() error {
		if n.Add(1) > int64(limit) {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	}}
	hashes := strings.Fields(os.Getenv("SEGNO_TEST_TREES"))
	for i := 0; ; i = (i + 2) % len(hashes) {
		c, err := workspaces.Open(filepath.Join(base, "cache"), workspaces.Options{Objects: store.Objects(), FS: faults.Wrap(vfs.OS)})
		if err != nil {
			return err
		}
		s := segno.Snapshot{Workspace: "w"}
		if err := errors.Join(s.Tree.UnmarshalText([]byte(hashes[i])), s.Times.UnmarshalText([]byte(hashes[i+1]))); err != nil {
			return err
		}
		d, err := c.Checkout(ctx, s)
		if err == nil {
			err = write(d.Files(), "left by the worker", "x")
		}
		if err == nil {
			err = d.Release(ctx, segno.Hash{})
		}
		if err != nil {
			return err
		}
	}
}
