package web

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// bytesRead returns how many bytes this process has read from files, pipes and sockets.
func bytesRead(t *testing.T) (n int64) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/io")
	if err == nil {
		_, err = fmt.Sscanf(string(data), "rchar: %d", &n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAnOpenTurnIsReadOnce looks at a turn of many calls as an open page does, while the agent makes further calls. The server must
// not read the whole turn each time.
func TestAnOpenTurnIsReadOnce(t *testing.T) {
	dir := t.TempDir()
	store, err := (local.Place{Store: filepath.Join(dir, "store"), UserHome: filepath.Join(dir, "home"), Now: time.Now}).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := New(Config{Store: store, Local: store, Kind: "sqlite", Token: NewToken()}, l)

	if err := store.Spool().SaveTurn(t.Context(), timeline.OpenTurn{Key: "k", Thread: "t", Agent: "claude", Start: time.Now()}); err != nil {
		t.Fatal(err)
	}
	written, calls := int64(0), 0
	call := func(isDone bool) {
		t.Helper()
		id := fmt.Sprint("call ", calls)
		calls++
		body, err := json.Marshal(map[string]string{"command": "echo " + strings.Repeat("x", 4000)})
		if err != nil {
			t.Fatal(err)
		}
		entries := []segno.Entry{{Kind: segno.EntryIntent, ID: id, Name: "Bash", Body: body}, {Kind: segno.EntryResult, ID: id, Name: "Bash", Body: body}}
		if !isDone {
			entries = entries[:1]
		}
		for _, e := range entries {
			written += int64(len(body))
			if err := store.Spool().AppendEntry(t.Context(), "k", e); err != nil {
				t.Fatal(err)
			}
		}
	}
	look := func() {
		t.Helper()
		now, err := s.activity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		open := now.turns["t"]
		if open == nil || open.CallsTotal != calls || len(open.Calls) != min(calls, maxOpenCalls) {
			t.Fatalf("the open turn is %+v, want %d calls", open, calls)
		}
		if last := open.Calls[len(open.Calls)-1]; last.ID != fmt.Sprint("call ", calls-1) || last.Done || !strings.HasPrefix(last.Title, "echo") {
			t.Errorf("the newest call is %+v", last)
		}
	}
	for range 300 {
		call(true)
	}
	call(false)
	look()
	before, atFirst := bytesRead(t), written
	for range 20 {
		call(false)
		look()
	}
	if n := bytesRead(t) - before; n > atFirst {
		t.Errorf("the server read %d bytes to look 20 times at a turn of %d bytes that it knew", n, atFirst)
	}
}
