package hook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/proc"
)

// register writes an entry of the agent's registry of running processes for the scene's session.
func (c *scene) register(pid int, start string) {
	c.Helper()
	dir := filepath.Join(c.place.Homes["claude"], "sessions")
	data, err := json.Marshal(map[string]any{"pid": pid, "sessionId": session, "procStart": start})
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.json", pid)), data, 0o600)
	}
	if err != nil {
		c.Fatal(err)
	}
}

// TestASecondWriterIsNamed opens one session in two processes. The user is warned once, with the id
// of the other process. There is no warning about a process that has ended.
func TestASecondWriterIsNamed(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	t.Setenv("TMPDIR", t.TempDir())
	other := exec.Command("cat")
	stdin, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); _ = other.Wait() })
	own, pid := os.Getpid(), other.Process.Pid
	c.register(own, proc.Start(own))
	c.register(pid, proc.Start(pid)+"0") // an earlier process with the same id
	prompt := func(key string) string {
		var out bytes.Buffer
		event := c.payload("UserPromptSubmit", "prompt_id", key, "prompt", "a prompt")
		Run(c.Context(), "claude", Event{Place: c.place, Stdin: strings.NewReader(event), Stdout: &out, Getenv: func(string) string { return "" }, PID: own})
		return out.String()
	}
	if got := prompt("p1"); strings.Contains(got, "has this session open") {
		t.Errorf("warned of a process that is gone: %s", got)
	}
	c.register(pid, proc.Start(pid))
	var answer struct {
		Message string `json:"systemMessage"`
	}
	if err := json.Unmarshal([]byte(prompt("p2")), &answer); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("process %d has this session open, too", pid); !strings.Contains(answer.Message, want) || strings.Contains(answer.Message, "\n") {
		t.Errorf("the user gets %q", answer.Message)
	}
	if got := prompt("p3"); strings.Contains(got, "has this session open") {
		t.Errorf("warned again: %s", got)
	}
	c.wantNoFailures()
}
