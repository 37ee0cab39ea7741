package local_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

// killedAt kills its process at the n-th creation or rename below a root.
type killedAt struct {
	vfs.FS
	left *int
}

type killedRoot struct {
	vfs.Root
	left *int
}

func (k killedAt) OpenRoot(name string) (vfs.Root, error) {
	r, err := k.FS.OpenRoot(name)
	return killedRoot{r, k.left}, err
}

func (k killedRoot) tick() {
	if *k.left--; *k.left == 0 {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // it arrives
	}
}

func (k killedRoot) OpenRoot(name string) (vfs.Root, error) {
	r, err := k.Root.OpenRoot(name)
	return killedRoot{r, k.left}, err
}

func (k killedRoot) Mkdir(name string, perm fs.FileMode) error {
	k.tick()
	return k.Root.Mkdir(name, perm)
}

func (k killedRoot) Rename(from, to string) error {
	k.tick()
	return k.Root.Rename(from, to)
}

func (k killedRoot) Symlink(target, name string) error {
	k.tick()
	return k.Root.Symlink(target, name)
}

// forkThatDies forks the newest checkpoint in a child process of the test, which is killed at the
// n-th write.
func forkThatDies(t *testing.T, dir string, n int) {
	place := local.Place{Store: filepath.Join(dir, "store"), UserHome: filepath.Join(dir, "home"),
		Homes: local.Homes{"claude": filepath.Join(dir, "home", ".claude")}, Now: time.Now, FS: killedAt{vfs.OS, &n}}
	err := withTimelineAt(t.Context(), place, filepath.Join(dir, "project"), func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error {
		for c, err := range s.Checkpoints(ctx, segno.CheckpointQuery{Limit: 1}) {
			if err != nil {
				return err
			}
			_, err = tl.Fork(ctx, timeline.MoveRequest{Verb: segno.VerbFork, To: c.ID, Dir: filepath.Join(dir, "fork")})
			return err
		}
		return errors.New("there is no checkpoint")
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestHelperForkThatDies is the child process of TestAKilledForkIsGoneAfterTheNextCommand. In the
// parent process it does nothing.
func TestHelperForkThatDies(t *testing.T) {
	if dir := os.Getenv("SEGNO_TEST_FORK"); dir != "" {
		n, err := strconv.Atoi(os.Getenv("SEGNO_TEST_FORK_AT"))
		if err != nil {
			t.Fatal(err)
		}
		forkThatDies(t, dir, n)
	}
}

// TestAKilledForkIsGoneAfterTheNextCommand kills a fork with SIGKILL at each of its writes. While
// another process works on the workspace, nothing is removed.
func TestAKilledForkIsGoneAfterTheNextCommand(t *testing.T) {
	g := newFixture(t)
	g.write("a/b", "0")
	if err := g.turn("A", func() { g.write("a/b", "1") }); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a", filepath.Join(g.project, "link")); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(g.project)
	left := func() []string {
		names, err := filepath.Glob(filepath.Join(dir, ".segno-fork-*"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	for n := 1; ; n++ {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestHelperForkThatDies$")
		cmd.Env = append(os.Environ(), "SEGNO_TEST_FORK="+dir, "SEGNO_TEST_FORK_AT="+strconv.Itoa(n))
		out, err := cmd.CombinedOutput()
		if err == nil {
			if n < 4 {
				t.Fatalf("only %d writes", n)
			}
			return
		}
		if cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("%v\n%s", err, out)
		}
		before := left()
		err = g.withTimeline(nil, func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error {
			unlock, err := tl.Spool.Lock(ctx, tl.Workspace.ID())
			if err != nil {
				return err
			}
			err = s.RemoveAbandonedForks(ctx)
			unlock()
			if len(left()) != len(before) {
				t.Errorf("a workspace at work lost %q", before)
			}
			return errors.Join(err, s.RemoveAbandonedForks(ctx))
		})
		if err != nil {
			t.Fatal(err)
		}
		if names := left(); len(names) > 0 {
			t.Fatalf("killed at write %d, there is still %q", n, names)
		}
		if err := os.RemoveAll(filepath.Join(dir, "fork")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAKnownDirectoryThatAnotherUserNowOwnsIsNotRecorded replaces a workspace's directory. Only
// root can change the owner of a file.
func TestAKnownDirectoryThatAnotherUserNowOwnsIsNotRecorded(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	if err := g.turn("A", func() { g.write("a", "1") }); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(g.project, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	refused := g.turn("B", func() {})
	if segno.KindOf(refused) != segno.KindRefused || segno.HintOf(refused) == "" {
		t.Fatalf("a turn there: %v, hint %q", refused, segno.HintOf(refused))
	}
	for _, sudo := range []string{"1000", "65534"} {
		place := g.place
		place.SudoUID = sudo
		err := withTimelineAt(t.Context(), place, g.project, func(context.Context, *local.Store, *timeline.Timeline) error { return nil })
		if (err == nil) != (sudo == "65534") {
			t.Errorf("under sudo of user %s: %v", sudo, err)
		}
	}
	if root, err := g.place.Trust(t.Context(), errors.New("another")); root != "" || err != nil {
		t.Errorf("an error that is not about an owner: %q, %v", root, err)
	}
	if root, err := g.place.Trust(t.Context(), refused); root != g.project || err != nil {
		t.Fatalf("trusted %q, %v", root, err)
	}
	if err := g.turn("B", func() { g.write("a", "2") }); err != nil {
		t.Error(err)
	}
	if err := os.Chown(g.project, 65533, 65533); err != nil {
		t.Fatal(err)
	}
	if err := g.turn("C", func() {}); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("with a third owner: %v", err)
	}
}
