package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// signalled is the program of the test: it prints the signals that it receives, until SIGTERM.
const signalled = `#!/bin/sh
trap 'echo interrupted' INT
trap 'echo terminated; exit 0' TERM
echo ready
while :; do read line; done
`

// TestTheLauncherSendsOneInterrupt presses ctrl+c in a terminal in which the launcher of the npm package runs. The terminal sends the signal to
// the program, too, which a second one would end at once, before it has saved its work.
func TestTheLauncherSendsOneInterrupt(t *testing.T) {
	m := newMachine(t, "node")
	modules := filepath.Join(m.home, "node_modules/@dalsegno")
	launcher := filepath.Join(modules, "segno/bin/segno.js")
	program := filepath.Join(modules, fmt.Sprintf("segno-%s-%s/bin/segno", runtime.GOOS, strings.Replace(runtime.GOARCH, "amd64", "x64", 1)))
	for file, text := range map[string]string{launcher: read(t, "release/npm/bin/segno.js"), program: signalled} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(m.bin, "node"), launcher)
	cmd.Env = []string{"HOME=" + m.home, "PATH=" + m.bin}
	tty, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	var lines []string
	for s := bufio.NewScanner(tty); s.Scan(); {
		line := strings.TrimPrefix(strings.TrimSpace(s.Text()), "^C")
		isFirst := !slices.Contains(lines, line)
		lines = append(lines, line)
		switch {
		case line == "ready":
			_, err = tty.Write([]byte{3})
		case line == "interrupted" && isFirst:
			err = cmd.Process.Signal(syscall.SIGTERM) // after the signal of the terminal, which the launcher has received, too
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if got := strings.Join(lines, " "); got != "ready interrupted terminated" {
		t.Errorf("the program prints %q", got)
	}
}
