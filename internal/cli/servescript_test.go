package cli_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdServe starts 'segno serve' as a separate process with the environment of the script, and sets $REMOTE to its address
// without the token. The process ends with the script, or is killed by another serve.
//
//	serve [ARG…]
func cmdServe(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: serve [ARG…]")
	}
	if previous, ok := ts.Value(serverKey{}).(*exec.Cmd); ok && previous.Process != nil {
		_ = previous.Process.Kill()
		_ = previous.Wait()
	}
	program, err := exec.LookPath("segno")
	ts.Check(err)
	cmd, ok := ts.Value(serverKey{}).(*exec.Cmd)
	if !ok {
		ts.Fatalf("the script has no place for a server")
	}
	*cmd = exec.Cmd{Path: program, Args: append([]string{"segno", "serve", "--listen", "127.0.0.1:0"}, args...), Dir: ts.MkAbs("."), Stderr: os.Stderr}
	for _, name := range []string{"PATH", "HOME", "XDG_DATA_HOME", "TMPDIR", "GORACE"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		ts.Fatalf("the server printed no address: %v", lines.Err())
	}
	address, _, _ := strings.Cut(lines.Text(), "#")
	ts.Setenv("REMOTE", strings.TrimSuffix(address, "/"))
	ts.Defer(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// serverKey is the key of the server of a script.
type serverKey struct{}
