package workspace_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/workspace"
)

// entities returns everything in a saved tree.
func (p *fixture) entities(s segno.Snapshot) map[string]segno.Entity {
	p.t.Helper()
	out := make(map[string]segno.Entity)
	for _, c := range p.diff(segno.Snapshot{}, s) {
		out[c.Path] = c.To
	}
	return out
}

// TestSpecialFilesAreRecordedAndNeverOpened would hang if it opened a FIFO.
func TestSpecialFilesAreRecordedAndNeverOpened(t *testing.T) {
	p := newFixture(t)
	must(t, unix.Mkfifo(p.path("fifo"), 0o644))
	special := map[string]string{"fifo": "fifo", "socket": "socket"}
	if os.Geteuid() == 0 { // only root can make a device
		special["null"] = "device"
		must(t, unix.Mknod(p.path("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	}
	t.Chdir(p.root) // the path of a socket must be short
	l, err := net.Listen("unix", "socket")
	must(t, err)
	defer l.Close()
	first := p.save()
	for path, why := range special {
		if got, want := p.entities(first)[path], (segno.Entity{Type: segno.EntityProtected, Why: why}); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	if len(first.Unread) > 0 {
		t.Errorf("unread %q: a FIFO is not a file that could not be read", first.Unread)
	}
	p.write("file", "1")
	if c := p.restore(first); len(c) > 0 {
		t.Errorf("conflicts %q", c)
	}
	if fi, err := os.Lstat(p.path("fifo")); err != nil || fi.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the fifo: %v, %v", fi, err)
	}
}

// TestASymlinkIsNeverFollowed replaces a directory with a symlink to another place.
func TestASymlinkIsNeverFollowed(t *testing.T) {
	p := newFixture(t)
	outside := t.TempDir()
	must(t, os.WriteFile(outside+"/file", []byte("precious"), 0o644))
	p.write("d/file", "old")
	first := p.save()
	p.write("d/file", "new")
	p.write("d/added", "new")
	steps := p.diff(p.save(), first)
	must(t, os.RemoveAll(p.path("d")))
	must(t, os.Symlink(outside, p.path("d")))
	before := look(t, outside)

	conflicts, err := p.dir.Apply(ctx(t), steps, first.Times)
	must(t, err)
	if len(conflicts) != 1 || conflicts[0].Path != "d/file" {
		t.Errorf("conflicts %q, want one for d/file", conflicts)
	}
	sameTree(t, "what the symlink leads to", look(t, outside), before)
	if s := p.save(); p.entities(s)["d"].Target != outside || len(p.entities(s)) != 1 {
		t.Errorf("the snapshot followed the symlink: %v", p.entities(s))
	}
	if c := p.restore(first); len(c) > 0 {
		t.Errorf("conflicts %q", c)
	}
	if got := p.read("d/file"); got != "old" {
		t.Errorf("d/file holds %q", got)
	}
	sameTree(t, "what the symlink led to", look(t, outside), before)
}

// TestAForgedTreeMakesNoRepository applies changes that no snapshot leads to: git would run the hooks that they write.
func TestAForgedTreeMakesNoRepository(t *testing.T) {
	p := newFixture(t)
	p.write("a", "content")
	file := p.entities(p.save())["a"]
	dir, link := segno.Entity{Type: segno.EntityDir, Mode: 0o755}, segno.Entity{Type: segno.EntitySymlink, Target: "b"}
	conflicts, err := p.dir.Apply(ctx(t), []segno.Change{
		{Path: ".git", To: dir}, {Path: ".git/config", To: file}, {Path: ".git/hooks", To: dir}, {Path: ".git/hooks/pre-commit", To: file},
		{Path: "b", To: dir}, {Path: "b/.git", To: link}, {Path: "b/hooks", To: file},
		{Path: "worktree", To: dir}, {Path: "worktree/.git", To: file},
	}, segno.Hash{})
	must(t, err)
	var refused []string
	for _, c := range conflicts {
		refused = append(refused, c.Path)
	}
	if want := []string{".git", ".git/config", ".git/hooks", ".git/hooks/pre-commit", "b/.git"}; !slices.Equal(refused, want) {
		t.Errorf("the conflicts are %q, not %q", refused, want)
	}
	for _, path := range []string{".git", "b/.git"} {
		if _, err := os.Lstat(p.path(path)); !os.IsNotExist(err) {
			t.Errorf("%s exists: %v", path, err)
		}
	}
	if got := p.read("b/hooks") + p.read("worktree/.git"); got != "contentcontent" {
		t.Errorf("the other files have %q", got)
	}
}

// TestAForgedTreeStaysInside applies changes that would write through a symlink of their own, and to a path that leaves the
// tree.
func TestAForgedTreeStaysInside(t *testing.T) {
	p := newFixture(t)
	p.write("a", "content")
	file := p.entities(p.save())["a"]
	outside := t.TempDir()
	before := look(t, outside)
	conflicts, err := p.dir.Apply(ctx(t), []segno.Change{
		{Path: "link", To: segno.Entity{Type: segno.EntitySymlink, Target: outside}}, {Path: "link/file", To: file},
	}, segno.Hash{})
	if err == nil && len(conflicts) == 0 {
		t.Error("a file below a symlink is no conflict")
	}
	for _, path := range []string{"../file", "/file", "d/../../file", "d//file", "./file", ""} {
		if _, err := p.dir.Apply(ctx(t), []segno.Change{{Path: path, To: file}}, segno.Hash{}); segno.KindOf(err) != segno.KindInvalid {
			t.Errorf("the path %q is applied: %v", path, err)
		}
	}
	sameTree(t, "outside", look(t, outside), before)
}

// swapper changes the tree at the n-th call, or at the n-th call that opens or stats a file.
type swapper struct {
	vfs.FS
	left  *countdown
	swap  func()
	opens bool
}

// countdown counts the calls of several goroutines.
type countdown struct {
	mu sync.Mutex
	n  int
}

func (s swapper) OpenRoot(name string) (vfs.Root, error) {
	r, err := s.FS.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return swapRoot{r, s}, nil
}

type swapRoot struct {
	vfs.Root
	s swapper
}

func (r swapRoot) tick() {
	r.s.left.mu.Lock()
	defer r.s.left.mu.Unlock()
	if r.s.left.n--; r.s.left.n == 0 {
		r.s.swap()
	}
}

func (r swapRoot) write() {
	if !r.s.opens {
		r.tick()
	}
}

func (r swapRoot) OpenRoot(name string) (vfs.Root, error) {
	r.tick()
	sub, err := r.Root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return swapRoot{sub, r.s}, nil
}
func (r swapRoot) Lstat(name string) (os.FileInfo, error) {
	r.tick()
	return r.Root.Lstat(name)
}
func (r swapRoot) Remove(name string) error { r.write(); return r.Root.Remove(name) }
func (r swapRoot) Rename(a, b string) error { r.write(); return r.Root.Rename(a, b) }
func (r swapRoot) Link(a, b string) error   { r.write(); return r.Root.Link(a, b) }
func (r swapRoot) Symlink(a, b string) error {
	r.write()
	return r.Root.Symlink(a, b)
}
func (r swapRoot) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	r.tick()
	return r.Root.OpenFile(name, flag, perm)
}

// TestASymlinkThatAppearsMeanwhileIsNotFollowed creates the symlink at every moment of a
// restore in turn. It points out of the tree or to another part of it. Whether or not the
// restore succeeds, the target of the symlink must not change.
func TestASymlinkThatAppearsMeanwhileIsNotFollowed(t *testing.T) {
	for _, within := range []bool{false, true} {
		for n := 1; ; n++ {
			p := newFixture(t)
			elsewhere, target := t.TempDir(), ""
			if target = elsewhere; within {
				elsewhere, target = p.path("elsewhere"), "elsewhere"
			}
			must(t, os.MkdirAll(elsewhere, 0o755))
			must(t, os.WriteFile(elsewhere+"/file", []byte("new"), 0o644))
			must(t, os.WriteFile(elsewhere+"/added", []byte("new"), 0o644))
			before := look(t, elsewhere)
			p.write("d/file", "old")
			p.write("d/gone", "old")
			must(t, os.Link(p.path("d/gone"), p.path("d/other")))
			first := p.save()
			p.write("d/file", "new")
			p.write("d/added", "new")
			must(t, os.Remove(p.path("d/gone")))
			must(t, os.Remove(p.path("d/other")))
			steps := p.diff(p.save(), first)
			swapped := false
			fsys := swapper{FS: vfs.OS, left: &countdown{n: n}, swap: func() {
				must(t, os.Rename(p.path("d"), p.root+"-moved"))
				must(t, os.Symlink(target, p.path("d")))
				swapped = true
			}}
			_, err := p.other(workspace.Options{Index: p.index, FS: fsys}).Apply(ctx(t), steps, first.Times)
			sameTree(t, fmt.Sprintf("elsewhere, swapped at %d", n), look(t, elsewhere), before)
			if !swapped {
				must(t, err)
				if n < 10 {
					t.Fatalf("only %d moments", n)
				}
				break
			}
		}
	}
}

// TestAnEditDuringARestoreIsKept edits a file at every moment of a restore at which the restore
// can still detect the edit.
func TestAnEditDuringARestoreIsKept(t *testing.T) {
	for n := 1; ; n++ {
		p := newFixture(t)
		p.write("d/file", "old")
		first := p.save()
		p.write("d/file", "new")
		p.write("d/gone", "new")
		steps := p.diff(p.save(), first)
		edited := false
		fsys := swapper{FS: vfs.OS, left: &countdown{n: n}, opens: true, swap: func() {
			p.write("d/file", "mine")
			p.write("d/gone", "mine")
			edited = true
		}}
		conflicts, err := p.other(workspace.Options{Index: p.index, FS: fsys}).Apply(ctx(t), steps, first.Times)
		if !edited {
			must(t, err)
			if n < 5 {
				t.Fatalf("only %d moments", n)
			}
			return
		}
		if got := p.read("d/file") + p.read("d/gone"); got != "minemine" {
			t.Errorf("edited at %d, the files hold %q; conflicts %q, %v", n, got, conflicts, err)
		}
	}
}

// TestLaterChangeIsAConflict changes files between the plan and the restore.
func TestLaterChangeIsAConflict(t *testing.T) {
	p := newFixture(t)
	for _, path := range []string{"a", "b", "missing", "gone"} {
		p.write(path, "old")
	}
	first := p.save()
	for _, path := range []string{"a", "b", "missing"} {
		p.write(path, "new")
	}
	must(t, os.Remove(p.path("gone")))
	steps := p.diff(p.save(), first)
	p.write("b", "mine")
	p.write("gone", "mine too")
	must(t, os.Remove(p.path("missing")))
	conflicts, err := p.dir.Apply(ctx(t), steps, first.Times)
	must(t, err)
	want := []segno.Conflict{
		{Path: "b", Why: "it was changed since"},
		{Path: "gone", Why: "it was created since"},
		{Path: "missing", Why: "it was deleted since"},
	}
	if !slices.Equal(conflicts, want) {
		t.Errorf("conflicts %q, want %q", conflicts, want)
	}
	if p.read("a") != "old" || p.read("b") != "mine" || p.read("gone") != "mine too" {
		t.Errorf("a %q b %q gone %q", p.read("a"), p.read("b"), p.read("gone"))
	}
	if _, err := os.Lstat(p.path("missing")); err == nil {
		t.Error("what somebody deleted is back")
	}
}

// TestApplyWithAMissingObjectChangesNothing removes, then damages, one object.
func TestApplyWithAMissingObjectChangesNothing(t *testing.T) {
	p := newFixture(t)
	p.write("a", "old a")
	p.write("b", "old b")
	first := p.save()
	p.write("a", "new a")
	p.write("b", "new b")
	steps := p.diff(p.save(), first)
	before := p.look()
	name := segno.HashOf([]byte("old b"))
	p.store.objects[name] = []byte("something else")
	if _, err := p.dir.Apply(ctx(t), steps, first.Times); segno.KindOf(err) != segno.KindCorrupt {
		t.Errorf("with a damaged object: %v", err)
	}
	delete(p.store.objects, name)
	if _, err := p.dir.Apply(ctx(t), steps, first.Times); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("with an object missing: %v", err)
	}
	sameTree(t, "after two refusals", p.look(), before)
}

// TestScanWhileFilesChange scans while another goroutine writes and removes files.
// The snapshot must contain the files that exist throughout. The race detector checks the rest.
func TestScanWhileFilesChange(t *testing.T) {
	p := newFixture(t)
	p.write("d/stays", "s")
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			path := p.path(fmt.Sprintf("d/%d", i%50))
			switch i % 7 {
			case 0, 1:
				os.RemoveAll(path)
			case 2:
				os.Mkdir(path, 0o755)
			case 3:
				os.Symlink("x", path)
			default:
				os.WriteFile(path, []byte(strings.Repeat("x", i%5000)), 0o644)
			}
		}
	})
	for range 100 {
		s := p.save()
		for path, e := range p.entities(s) {
			if e.Type != segno.EntityFile {
				continue
			}
			if data, err := p.store.Get(ctx(t), e.Hash); err != nil || int64(len(data)) != e.Size || strings.Trim(string(data), "sx") != "" {
				t.Errorf("%s: %d bytes of %d, %v", path, len(data), e.Size, err)
			}
		}
		if e := p.entities(s)["d/stays"]; e.Type != segno.EntityFile {
			t.Errorf("d/stays is %v", e)
		}
	}
	close(stop)
	wg.Wait()
	if got, want := p.save(), p.saveBy(p.other(workspace.Options{})); got.Tree != want.Tree {
		t.Errorf("once all is quiet the index misleads: %v", p.diff(got, want))
	}
}

