package tool_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/internal/testing/debian"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// program returns a sandbox's program, which is installed from the network.
func program(t *testing.T, pkg, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs " + name + ", which is installed from the network")
	}
	f, err := debian.Find(t.Context(), debian.Program{Package: pkg, Installed: []string{name}, Inside: "usr/bin/" + name})
	if err != nil {
		t.Fatal(err)
	}
	return f.File
}

func bubblewrap(t *testing.T) tool.Bubblewrap {
	t.Helper()
	return tool.Bubblewrap{Program: program(t, "bubblewrap", "bwrap")}
}

// eachSandbox runs a test in each sandbox. gVisor starts slowly, so its tests are drawn.
func eachSandbox(t *testing.T, test func(t *testing.T, s tool.Sandbox)) {
	t.Run("bubblewrap", func(t *testing.T) { test(t, bubblewrap(t)) })
	t.Run("runsc", func(t *testing.T) {
		if soak.IsDrawn(t) {
			test(t, tool.Runsc{Program: program(t, "runsc", "runsc")})
		}
	})
}

// inSandbox returns the tool in a sandbox, with its directory.
func inSandbox(t *testing.T, s tool.Sandbox) (*rig, string) {
	t.Helper()
	return shell(t, tool.ExecuteOptions{Sandbox: s, Timeout: 10 * time.Minute})
}

// text runs a command, whether or not it succeeds, and returns what it prints.
func (r *rig) text(command string) string {
	r.t.Helper()
	res, err := r.call(r.t.Context(), "execute", arguments(r.t, []any{"command", command}))
	if err != nil {
		r.t.Fatal(err)
	}
	return res.Text
}

func TestACommandInASandbox(t *testing.T) {
	eachSandbox(t, func(t *testing.T, s tool.Sandbox) {
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, dir := inSandbox(t, s)
		if text := r.tools[0].Description; !strings.Contains(text, "the sandbox "+s.String()) {
			t.Errorf("the model reads %q", text)
		}
		writeFile(t, filepath.Join(dir, "here"), "input\n")
		r.wants("input\nexit code 0", "execute", "command", "cat here; mkdir d; echo output >d/made; echo of the call >/tmp/temporary")
		if got := readFile(t, filepath.Join(dir, "d", "made")); got != "output\n" {
			t.Errorf("it wrote %q", got)
		}
		if info, err := os.Stat(filepath.Join(dir, "d", "made")); err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
			t.Errorf("the file belongs to another user: %v", err)
		}
		r.wants("(no output)\nexit code 0", "execute", "command", "cat /tmp/temporary 2>/dev/null; true") // each call has its own
		r.wants("1\n2\nexit code 3", "execute", "command", "echo 1; echo 2 >&2; exit 3")
		r.wants("(no output)\nexit code 137", "execute", "command", "kill -9 $$")
		r.wants("(no output)\nexit code 0", "execute", "command", "cat") // there is no input
		res, err := r.call(t.Context(), "execute", `{"command":"sleep 1000","timeout_seconds":0.5}`)
		if err != nil || !strings.Contains(res.Text, "timed out") {
			t.Errorf("out of time: %+v, %v", res, err)
		}
	})
}

