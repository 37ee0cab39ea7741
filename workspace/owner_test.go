//go:build linux

package workspace_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
)

// lending makes a file with setuid and a directory with setgid.
func (p *fixture) lending(content string) segno.Snapshot {
	p.t.Helper()
	p.write("tool", content)
	p.write("shared/file", content)
	must(p.t, unix.Chmod(p.path("tool"), 0o4755))
	must(p.t, unix.Chmod(p.path("shared"), 0o2775))
	return p.save()
}

// modes returns the permissions of the paths that lending made.
func modes(t *testing.T, root string) [2]uint32 {
	t.Helper()
	var out [2]uint32
	for i, name := range []string{"tool", "shared"} {
		var st unix.Stat_t
		must(t, unix.Lstat(filepath.Join(root, name), &st))
		out[i] = st.Mode & 0o7777
	}
	return out
}

const whyStripped = "setuid and setgid were not restored: they were not recorded for its present owner"

// TestSetuidIsRestoredForItsOwnerOnly restores a file and a directory with setuid and setgid
// that were recorded for their present owner, for another one, and for none, as an older segno
// did.
func TestSetuidIsRestoredForItsOwnerOnly(t *testing.T) {
	for _, c := range []struct {
		what  string
		owner func(*segno.Owner)
		modes [2]uint32
		lost  bool
	}{
		{"the same owner", func(*segno.Owner) {}, [2]uint32{0o4755, 0o2775}, false},
		{"another user", func(o *segno.Owner) { o.UID++ }, [2]uint32{0o755, 0o775}, true},
		{"another group", func(o *segno.Owner) { o.GID++ }, [2]uint32{0o755, 0o775}, true},
		{"no owner", func(o *segno.Owner) { *o = segno.Owner{} }, [2]uint32{0o755, 0o775}, true},
	} {
		p := newFixture(t)
		first := p.lending("old")
		must(t, os.Remove(p.path("tool")))
		must(t, os.RemoveAll(p.path("shared")))
		steps := p.diff(p.save(), first)
		for i := range steps {
			if to := &steps[i].To; to.Mode&0o6000 != 0 {
				if want := (segno.Owner{Known: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}); to.Owner != want {
					t.Fatalf("%s is recorded for %v, want %v", steps[i].Path, to.Owner, want)
				}
				c.owner(&to.Owner)
			}
		}
		var want []segno.Conflict
		if c.lost {
			want = []segno.Conflict{{Path: "shared", Why: whyStripped}, {Path: "tool", Why: whyStripped}}
		}
		for _, round := range []string{"", ", again"} {
			conflicts, err := p.dir.Apply(ctx(t), steps, first.Times)
			must(t, err)
			if !slices.Equal(conflicts, want) {
				t.Errorf("%s%s: conflicts %q, want %q", c.what, round, conflicts, want)
			}
			if got := modes(t, p.root); got != c.modes || p.read("tool")+p.read("shared/file") != "oldold" {
				t.Errorf("%s%s: modes %o, want %o", c.what, round, got, c.modes)
			}
		}
	}
}

// TestSetuidIsNotRestoredForAnotherOwner tests the attack for which segno records owners:
// gaining the rights of another user. Only root can give a file to another user. If another
// user runs the test, it checks instead that a restore keeps the setuid bit for the same owner.
func TestSetuidIsNotRestoredForAnotherOwner(t *testing.T) {
	p := newFixture(t)
	p.lending("old")
	was := 1234
	if os.Geteuid() != 0 {
		was = os.Geteuid()
	}
	must(t, os.Chown(p.path("tool"), was, -1))
	must(t, unix.Chmod(p.path("tool"), 0o4755))
	first := p.save()
	must(t, os.Remove(p.path("tool")))
	p.write("tool", "new")
	conflicts := p.restore(first)
	if was != os.Geteuid() {
		if want := []segno.Conflict{{Path: "tool", Why: whyStripped}}; !slices.Equal(conflicts, want) || modes(t, p.root)[0] != 0o755 {
			t.Errorf("conflicts %q, mode %o", conflicts, modes(t, p.root)[0])
		}
	} else if len(conflicts) > 0 || modes(t, p.root)[0] != 0o4755 {
		t.Errorf("conflicts %q, mode %o", conflicts, modes(t, p.root)[0])
	}
	if p.read("tool") != "old" {
		t.Errorf("the content is %q", p.read("tool"))
	}
}

// TestForkHasNoSetuid forks a tree at its present state and at an older one, for which the fork
// writes files from the store.
func TestForkHasNoSetuid(t *testing.T) {
	p := newFixture(t)
	first := p.lending("old")
	p.write("plain", "new")
	must(t, os.Remove(p.path("tool")))
	must(t, os.WriteFile(p.path("tool"), []byte("new"), 0o755))
	must(t, unix.Chmod(p.path("tool"), 0o6755))
	must(t, unix.Chmod(p.root, 0o2755))
	for name, s := range map[string]segno.Snapshot{"older": first, "present": p.save()} {
		dir := filepath.Join(t.TempDir(), "fork")
		if _, err := p.dir.Fork(ctx(t), s, dir); err != nil {
			t.Fatal(err)
		}
		if got := modes(t, dir); got != [2]uint32{0o755, 0o775} {
			t.Errorf("%s: modes %o", name, got)
		}
		var st unix.Stat_t
		must(t, unix.Stat(dir, &st))
		if st.Mode&0o6000 != 0 {
			t.Errorf("%s: the root's mode is %o", name, st.Mode)
		}
	}
	if got := modes(t, p.root); got != [2]uint32{0o6755, 0o2775} {
		t.Errorf("the source has modes %o", got)
	}
}

// TestARestoreKeepsTheGroup restores a file with another group than the user's first one. Other members of that group can
// still write it.
func TestARestoreKeepsTheGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root may become a member of a group
	}
	const user, group = 65534, 4242
	p := newFixture(t)
	for _, dir := range []string{filepath.Dir(p.root), filepath.Dir(filepath.Dir(p.root))} {
		must(t, os.Chmod(dir, 0o755))
	}
	must(t, os.Chown(p.root, user, user))
	p.write("shared", "old")
	must(t, os.Chown(p.path("shared"), user, group))
	must(t, os.Chmod(p.path("shared"), 0o664))
	first := p.save()
	must(t, os.WriteFile(p.path("shared"), []byte("new"), 0o664))
	steps := p.diff(p.save(), first)
	var conflicts []segno.Conflict
	var err error
	asUser(t, user, group, func() { conflicts, err = p.dir.Apply(ctx(t), steps, first.Times) })
	must(t, err)
	var st unix.Stat_t
	must(t, unix.Lstat(p.path("shared"), &st))
	if len(conflicts) > 0 || p.read("shared") != "old" || st.Uid != user || st.Gid != group {
		t.Errorf("conflicts %q, user %d, group %d, content %q", conflicts, st.Uid, st.Gid, p.read("shared"))
	}
}

// asUser calls do on a thread with the rights of a user that is also a member of a group.
func asUser(t *testing.T, user, group int, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // it ends with the goroutine
		groups := []uint32{uint32(group)}
		for _, call := range [][4]uintptr{
			{unix.SYS_SETGROUPS, 1, uintptr(unsafe.Pointer(&groups[0])), 0},
			{unix.SYS_SETRESGID, uintptr(user), uintptr(user), uintptr(user)},
			{unix.SYS_SETRESUID, uintptr(user), uintptr(user), uintptr(user)},
		} {
			if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				t.Error(errno)
				return
			}
		}
		do()
	}()
	<-done
}