// TestPathsLongerThanTheKernelAccepts nests directories beyond PATH_MAX.
func TestPathsLongerThanTheKernelAccepts(t *testing.T) {
	p := newFixture(t)
	name := strings.Repeat("d", 250)
	deepest := func() *os.Root {
		at, err := os.OpenRoot(p.root)
		must(t, err)
		for range 20 {
			if err := at.Mkdir(name, 0o755); err != nil && !os.IsExist(err) {
				t.Fatal(err)
			}
			next, err := at.OpenRoot(name)
			must(t, err)
			at.Close()
			at = next
		}
		return at
	}
	at := deepest()
	must(t, at.WriteFile("file", []byte("deep"), 0o600))
	must(t, at.Link("file", "link"))
	at.Close()
	first := p.save()
	if n := len(p.entities(first)); n != 22 {
		t.Fatalf("%d entities, want 22", n)
	}
	must(t, os.RemoveAll(p.path(name)))
	if c := p.restore(first); len(c) > 0 {
		t.Fatalf("conflicts %q", c)
	}
	at = deepest()
	defer at.Close()
	if data, err := at.ReadFile("link"); err != nil || string(data) != "deep" {
		t.Errorf("at the bottom: %q, %v", data, err)
	}
	if s := p.save(); s.Tree != first.Tree {
		t.Error("the tree is another one")
	}
}