// TestHostileCommands runs commands that try to leave the sandbox.
func TestHostileCommands(t *testing.T) {
	eachSandbox(t, func(t *testing.T, s tool.Sandbox) {
		r, dir := inSandbox(t, s)
		outside := t.TempDir()
		secret := filepath.Join(outside, ".ssh", "id_ed25519")
		if err := os.Mkdir(filepath.Dir(secret), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, secret, "sesame")
		t.Setenv("HOME", outside)
		t.Setenv("PLAIN_VALUE", "sesame")

		t.Run("write outside", func(t *testing.T) {
			r.text(fmt.Sprintf("for d in %[1]s / /etc /usr /usr/bin /proc/sys/kernel; do echo x >$d/segno-escaped; done; rm -rf %[1]s; echo x >%[2]s", outside, secret))
			for _, name := range []string{filepath.Join(outside, "segno-escaped"), "/segno-escaped", "/etc/segno-escaped", "/usr/segno-escaped", "/usr/bin/segno-escaped"} {
				if _, err := os.Lstat(name); err == nil {
					t.Errorf("it wrote %s", name)
				}
			}
			if got := readFile(t, secret); got != "sesame" {
				t.Errorf("the file outside has %q", got)
			}
		})
		t.Run("read secrets", func(t *testing.T) {
			none, _ := inSandbox(t, tool.None{})
			if got := none.text("cat " + secret); !strings.HasPrefix(got, "sesame") {
				t.Errorf("without a sandbox it printed\n%s", got)
			}
			got := r.text(fmt.Sprintf("cat %s ~/.ssh/id_ed25519 /etc/shadow /proc/1/root%[1]s /proc/self/root%[1]s; env; cat /proc/*/environ; ls -d /root /home", secret))
			if strings.Contains(got, "sesame") || strings.Contains(got, "root:") || strings.Contains(got, "PLAIN_VALUE") {
				t.Errorf("it printed\n%s", got)
			}
		})
		t.Run("symlinks", func(t *testing.T) {
			if got := r.text(fmt.Sprintf("ln -s %s file; ln -s / root; ln -s /proc/self/root self; cat file root%[1]s self%[1]s; echo x >file", secret)); strings.Contains(got, "sesame") {
				t.Errorf("it printed\n%s", got)
			}
			if got := readFile(t, secret); got != "sesame" {
				t.Errorf("the file outside has %q", got)
			}
			files := newRig(t, tool.Files(tool.InDir(openRoot(t, dir))))
			for _, name := range []string{"file", "root" + secret, "self/etc/passwd"} {
				if res, err := files.call(t.Context(), "read_file", arguments(t, []any{"path", name})); err == nil && !res.Error {
					t.Errorf("the file tool reads %s: %q", name, res.Text)
				}
			}
		})
		t.Run("kill", func(t *testing.T) {
			victim := exec.CommandContext(t.Context(), "sleep", "1000")
			if err := victim.Start(); err != nil {
				t.Fatal(err)
			}
			r.text(fmt.Sprintf("kill -9 %d; kill -9 %d; kill -9 -1", victim.Process.Pid, os.Getpid()))
			if err := victim.Process.Kill(); err != nil {
				t.Errorf("the process outside has ended: %v", err)
			}
			err := victim.Wait()
			if status := victim.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() {
				t.Errorf("the process outside ended with %v", err)
			}
			if got := r.text(fmt.Sprintf("cat /proc/%d/status; ls /proc/%[1]d; echo end", os.Getpid())); strings.Contains(got, "State:") {
				t.Errorf("it sees a process outside:\n%s", got)
			}
		})
		t.Run("loopback", func(t *testing.T) { connects(t, r, s) })
		t.Run("privileges", func(t *testing.T) {
			command := "mount -t tmpfs none /usr && echo got-mount; chroot / true && echo got-chroot; mknod disk b 8 0 && cat disk && echo got-device; " +
				"v=$(cat /proc/sys/kernel/core_pattern) && echo \"$v\" >/proc/sys/kernel/core_pattern && echo got-sysctl"
			if s.String() == "bubblewrap" { // a namespace in gVisor is none of the system's kernel
				command += "; unshare -Ur true && echo got-namespace"
			}
			if got := r.text(command); strings.Contains(got, "got-") {
				t.Errorf("it printed\n%s", got)
			}
		})
	})
}

// connects checks that a command cannot connect to a server of this machine, and that it can in the same sandbox with a network.
func connects(t *testing.T, r *rig, s tool.Sandbox) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	command := "bash -c 'exec 3<>/dev/tcp/127.0.0.1/" + port + " && echo connected'"
	if got := r.text(command); strings.Contains(got, "connected\n") {
		t.Errorf("without a network it printed\n%s", got)
	}
	switch open := s.(type) {
	case tool.Bubblewrap:
		open.Network = true
		s = open
	case tool.Runsc:
		open.Network = true
		s = open
	}
	with, _ := inSandbox(t, s)
	if got := with.text(command); !strings.Contains(got, "connected\n") {
		t.Errorf("with a network it printed\n%s", got)
	}
}

