package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/workspace"
)

// watchRig is a tree with a watcher. The model is a scan without index, which reads every file.
type watchRig struct {
	*fixture
	watch *workspace.Watch
	model *workspace.Dir
}

type openWatch func(ctx context.Context, root, private string, report func(workspace.WatchReport)) (*workspace.Watch, error)

func newWatchRig(t testing.TB, open openWatch) *watchRig {
	t.Helper()
	p := newFixture(t)
	w, err := open(t.Context(), p.root, filepath.Dir(p.root), nil)
	must(t, err)
	w.SetSettle(0)
	t.Cleanup(func() { must(t, w.Close()) })
	p.open(workspace.Options{Index: p.index, Watch: w})
	return &watchRig{p, w, p.other(workspace.Options{})}
}

// watched takes a snapshot that relies on the watcher.
func (p *watchRig) watched() segno.Snapshot {
	p.t.Helper()
	b := p.store.Batch()
	defer b.Close()
	s, err := p.dir.SnapshotWatched(ctx(p.t), b)
	must(p.t, err)
	_, err = b.Stage(ctx(p.t))
	must(p.t, err)
	return s
}

// agrees checks that a snapshot with the watcher equals one that reads everything.
func (p *watchRig) agrees(what string) {
	p.t.Helper()
	got, want := p.watched(), p.saveBy(p.model)
	if got.Tree == want.Tree && got.Times == want.Times && got.Files == want.Files && got.Bytes == want.Bytes && slices.Equal(got.Unread, want.Unread) {
		return
	}
	p.t.Fatalf("%s: with the watcher %d files, %d bytes, without %d files, %d bytes\nmissed %v", what, got.Files, got.Bytes, want.Files, want.Bytes, p.diff(got, want))
}

// narrowed checks that n scans were narrowed since the last call.
func (p *watchRig) narrowed(do func()) int {
	before := p.watch.Stats().Narrowed
	do()
	return p.watch.Stats().Narrowed - before
}

func eachQueue(t *testing.T, test func(t *testing.T, open openWatch)) {
	t.Run("fanotify", func(t *testing.T) { test(t, workspace.NewWatch) })
	t.Run("inotify", func(t *testing.T) { test(t, workspace.NewInotifyWatch) })
}

// TestWatchedScanEqualsFullScan changes a tree in thousands of ways, some while scans run. After each series of changes, a
// scan with the watcher must find what a scan of everything finds.
func TestWatchedScanEqualsFullScan(t *testing.T) {
	eachQueue(t, func(t *testing.T, open openWatch) {
		for _, seed := range soak.Seeds(t, 2, 600) {
			r := rand.New(rand.NewPCG(seed, 28))
			p := newWatchRig(t, open)
			m := &mutator{root: p.root, r: r, scan: func() { p.watched() }}
			p.fill(m, 150)
			p.agrees("at first")
			narrowed := p.narrowed(func() {
				for n := range 40 {
					if n%4 == 3 {
						m.changeDuring(func() { p.watched() })
					} else {
						for range 1 + r.IntN(4) {
							m.change()
						}
					}
					p.agrees(fmt.Sprintf("seed %d, series %d, %s", seed, n, strings.Join(m.log, "; ")))
					m.log = nil
				}
			})
			if narrowed < 10 {
				t.Errorf("seed %d: only %d scans were narrowed", seed, narrowed)
			}
			if missed, err := p.watch.Check(t.Context()); err != nil || len(missed) > 0 {
				t.Errorf("seed %d: missed %q, %v", seed, missed, err)
			}
			removeAll(t, p.root)
		}
	})
}

// fill makes n changes, after it made directories that no change removes, so that a later change affects a part of the tree.
func (p *watchRig) fill(m *mutator, n int) {
	for i := range 20 {
		p.write(fmt.Sprintf("keep%d/a", i), "one")
	}
	for range n {
		m.change()
	}
}

// mutator changes a tree at random.
type mutator struct {
	root string
	r    *rand.Rand
	scan func()
	log  []string
	// concurrent is set while a scan runs. The mutator then makes no hard links: see its method link.
	concurrent bool
}

var mutatorNames = []string{"a", "b", "c", "d", "sub", "lib", "CACHEDIR.TAG", "node_modules", "package.json", "pyvenv.cfg", "venv", ".git", "long name", "ü"}

func (m *mutator) path() string {
	all := dirs(m.root)
	return m.root + all[m.r.IntN(len(all))] + "/" + mutatorNames[m.r.IntN(len(mutatorNames))]
}

// file returns a random regular file, or a new path.
func (m *mutator) file() string {
	var files []string
	_ = filepath.WalkDir(m.root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return nil
	})
	if len(files) == 0 {
		return m.path()
	}
	return files[m.r.IntN(len(files))]
}