// TestAsAnotherUser runs in a process without root's privileges, in which permissions have an
// effect.
func TestAsAnotherUser(t *testing.T) {
	p := newFixture(t)
	t.Cleanup(func() { removeAll(t, p.root) })
	for dir := p.root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o777))
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestHelperUnprivileged$", "-test.v")
	cmd.Env = append(os.Environ(), "WORKSPACE_TEST_ROOT="+p.root)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, text, _ := strings.Cut(string(out), "RESULT ")
	text, _, _ = strings.Cut(text, "\n")
	var got unprivileged
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if !slices.Equal(got.Unread, []string{"closed", "open/secret", "secret"}) {
		t.Errorf("unread %q, want closed, open/secret and secret", got.Unread)
	}
	if !slices.Equal(got.UnreadAt, got.Unread) {
		t.Errorf("unread %q after a look elsewhere, want %q", got.UnreadAt, got.Unread)
	}
	for _, path := range got.Unread {
		if got.Entities[path].Type != segno.EntityProtected {
			t.Errorf("%s is %v: a restore would touch it", path, got.Entities[path])
		}
	}
	if len(got.Conflicts) != 0 {
		t.Errorf("conflicts %q", got.Conflicts)
	}
	if got.Left != "" {
		t.Errorf("after the restore: %s", got.Left)
	}
}

