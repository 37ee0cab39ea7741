package watch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// mountRoot is the environment variable that makes the test program mount a file system below a directory that it watches.
const mountRoot = "SEGNO_TEST_MOUNT"

func TestMain(m *testing.M) {
	if root := os.Getenv(mountRoot); root != "" {
		if err := mountWhileWatching(root); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func eachQueue(t *testing.T, test func(t *testing.T, open func(root, private string) (*Watcher, error))) {
	t.Run("fanotify", func(t *testing.T) {
		test(t, func(root, private string) (*Watcher, error) { return open(openFanotify, root, private) })
	})
	t.Run("inotify", func(t *testing.T) { test(t, OpenInotify) })
}

// watchDir watches a directory from this moment on.
func watchDir(t testing.TB, w *Watcher, path string) (Dir, Token) {
	t.Helper()
	now, err := w.Sync()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	d := Dir{uint64(st.Dev), st.Ino}
	if err := w.Mark(int(f.Fd()), d, now); err != nil {
		t.Fatal(err)
	}
	return d, now
}

// TestEachChangeHasAnEvent makes each kind of change in a watched directory, and none.
func TestEachChangeHasAnEvent(t *testing.T) {
	changes := map[string]func(dir string) error{
		"create":  func(dir string) error { return os.WriteFile(dir+"/new", nil, 0o600) },
		"write":   func(dir string) error { return os.WriteFile(dir+"/file", []byte("x"), 0o600) },
		"chmod":   func(dir string) error { return os.Chmod(dir+"/file", 0o640) },
		"xattr":   func(dir string) error { return unix.Setxattr(dir+"/file", "user.a", []byte("x"), 0) },
		"remove":  func(dir string) error { return os.Remove(dir + "/file") },
		"rename":  func(dir string) error { return os.Rename(dir+"/file", dir+"/other") },
		"leave":   func(dir string) error { return os.Rename(dir+"/file", filepath.Dir(dir)+"/other") },
		"mkdir":   func(dir string) error { return os.Mkdir(dir+"/new", 0o700) },
		"symlink": func(dir string) error { return os.Symlink("x", dir+"/new") },
		"link":    func(dir string) error { return os.Link(dir+"/file", dir+"/new") },
		"itself":  func(dir string) error { return os.Chmod(dir, 0o711) },
		"move":    func(dir string) error { return os.Rename(dir, dir+"2") },
		"delete":  func(dir string) error { return os.RemoveAll(dir) },
	}
	eachQueue(t, func(t *testing.T, open func(root, private string) (*Watcher, error)) {
		for name, change := range changes {
			root := t.TempDir()
			dir := filepath.Join(root, "dir")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			w, err := open(root, root)
			if err != nil {
				t.Fatal(err)
			}
			d, since := watchDir(t, w, dir)
			if _, err := w.Sync(); err != nil || !w.IsUnchanged(d, since) {
				t.Errorf("%s: changed before: %v", name, err)
			}
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			now, err := w.Sync()
			if err != nil || w.IsUnchanged(d, since) {
				t.Errorf("%s: no event, %v", name, err)
			}
			if w.IsMarked(d) == (name == "delete") {
				t.Errorf("%s: marked: %v", name, w.IsMarked(d))
			}
			if name != "delete" && !w.IsUnchanged(d, now) {
				t.Errorf("%s: changed after it", name)
			}
			if names, err := os.ReadDir(root); err != nil || len(names) > 2 {
				t.Errorf("%s: the watcher left something: %v, %v", name, names, err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if _, err := w.Sync(); err == nil {
				t.Error("a closed watcher answers")
			}
		}
	})
}

// TestAnotherWatchersTokenIsNotValid uses the token of a watcher that was restarted.
func TestAnotherWatchersTokenIsNotValid(t *testing.T) {
	root := t.TempDir()
	var before Token
	for n := range 2 {
		w, err := Open(root, root)
		if err != nil {
			t.Fatal(err)
		}
		d, now := watchDir(t, w, root)
		if n == 1 && w.IsUnchanged(d, before) || !w.IsUnchanged(d, now) {
			t.Error("a token of another watcher is valid")
		}
		before = Token{now.Watcher, now.Seq + 10}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestALateMarkKeepsWhatHappened marks a directory again for a scan that began before an event of the directory.
func TestALateMarkKeepsWhatHappened(t *testing.T) {
	eachQueue(t, func(t *testing.T, open func(root, private string) (*Watcher, error)) {
		root := t.TempDir()
		w, err := open(root, root)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		late, err := w.Sync()
		if err != nil {
			t.Fatal(err)
		}
		d, since := watchDir(t, w, root)
		if err := os.WriteFile(root+"/file", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Sync(); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(root)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := w.Mark(int(f.Fd()), d, late); err != nil || w.IsUnchanged(d, since) {
			t.Errorf("the event was forgotten: %v", err)
		}
	})
}

// TestInotifyLeavesDirectoriesToOthers reaches the number of directories that a watcher may watch. One more counts as changed.
func TestInotifyLeavesDirectoriesToOthers(t *testing.T) {
	root := t.TempDir()
	w, err := OpenInotify(root, root)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	data, err := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
	if err != nil || fmt.Sprintln(2*w.most) != string(data) && fmt.Sprintln(2*w.most+1) != string(data) {
		t.Fatalf("it watches %d directories, and the system allows %s, %v", w.most, data, err)
	}
	w.most = 1
	first, since := watchDir(t, w, root)
	if err := os.Mkdir(root+"/dir", 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(root + "/dir")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	second := Dir{first.Dev, first.Ino + 1}
	if err := w.Mark(int(f.Fd()), second, since); err == nil || w.IsUnchanged(second, since) || !w.IsMarked(first) || w.Stats().Failed != 1 {
		t.Errorf("%v, %+v", err, w.Stats())
	}
}

// TestAMountMakesEverythingChanged mounts a file system below the root, in a separate process and namespace.
func TestAMountMakesEverythingChanged(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(root+"/at", 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), mountRoot+"="+root)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func mountWhileWatching(root string) error {
	w, err := Open(root, root)
	if err != nil {
		return err
	}
	if w.mounts.changed() {
		return fmt.Errorf("the mounts changed without a mount")
	}
	if err := unix.Mount("none", root+"/at", "tmpfs", 0, ""); err != nil {
		return err
	}
	if _, err := w.Sync(); err != nil || w.Stats().Lost != 1 {
		return fmt.Errorf("after a mount: %+v, %v", w.Stats(), err)
	}
	if err := unix.Unmount(root+"/at", 0); err != nil {
		return err
	}
	if _, err := w.Sync(); err != nil || w.Stats().Lost != 2 {
		return fmt.Errorf("after an unmount: %+v, %v", w.Stats(), err)
	}
	return nil
}