// changeDuring makes changes while do runs.
func (m *mutator) changeDuring(do func()) {
	m.concurrent = true
	defer func() { m.concurrent = false }()
	var wait sync.WaitGroup
	wait.Go(func() {
		for range 6 {
			m.change()
		}
	})
	do()
	wait.Wait()
}

func (m *mutator) change() {
	names := []string{"write", "write", "write", "append", "append", "truncate", "chmod", "utimes", "samesize", "xattr", "rename", "rename", "exchange", "remove", "removeall", "mkdir", "deep", "deep",
		"symlink", "link", "mmap", "fallocate", "tag", "replace"}
	what := names[m.r.IntN(len(names))]
	switch m.r.IntN(50) { // these change much
	case 0:
		what = "shell"
	case 1:
		what = "ignore"
	}
	path := m.path()
	m.log = append(m.log, what+" "+strings.TrimPrefix(path, m.root))
	m.apply(what, path)
}

// apply makes one change. It ignores changes that are not possible.
func (m *mutator) apply(what, path string) {
	content := []byte(strings.Repeat("x", m.r.IntN(40)) + fmt.Sprint(m.r.IntN(9)))
	if fi, err := os.Lstat(path); err == nil && fi.Mode()&os.ModeSymlink != 0 && what != "rename" {
		_ = os.Remove(path) // never write through a link: it may point out of the tree
	}
	switch what {
	case "write":
		_ = os.WriteFile(path, content, 0o644)
	case "append":
		if f, err := os.OpenFile(m.file(), os.O_WRONLY|os.O_APPEND, 0); err == nil {
			_, _ = f.Write(content)
			f.Close()
		}
	case "truncate":
		_ = os.Truncate(m.file(), int64(m.r.IntN(30)))
	case "chmod":
		_ = os.Chmod(path, os.FileMode(0o700|m.r.IntN(0o100)))
	case "utimes":
		_ = os.Chtimes(m.file(), time.Time{}, time.Unix(int64(m.r.IntN(1<<30)), 7))
	case "samesize":
		m.sameSize(m.file())
	case "xattr":
		_ = unix.Lsetxattr(path, "user.a", content, 0)
	case "rename":
		_ = os.Rename(path, m.path())
	case "exchange":
		_ = unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, m.path(), unix.RENAME_EXCHANGE)
	case "remove":
		_ = os.Remove(path)
	case "removeall":
		if m.r.IntN(3) == 0 {
			_ = os.RemoveAll(path)
		}
	case "mkdir":
		_ = os.Mkdir(path, 0o755)
	case "deep":
		below := path + "/sub/" + mutatorNames[m.r.IntN(4)]
		if os.MkdirAll(below, 0o755) == nil {
			_ = os.WriteFile(below+"/a", content, 0o600)
		}
	case "replace": // another directory with the same name, perhaps with the same inode number
		if fi, err := os.Stat(path); err == nil && fi.IsDir() {
			_ = os.RemoveAll(path)
			_ = os.Mkdir(path, fi.Mode().Perm())
			_ = os.WriteFile(path+"/a", content, 0o600)
		}
	case "symlink":
		_ = os.Symlink("nowhere"+fmt.Sprint(m.r.IntN(3)), path)
	case "link":
		m.link()
	case "mmap":
		storeMapped(m.file(), content)
	case "fallocate":
		if f, err := os.OpenFile(m.file(), os.O_RDWR, 0); err == nil {
			_ = unix.Fallocate(int(f.Fd()), 0, 0, int64(m.r.IntN(9000)))
			f.Close()
		}
	case "tag":
		_ = os.WriteFile(filepath.Dir(path)+"/CACHEDIR.TAG", []byte("Signature: 8a477f597d28d172789f06886806bc55"), 0o644)
		if m.r.IntN(2) == 0 {
			_ = os.Remove(filepath.Dir(path) + "/CACHEDIR.TAG")
		}
	case "ignore":
		_ = os.WriteFile(m.root+"/.segnoignore", []byte(mutatorNames[m.r.IntN(4)]+"/sub\n"), 0o644)
	case "shell": // changes by another process
		script := `cp -rp "$1" "$2"; mv "$2" "$3"; echo more >>"$1/a"; rm -rf "$4"`
		_ = exec.Command("sh", "-c", script, "sh", path, m.path(), m.path(), m.path()+"/sub").Run()
	}
}

// link makes a hard link. A scan must find it before it is removed, and it must not be in a protected directory: see
// TestWatchCountsWhatItMissed.
func (m *mutator) link() {
	if !m.concurrent && os.Link(m.file(), fmt.Sprintf("%s/link%d", m.root, m.r.IntN(5))) == nil {
		m.scan()
	}
}