type unprivileged struct {
	Unread    []string
	UnreadAt  []string // from a scan of other directories only
	Entities  map[string]segno.Entity
	Conflicts []segno.Conflict
	Left      string
}

// TestHelperUnprivileged is the other process of TestAsAnotherUser. In any other process it
// does nothing.
func TestHelperUnprivileged(t *testing.T) {
	root := os.Getenv("WORKSPACE_TEST_ROOT")
	if root == "" {
		return
	}
	p := &fixture{t: t, root: root, index: root + "-index", store: newMemory()}
	p.open(workspace.Options{Index: p.index})
	p.write("locked/file", "old")
	p.write("locked/gone/deep", "d")
	p.write("secret", "s")
	p.write("closed/file", "c")
	p.write("open/secret", "s")
	must(t, os.Chmod(p.path("locked/gone"), 0o500))
	must(t, os.Chmod(p.path("locked"), 0o555))
	must(t, os.Chmod(p.path("secret"), 0))
	must(t, os.Chmod(p.path("open/secret"), 0))
	must(t, os.Chmod(p.path("closed"), 0))
	first := p.save()
	var got unprivileged
	got.Unread, got.Entities = first.Unread, p.entities(first)
	got.UnreadAt = p.saveAt("locked/file").Unread

	must(t, os.Chmod(p.path("locked"), 0o755))
	must(t, os.Chmod(p.path("locked/gone"), 0o755))
	must(t, os.RemoveAll(p.path("locked/gone")))
	p.write("locked/file", "new")
	p.write("locked/added/x", "new")
	p.write("locked/.segno-apply-ABCDEFGHIJKLMNOPQRSTUVWXYZ", "of an interrupted restore")
	must(t, os.Chmod(p.path("locked/added"), 0o555))
	must(t, os.Chmod(p.path("locked"), 0o555))
	got.Conflicts = p.restore(first)
	if s := p.save(); s.Tree != first.Tree {
		got.Left = fmt.Sprint(p.diff(first, s))
	}
	if left, _ := filepath.Glob(p.path("locked/.segno-*")); len(left) > 0 {
		got.Left += fmt.Sprintf(" temporary files %q", left)
	}
	text, err := json.Marshal(got)
	must(t, err)
	fmt.Printf("RESULT %s\n", text)
	must(t, os.Chmod(p.path("closed"), 0o700)) // for the cleanup
}

// TestManyEntries runs on 300 entries in one directory, or on 100,000.
func TestManyEntries(t *testing.T) {
	n := 300
	if soak.IsWhole() {
		n = 100_000
	}
	p := newFixture(t)
	for i := range n {
		must(t, os.WriteFile(p.path(fmt.Sprintf("%d", i)), fmt.Append(nil, i), 0o644))
	}
	first := p.save()
	if first.Files != n {
		t.Fatalf("%d files, want %d", first.Files, n)
	}
	for i := range n {
		must(t, os.Remove(p.path(fmt.Sprintf("%d", i))))
	}
	if c := p.restore(first); len(c) > 0 {
		t.Fatalf("%d conflicts", len(c))
	}
	if s := p.save(); s.Tree != first.Tree {
		t.Error("the tree is another one")
	}
}
