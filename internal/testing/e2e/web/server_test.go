package web_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// server is a running 'segno web' or 'segno serve'.
type server struct {
	URL string // with the token
	cmd *exec.Cmd
}

var address = regexp.MustCompile(`http://[^\s#]+/#\S+`)

// serve starts a command that serves a page, and waits for the address that it prints.
func serve(t testing.TB, cmd *exec.Cmd) *server {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &server{cmd: cmd}
	t.Cleanup(func() { s.end(syscall.SIGTERM) })
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if s.URL = address.FindString(lines.Text()); s.URL != "" {
			return s
		}
	}
	t.Fatalf("%s printed no address: %s", cmd, stderr.String())
	return nil
}

// end ends the server with a signal and waits for its end.
func (s *server) end(signal syscall.Signal) {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Signal(signal) // it may have ended
		_ = s.cmd.Wait()
	}
}

// demo is a project and a store that 'segno demo' recorded: four turns, of which two are undone, and
// a fork.
type demo struct {
	testing.TB
	dir string
	env []string
}

func newDemo(t testing.TB) *demo {
	t.Helper()
	temp := t.TempDir()
	d := &demo{TB: t, env: append(os.Environ(), "TMPDIR="+temp, "HOME="+temp, "XDG_DATA_HOME="+temp, "SEGNO_STORE=")}
	cmd := exec.CommandContext(t.Context(), e2erig.Command(t), "demo")
	cmd.Env, cmd.Dir = d.env, temp
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("segno demo: %v\n%s", err, out)
	}
	dirs, err := filepath.Glob(filepath.Join(temp, "segno-demo-*"))
	if err != nil || len(dirs) != 1 {
		t.Fatal(dirs, err)
	}
	d.dir = dirs[0]
	return d
}

// command returns the segno command, prepared to run in the project.
func (d *demo) command(args ...string) *exec.Cmd {
	// The context of the test ends before its cleanups, which end servers with a signal.
	cmd := exec.CommandContext(context.WithoutCancel(d.Context()), "segno", append([]string{"--store", filepath.Join(d.dir, "store")}, args...)...)
	cmd.Dir, cmd.Env = filepath.Join(d.dir, "project"), d.env
	return cmd
}

// segno runs the command and returns its output.
func (d *demo) segno(args ...string) string {
	d.Helper()
	out, err := d.command(args...).CombinedOutput()
	if err != nil {
		d.Fatalf("segno %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// read returns the content of a file of the project, or "" if it does not exist.
func (d *demo) read(name string) string {
	d.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, "project", name))
	if err != nil && !os.IsNotExist(err) {
		d.Fatal(err)
	}
	return string(data)
}

func (d *demo) write(name, content string) {
	d.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, "project", name), []byte(content), 0o644); err != nil {
		d.Fatal(err)
	}
}
