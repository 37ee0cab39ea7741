package proxy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// TestASecondWriterIsNamed opens a session that another process of the agent has open. The client
// shows the number of that process.
func TestASecondWriterIsNamed(t *testing.T) {
	r, c, s := startSession(t, acptest.Full)
	r.write(c, s, "alpha")
	r.leave(c)
	var list []struct{ Session string }
	if err := json.Unmarshal([]byte(r.segno("threads", "--json")), &list); err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	other := exec.Command("cat")
	stdin, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); _ = other.Wait() })
	dir := filepath.Join(r.home, ".claude", "sessions")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	entry := fmt.Sprintf(`{"pid":%d,"sessionId":%q}`, other.Process.Pid, list[0].Session)
	if err := os.WriteFile(filepath.Join(dir, "1.json"), []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	c = r.client()
	r.open(c, "load", s)
	want := fmt.Sprintf("process %d has this session open", other.Process.Pid)
	_, err = c.Await(r.ctx, 0, func(m acptest.Received) bool {
		return strings.Contains(m.Text(m.Find(m.Params, "update", "content", "text"))+m.Text(m.Find(m.Params, "update", "title")), want)
	})
	if err != nil {
		t.Errorf("the client is not shown %q: %v", want, err)
	}
}