// TestADaemonEndsWithItsSandbox checks that a process that leaves its group, its session and its parent ends with the call.
func TestADaemonEndsWithItsSandbox(t *testing.T) {
	r, dir := inSandbox(t, bubblewrap(t))
	up, gone := holders(t, dir)
	got := r.text("setsid sh -c 'exec 3>fifo; echo up >&3; touch started; exec sleep 1000' >/dev/null 2>&1 & while ! test -e started; do sleep 0.01; done; echo started")
	if !strings.HasPrefix(got, "started\n") {
		t.Errorf("it printed\n%s", got)
	}
	up()
	gone()
}

// TestASandboxDiesWithItsAgent is [TestACommandDiesWithItsAgent] in a sandbox.
func TestASandboxDiesWithItsAgent(t *testing.T) {
	if dir := os.Getenv("SEGNO_TEST_SANDBOX"); dir != "" {
		r := newRig(t, []agent.Tool{tool.Execute(dir, tool.ExecuteOptions{Sandbox: bubblewrap(t)})})
		_, err := r.call(t.Context(), "execute", `{"command":"exec 9>alive; setsid sleep 1000 & echo up >&9; sleep 1000"}`)
		t.Fatalf("the command ended: %v", err)
	}
	bubblewrap(t)
	diesWithItsAgent(t, "SEGNO_TEST_SANDBOX")
}

// someUser returns a user as whom this process may run commands, another one if it may, and a directory of the user.
func someUser(t *testing.T) (*tool.User, string) {
	t.Helper()
	name := strconv.Itoa(os.Getuid())
	if os.Getuid() == 0 {
		name = "nobody"
	}
	u, err := tool.LookupUser(name)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "segno-user-*") // other users cannot enter the test's own directory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, int(u.UID), int(u.GID)); err != nil {
		t.Fatal(err)
	}
	return u, dir
}

func TestCommandsOfAnotherUser(t *testing.T) {
	u, dir := someUser(t)
	o := tool.ExecuteOptions{User: u}
	if err := o.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PLAIN_VALUE", "sesame")
	r := newRig(t, []agent.Tool{tool.Execute(dir, o)})
	want := fmt.Sprintf("%d %d %d %s\nexit code 0", u.UID, u.GID, u.GID, u.Home)
	r.wants(want, "execute", "command", "echo $(id -u) $(id -g) $(id -G) $HOME$PLAIN_VALUE; echo x >made")
	if info, err := os.Stat(filepath.Join(dir, "made")); err != nil || info.Sys().(*syscall.Stat_t).Uid != u.UID {
		t.Errorf("the file of the command: %v", err)
	}
	eachSandbox(t, func(t *testing.T, s tool.Sandbox) {
		r := newRig(t, []agent.Tool{tool.Execute(dir, tool.ExecuteOptions{User: u, Sandbox: s})})
		r.wants(fmt.Sprintf("%d\nexit code 0", u.UID), "execute", "command", "id -u; echo x >made-"+s.String())
		if info, err := os.Stat(filepath.Join(dir, "made-"+s.String())); err != nil || info.Sys().(*syscall.Stat_t).Uid != u.UID {
			t.Errorf("the file of the command: %v", err)
		}
	})
}

// TestAnotherUserNeedsRoot takes root's right from one thread, if the test has it.
func TestAnotherUserNeedsRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		seteuid := func(uid uintptr) {
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uid, ^uintptr(0)); errno != 0 {
				t.Error(errno)
			}
		}
		seteuid(65534)
		defer seteuid(0)
	}
	if _, err := tool.LookupUser("root"); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("the user root: %v", err)
	}
	if err := (tool.ExecuteOptions{User: &tool.User{Name: "root"}}).Check(t.Context()); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("options with the user root: %v", err)
	}
	if _, err := tool.LookupUser("no such user"); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("a user that does not exist: %v", err)
	}
}

