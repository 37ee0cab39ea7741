package tool_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/tool"
)

func shell(t *testing.T, o tool.ExecuteOptions) (*rig, string) {
	t.Helper()
	dir := t.TempDir()
	return newRig(t, []agent.Tool{tool.Execute(dir, o)}), dir
}

func TestACommandsOutputAndExitCode(t *testing.T) {
	r, dir := shell(t, tool.ExecuteOptions{})
	writeFile(t, filepath.Join(dir, "here"), "")
	r.wants("here\nexit code 0", "execute", "command", "ls")
	r.wants("(no output)\nexit code 0", "execute", "command", "true")
	r.wants("1\n2\n3\nexit code 0", "execute", "command", "echo 1; echo 2 >&2; echo 3")
	r.wants("$HOME \"quoted\" ü 'x'\nexit code 0", "execute", "command", `printf '%s' "\$HOME \"quoted\" ü 'x'"`)
	r.wants("(no output)\nexit code 0", "execute", "command", "cat") // there is no input
	r.wants("(no output)\nexit code 137", "execute", "command", "kill -9 $$")
	res, err := r.call(t.Context(), "execute", `{"command":"echo no >&2; exit 3"}`)
	if err != nil || !res.Error || res.Text != "no\nexit code 3" {
		t.Errorf("a command that goes wrong gives %+v, %v", res, err)
	}
	if ev := r.last(); ev.Kind != tool.EventExecFinish || *ev.Code != 3 || ev.Text != "echo no >&2; exit 3" {
		t.Errorf("the event is %+v", ev)
	}
	if got := r.told()[:2]; !reflect.DeepEqual(got, []agent.EventKind{"execute-start", tool.EventExecFinish}) {
		t.Errorf("the events are %v", got)
	}
}

func TestCommandsThatCannotBeMeant(t *testing.T) {
	r, dir := shell(t, tool.ExecuteOptions{MaxTimeout: time.Minute})
	r.fails([]string{"no command"}, "execute", "command", " ")
	r.fails([]string{"timeout_seconds -1", "at most 60"}, "execute", "command", "true", "timeout_seconds", -1)
	r.fails([]string{"timeout_seconds 61", "at most 60"}, "execute", "command", "true", "timeout_seconds", 61)
	if len(r.told()) != 0 {
		t.Errorf("they are told to have begun: %v", r.told())
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	r.fails([]string{"run command", "no such file or directory"}, "execute", "command", "true")
}

// holders makes a pipe in dir that a command opens as descriptor 3. up waits until the
// command has written a line to it. gone waits until the command and all of its children
// have ended.
func holders(t *testing.T, dir string) (up, gone func()) {
	t.Helper()
	name := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	opened := make(chan *os.File, 1)
	go func() {
		f, err := os.Open(name)
		if err != nil {
			t.Error(err)
		}
		opened <- f
	}()
	var f *os.File
	up = func() {
		f = <-opened
		if _, err := f.Read(make([]byte, 100)); err != nil {
			t.Error(err)
		}
	}
	return up, func() {
		defer f.Close()
		if _, err := io.Copy(io.Discard, f); err != nil {
			t.Error(err)
		}
	}
}

// outOfTime runs a command that makes the file begun, with a time limit that ends it, and returns its result when all of its children have
// ended. On a busy machine a shell may need longer than the limit to begin: outOfTime then doubles the limit and runs the command again.
func outOfTime(t *testing.T, limit *time.Duration, run func(r *rig) string) (r *rig, text string) {
	t.Helper()
	for {
		var dir string
		r, dir = shell(t, tool.ExecuteOptions{Timeout: *limit})
		up, gone := holders(t, dir)
		text = run(r)
		_, err := os.Stat(filepath.Join(dir, "begun"))
		if err == nil {
			up()
			gone()
			return r, text
		}
		pipe, err := os.OpenFile(filepath.Join(dir, "fifo"), os.O_RDWR, 0) // ends the wait for the command
		if err == nil {
			_, err = pipe.WriteString("not begun")
		}
		if err != nil {
			t.Fatal(err)
		}
		up()
		pipe.Close()
		gone()
		*limit *= 2
	}
}

func TestACommandOutOfTimeIsStoppedWithItsChildren(t *testing.T) {
	limit := 100 * time.Millisecond
	r, text := outOfTime(t, &limit, func(r *rig) string {
		res, err := r.call(t.Context(), "execute", fmt.Sprintf(`{"timeout_seconds":%v,"command":%q}`, limit.Seconds(),
			"exec 3>fifo; echo up >&3; echo before; (sh -c '>begun; sleep 1000 & sleep 1000') & sleep 1000"))
		if err != nil || !res.Error {
			t.Errorf("out of time: %+v, %v", res, err)
		}
		return res.Text
	})
	if want := fmt.Sprintf("before\ntimed out after %v and was stopped with its child processes: set a longer timeout_seconds\nexit code 124", limit); text != want {
		t.Errorf("the result is %q, want %q", text, want)
	}
	if ev := r.last(); ev.Kind != tool.EventExecFinish || *ev.Code != 124 {
		t.Errorf("the event is %+v", ev)
	}
}

func TestTheDefaultTimeIsTheOptions(t *testing.T) {
	limit := 100 * time.Millisecond
	_, text := outOfTime(t, &limit, func(r *rig) string {
		return r.do("execute", "command", "trap '' TERM INT HUP; exec 3>fifo; echo up >&3; >begun; sleep 1000; sleep 1000")
	})
	if want := fmt.Sprintf("timed out after %v", limit); !strings.Contains(text, want) {
		t.Errorf("the result is %q, want %q", text, want)
	}
}

func TestACancelledCommandIsStoppedWithItsChildren(t *testing.T) {
	r, dir := shell(t, tool.ExecuteOptions{})
	up, gone := holders(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := r.call(ctx, "execute", `{"command":"exec 3>fifo; (sleep 1000 & sleep 1000) & echo up >&3; sleep 1000"}`)
		ended <- err
	}()
	up()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("that a command was stopped is its result, not %v", err)
	}
	gone()
	if ev := r.last(); ev.Kind != tool.EventExecFinish || *ev.Code != 137 {
		t.Errorf("the event is %+v", ev)
	}
	if _, err := r.call(ctx, "execute", `{"command":"touch ran"}`); !errors.Is(err, context.Canceled) {
		t.Errorf("a command after the end: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a command ran after the end")
	}
}

