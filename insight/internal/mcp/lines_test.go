package mcp_test

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/testing/wings"
)

// start starts 'segno mcp'. ended receives its exit code.
func (r *rig) start(args ...string) (fromServer *io.PipeReader, toServer *io.PipeWriter, ended <-chan int) {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	env := r.env
	env.Stdin, env.Stdout = in, out
	code := make(chan int, 1)
	go func() {
		code <- cli.Main(r.Context(), env, wings.All(), append([]string{"--store", r.store, "mcp"}, args...))
	}()
	return fromServer, toServer, code
}

// TestALineThatIsNoMessage sends lines that are not messages. The server answers each with an error without an id, and goes on.
func TestALineThatIsNoMessage(t *testing.T) {
	r := newRig(t)
	fromServer, toServer, ended := r.start()
	answers := bufio.NewScanner(fromServer)
	send := func(line string) (id any, code float64) {
		t.Helper()
		if _, err := io.WriteString(toServer, line+"\n"); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() {
			t.Fatalf("no answer to %.80q: %v", line, answers.Err())
		}
		var got map[string]any
		if err := json.Unmarshal(answers.Bytes(), &got); err != nil {
			t.Fatalf("%v in %s", err, answers.Text())
		}
		if _, ok := got["id"]; !ok || got["jsonrpc"] != "2.0" {
			t.Errorf("the answer to %.80q is %s", line, answers.Text())
		}
		if failed, ok := got["error"].(map[string]any); ok {
			code = failed["code"].(float64)
		}
		return got["id"], code
	}
	const start = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	for _, bad := range []struct {
		line string
		code float64
	}{
		{"log", -32700}, {`{"jsonrpc":"2.0","id":7,`, -32700}, {ping + ping, -32700}, {"\x00\xff", -32700}, {strings.Repeat("[", 20000), -32700},
		{`"log"`, -32600}, {"7", -32600}, {"null", -32600}, {"[]", -32600}, {"[1]", -32600}, {`{"id":7}`, -32600},
		{strings.Repeat(" ", 1<<20) + ping, -32600}, {strings.Repeat("x", 3<<20+7), -32600},
		{"[" + ping + "]", -32600}, // this version of the protocol has no batches
	} {
		if id, code := send(bad.line); id != nil || code != bad.code {
			t.Errorf("%.80q is answered with the error %v and the id %v, want %v and no id", bad.line, code, id, bad.code)
		}
		for want, line := range []string{1: start, 2: ping} {
			if line == "" || line == start && bad.line != "log" {
				continue
			}
			if id, code := send(line); id != float64(want) || code != 0 {
				t.Errorf("after %.80q the answer to %s has the error %v and the id %v", bad.line, line, code, id)
			}
		}
		if bad.line == "log" {
			if _, err := io.WriteString(toServer, "\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\r\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
	toServer.Close()
	if code := <-ended; code != 0 {
		t.Errorf("the server ended with %d", code)
	}
}

// TestBatch sends batches over a version of the protocol that has them. One in which two requests have the same id is refused.
func TestBatch(t *testing.T) {
	r := newRig(t)
	fromServer, toServer, ended := r.start()
	answers := bufio.NewScanner(fromServer)
	for _, c := range []struct{ line, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, `"protocolVersion":"2025-03-26"`},
		{`[{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`, `"code":-32600`},
		{`[{"jsonrpc":"2.0","id":3,"method":"ping"},{"jsonrpc":"2.0","id":4,"method":"ping"}]`, `[{"jsonrpc":"2.0","id":3,"result":{}},{"jsonrpc":"2.0","id":4,"result":{}}]`},
	} {
		if _, err := io.WriteString(toServer, c.line+"\n"); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() || !strings.Contains(answers.Text(), c.want) {
			t.Fatalf("the answer to %s is %q, want %s", c.line, answers.Text(), c.want)
		}
	}
	toServer.Close()
	if code := <-ended; code != 0 {
		t.Errorf("the server ended with %d", code)
	}
}