// TestAForkBomb checks that a command cannot start more processes than its limit, and that all end with the call.
func TestAForkBomb(t *testing.T) {
	s := bubblewrap(t)
	u, dir := someUser(t)
	r := newRig(t, []agent.Tool{tool.Execute(dir, tool.ExecuteOptions{Sandbox: s, User: u, Limits: tool.Limits{Processes: 40}, Timeout: 10 * time.Minute})})
	up, gone := holders(t, dir)
	if err := os.Chown(filepath.Join(dir, "fifo"), int(u.UID), int(u.GID)); err != nil {
		t.Fatal(err)
	}
	got := r.text("exec 3>fifo; echo up >&3; n=0; while test $n -lt 200; do sleep 1000 & n=$((n+1)); done; echo all started")
	up()
	gone()
	if strings.Contains(got, "all started") || !strings.Contains(got, "fork") {
		t.Errorf("it printed\n%s", got)
	}
	// An endless bomb ends with its time.
	res, err := r.call(t.Context(), "execute", arguments(t, []any{"command", "b() { b | b & }; while :; do b; done 2>/dev/null", "timeout_seconds", 0.5}))
	if err != nil || !res.Error {
		t.Errorf("a fork bomb: %+v, %v", res, err)
	}
}

func TestTheLimitOfMemory(t *testing.T) {
	for _, s := range []tool.Sandbox{tool.None{}, bubblewrap(t)} {
		r, _ := shell(t, tool.ExecuteOptions{Sandbox: s, Limits: tool.Limits{Memory: 64 << 20}, Timeout: 10 * time.Minute})
		for size, fits := range map[string]bool{"8M": true, "256M": false} { // dd allocates one block
			got := r.text("dd if=/dev/zero of=/dev/null count=1 bs=" + size)
			if strings.HasSuffix(got, "exit code 0") != fits {
				t.Errorf("%v: %s: %s", s, size, got)
			}
		}
	}
}

// TestSandboxesThatAreMissing checks the errors of machines that cannot run a sandbox. No command runs there.
func TestSandboxesThatAreMissing(t *testing.T) {
	forbidden := filepath.Join(t.TempDir(), "bwrap")
	if !testing.Short() {
		// In a sandbox, the kernel forbids another one.
		real := bubblewrap(t).Program
		writeFile(t, forbidden, fmt.Sprintf("#!/bin/sh\nexec %s --unshare-user --disable-userns --dev-bind / / -- %[1]s \"$@\"\n", real))
		if err := os.Chmod(forbidden, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", "/usr/bin:/bin")
	for want, s := range map[string]tool.Sandbox{
		"bwrap is missing":             tool.Bubblewrap{Program: "/nowhere/bwrap"},
		"runsc is missing":             tool.Runsc{Program: "/nowhere/runsc"},
		"the kernel forbids user name": tool.Bubblewrap{Program: forbidden},
	} {
		if testing.Short() && strings.HasPrefix(want, "the kernel") {
			continue
		}
		err := s.Check(t.Context())
		if segno.KindOf(err) != segno.KindRefused || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v; want %q", s, err, want)
		}
		r, dir := inSandbox(t, s)
		res, err := r.call(context.WithoutCancel(t.Context()), "execute", `{"command":"touch ran"}`)
		if err == nil && !res.Error {
			t.Errorf("%v: a command gives %+v", s, res)
		}
		if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
			t.Errorf("%v: the command ran without its sandbox", s)
		}
	}
}

func TestParseSandbox(t *testing.T) {
	for _, name := range []string{"none", "bubblewrap", "bubblewrap+network", "runsc", "runsc+network"} {
		if s, err := tool.ParseSandbox(name); err != nil || s.String() != name {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	for _, name := range []string{"", "docker", "none+network", "bubblewrap+", "Bubblewrap"} {
		if s, err := tool.ParseSandbox(name); segno.KindOf(err) != segno.KindInvalid {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}
