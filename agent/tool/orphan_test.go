package tool_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/tool"
)

// TestACommandDiesWithItsAgent kills a process in the middle of a command. The command and
// its background processes hold a fifo open, so the fifo ends with the last of them.
func TestACommandDiesWithItsAgent(t *testing.T) {
	if dir := os.Getenv("SEGNO_TEST_EXECUTE"); dir != "" {
		r := newRig(t, []agent.Tool{tool.Execute(dir, tool.ExecuteOptions{})})
		_, err := r.call(t.Context(), "execute", `{"command":"exec 9>alive; sleep 1000 & echo up >&9; sleep 1000"}`)
		t.Fatalf("the command ended: %v", err)
	}
	diesWithItsAgent(t, "SEGNO_TEST_EXECUTE")
}

// diesWithItsAgent runs the test again in a process with a variable for its directory, and kills the process.
func diesWithItsAgent(t *testing.T, variable string) {
	t.Helper()
	dir := t.TempDir()
	alive := filepath.Join(dir, "alive")
	if err := syscall.Mkfifo(alive, 0o600); err != nil {
		t.Fatal(err)
	}
	holder := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	holder.Env = append(os.Environ(), variable+"="+dir)
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.Open(alive) // the command has begun to open it
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	up := make([]byte, len("up\n"))
	if _, err := io.ReadFull(fifo, up); err != nil {
		t.Fatal(err)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait() // it was killed
	if rest, err := io.ReadAll(fifo); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}