// sameSize writes a file without changing its size or modification time.
func (m *mutator) sameSize(path string) {
	fi, err := os.Stat(path)
	if err != nil {
		return
	}
	if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
		_, _ = f.Write([]byte(strings.Repeat(fmt.Sprint(m.r.IntN(9)), int(min(fi.Size(), 1000)))))
		f.Close()
		_ = os.Chtimes(path, time.Time{}, fi.ModTime())
	}
}

// storeMapped writes a file through a mapping.
func storeMapped(path string, content []byte) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || fi.Size() == 0 {
		return
	}
	if mem, err := unix.Mmap(int(f.Fd()), 0, int(fi.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		copy(mem, content)
		_ = unix.Munmap(mem)
	}
}

// TestWatchedScanAfterLostEvents makes more changes than the queue holds while it is not read.
func TestWatchedScanAfterLostEvents(t *testing.T) {
	p := newWatchRig(t, workspace.NewUnreadWatch)
	p.write("dir/a", "one")
	p.write("dir/b", "one")
	p.agrees("at first")
	for n := range 30_000 { // the kernel merges equal events, so two files take turns
		must(t, os.Chmod(p.path([]string{"dir/a", "dir/b"}[n%2]), 0o600))
	}
	p.write("dir/a", "two")
	p.write("dir/new/b", "three")
	if n := p.narrowed(func() { p.agrees("after lost events") }); n > 0 {
		t.Error("the scan after lost events was narrowed")
	}
	if p.watch.Stats().Lost == 0 {
		t.Error("no event was lost")
	}
	p.write("dir/new/b", "four")
	if n := p.narrowed(func() { p.agrees("after the next change") }); n != 1 {
		t.Error("the scan after the next change was not narrowed")
	}
}

// TestWatchCountsWhatItMissed makes the changes that cause no event. A comparison counts them, and ends the narrowing.
func TestWatchCountsWhatItMissed(t *testing.T) {
	eachQueue(t, func(t *testing.T, open openWatch) {
		p := newWatchRig(t, open)
		for _, name := range []string{"x/a", "y/b", "z/c"} {
			p.write(name, "one")
		}
		p.agrees("at first")
		for n := 0; p.narrowed(func() { p.agrees("without changes") }) != 1; n++ {
			if n > 5000 { // on an older kernel, the files must first be older than a tick
				t.Fatal("no scan is narrowed")
			}
		}
		outside := filepath.Join(filepath.Dir(p.root), "outside")
		must(t, os.Link(p.path("x/a"), outside)) // the other name has no watched directory
		must(t, os.WriteFile(outside, []byte("two"), 0o644))
		missed, err := p.watch.Check(t.Context())
		if err != nil || !slices.Equal(missed, []string{"x"}) {
			t.Fatalf("missed %q, %v", missed, err)
		}
		if n := p.narrowed(func() { p.agrees("after a missed change") }); n != 0 {
			t.Error("a scan was narrowed after a missed change")
		}
		if s := p.watch.Stats(); s.Missed != 1 || s.Checks != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

// TestScanEndsACheck begins a scan while a comparison runs.
func TestScanEndsACheck(t *testing.T) {
	p := newWatchRig(t, workspace.NewWatch)
	for n := range 200 {
		p.write(fmt.Sprintf("dir%d/a", n), "one")
	}
	p.agrees("at first")
	done := make(chan error)
	go func() {
		for {
			if _, err := p.watch.Check(t.Context()); err != nil {
				done <- err
				return
			}
		}
	}()
	for {
		p.agrees("during a comparison")
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			return
		default:
		}
	}
}

// TestIdleTreeIsCompared waits for the report of a comparison that nothing but idle time began.
func TestIdleTreeIsCompared(t *testing.T) {
	reports := make(chan workspace.WatchReport, 100)
	p := newFixture(t)
	w, err := workspace.NewImpatientWatch(t.Context(), p.root, filepath.Dir(p.root), func(r workspace.WatchReport) { reports <- r })
	must(t, err)
	defer func() { must(t, w.Close()) }()
	p.open(workspace.Options{Index: p.index, Watch: w})
	rig := &watchRig{p, w, p.other(workspace.Options{})}
	p.write("x/a", "one")
	rig.watched()
	if r := <-reports; r.Err != nil || len(r.Missed) > 0 {
		t.Errorf("%+v", r)
	}
	outside := filepath.Join(filepath.Dir(p.root), "outside")
	must(t, os.Link(p.path("x/a"), outside))
	must(t, os.WriteFile(outside, []byte("two"), 0o644))
	for n := 0; w.Stats().Missed == 0; n++ { // on an older kernel, the file must first be older than a tick
		rig.watched()
		if r := <-reports; r.Err != nil || n > 5000 {
			t.Fatalf("%+v", r)
		}
	}
	rig.agrees("after a report")
}