func TestBackgroundProcessesAreKilled(t *testing.T) {
	r, dir := shell(t, tool.ExecuteOptions{})
	up, gone := holders(t, dir)
	r.wants("started\n(background processes of the command were stopped)\nexit code 0", "execute", "command",
		"exec 3>fifo; echo up >&3; sleep 1000 & sleep 1000 >/dev/null 2>&1 & echo started")
	up()
	gone()
}

func TestLongOutputKeepsItsEnds(t *testing.T) {
	r, _ := shell(t, tool.ExecuteOptions{Output: 100})
	want := "b" + strings.Repeat("x", 49) + "\n… 999904 bytes left out …\n" + strings.Repeat("x", 47) + "e\n\nexit code 0"
	if got := r.do("execute", "command", "printf b; head -c 1000000 /dev/zero | tr '\\0' x; printf 'e\n\n'"); got != want {
		t.Errorf("it says\n%s\nwant\n%s", got, want)
	}
	got := r.do("execute", "command", "printf a; for i in 0 1 2 3 4 5 6 7 8 9; do printf üüüüüüüüüüüüüüüüüüüü; done; printf z")
	if strings.Contains(got, "\uFFFD") || !strings.HasPrefix(got, "aü") || !strings.HasSuffix(got, "üz\nexit code 0") {
		t.Errorf("characters are cut in two: %q", got)
	}
	var left int
	head, rest, _ := strings.Cut(got, "\n… ")
	fmt.Sscanf(rest, "%d bytes", &left)
	_, tail, _ := strings.Cut(rest, "left out …\n")
	if sum := len(head) + left + len(strings.TrimSuffix(tail, "\nexit code 0")); sum != 402 {
		t.Errorf("shown and left out are %d bytes, not the 402 there were: %q", sum, got)
	}
	r.wants(strings.Repeat("y", 100)+"\nexit code 0", "execute", "command", "head -c 100 /dev/zero | tr '\\0' y")

	r, _ = shell(t, tool.ExecuteOptions{})
	if got := r.do("execute", "command", "head -c 3000000 /dev/zero | tr '\\0' x"); len(got) > 257<<10 || len(got) < 256<<10 {
		t.Errorf("by default %d bytes are kept", len(got))
	}
}

func TestACommandsEnvironment(t *testing.T) {
	t.Setenv("SOME_API_KEY", "sesame")
	t.Setenv("github_token", "sesame")
	t.Setenv("PLAIN", "plain")
	r, _ := shell(t, tool.ExecuteOptions{})
	r.wants("plain\nexit code 0", "execute", "command", "echo $PLAIN$SOME_API_KEY$github_token")
	r, _ = shell(t, tool.ExecuteOptions{Env: []string{"PATH=" + os.Getenv("PATH"), "SOME_API_KEY=given"}})
	r.wants("given\nexit code 0", "execute", "command", "echo $PLAIN$SOME_API_KEY$github_token")
}
