package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/executable"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

// walk is a user who follows docs/fleet.md in one shell.
type walk struct {
	*testing.T
	stdin io.Writer
	out   *bufio.Reader
}

// do types a block of commands and returns what it printed.
func (w *walk) do(block string) string {
	w.Helper()
	const end = "-- the end of the block --"
	if _, err := io.WriteString(w.stdin, block+"\necho; echo '"+end+"'\n"); err != nil {
		w.Fatal(err)
	}
	var all strings.Builder
	for {
		line, err := w.out.ReadString('\n')
		if strings.TrimSpace(line) == end {
			w.Logf("%s\n%s", block, all.String())
			return all.String()
		}
		all.WriteString(line)
		if err != nil {
			w.Fatalf("%s\n%s\n%v", block, all.String(), err)
		}
	}
}

// prints checks the output of a block.
func (w *walk) prints(block string, want ...string) {
	w.Helper()
	out := w.do(block)
	for _, text := range want {
		if !strings.Contains(out, text) {
			w.Errorf("the block\n%s\nprints\n%s\nand not %q", block, out, text)
		}
	}
}

// until waits until a condition holds.
func (w *walk) until(what string, ok func() bool) {
	w.Helper()
	for end := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("%s: not within three minutes", what)
		}
	}
}

// TestTheFleetInTenMinutes does what docs/fleet.md says, block by block, with a scripted model: a prompt, a turn that loses its machine, a
// decision that no process waits for, and the API.
func TestTheFleetInTenMinutes(t *testing.T) {
	text, err := os.ReadFile("../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	blocks := func(language string) (all []string) {
		for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
			all = append(all, m[1])
		}
		return all
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "agents.toml"), []byte(blocks("toml")[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	model := fakemodel.New()
	address, stop, err := model.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	w := startShell(t, dir, address)
	steps := blocks("sh")
	if len(steps) != 10 {
		t.Fatalf("docs/fleet.md has %d blocks of commands; this test follows 10", len(steps))
	}
	goOn := filepath.Join(dir, "go-on")
	script := func(step, prompt, answers string) string {
		if !strings.Contains(step, prompt) {
			t.Fatalf("the block has no prompt %q:\n%s", prompt, step)
		}
		return strings.ReplaceAll(step, prompt, prompt+" <<fake "+strings.ReplaceAll(answers, `"`, `\"`)+">>")
	}
	write := func(name, more string) string {
		return fmt.Sprintf(`{"tool":"write_file","input":{"path":%q,"content":"…"}%s}`, name, more)
	}
	w.do(steps[0])
	w.prints(steps[1], "agents.toml is right: agents clerk, writer, 8 slots")
	w.prints(script(steps[2], "Write the tides of today into tides.txt", `[`+write("tides.txt", "")+`,"The tides are written."]`), "The tides are written.")

	haiku := `[` + write("one.txt", "") + `,` + write("two.txt", `,"until":"`+goOn+`"`) + `,"Two haiku are written."]`
	w.prints(script(steps[3], "Write three haiku about the harbour, each into a file of its own", haiku), "to thread harbour")
	calls := func() (n int) {
		for _, r := range model.Calls() {
			if r.HasText("three haiku") {
				n++
			}
		}
		return n
	}
	w.until("the turn is between two steps", func() bool { return calls() == 2 })
	w.prints(steps[4], "running ")
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.prints(steps[5], "Two haiku are written.")
	if n := calls(); n != 4 {
		t.Errorf("the turn called the model %d times; the step before the kill is not repeated, so it is 4 with the call that was lost", n)
	}
	w.prints(script(steps[6], "Write a letter to the harbour master into letter.txt", `[`+write("letter.txt", "")+`,"The letter is written."]`),
		"waiting ", "write_file", "the turn waits for a decision", "code 10")
	w.prints(script(steps[7], "Write a letter to the harbour master into letter.txt", `[`+write("letter.txt", "")+`,"The letter is written."]`),
		"recorded approve", "The letter is written.")
	port := freePort(t)
	w.do(strings.ReplaceAll(steps[8], "7777", port))
	w.until("the server listens", func() bool {
		res, err := http.Get("http://127.0.0.1:" + port + "/")
		if err == nil {
			res.Body.Close()
		}
		return err == nil
	})
	w.prints(script(strings.ReplaceAll(steps[9], "7777", port), "Which files do you keep?", `["tides.txt"]`), "tides.txt\n", `"state":"done"`, `"answer":"tides.txt"`)
	for _, name := range []string{"worker1.log", "worker2.log", "worker3.log"} {
		log, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(log), "a turn begins") || strings.Contains(string(log), "harbour master") || strings.Contains(string(log), "test-key") {
			t.Errorf("%s is %v\n%s", name, err, log)
		}
	}
}

// startShell starts a shell in a directory, with the command segno, a database and a model.
func startShell(t *testing.T, dir, model string) *walk {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asCommand, self)
	if err := executable.Write(filepath.Join(bin, "segno"), []byte(wrapper)); err != nil {
		t.Fatal(err)
	}
	shell := exec.CommandContext(t.Context(), "bash")
	shell.Dir = dir
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "SEGNO_") && !strings.HasPrefix(name, "ANTHROPIC_") {
			shell.Env = append(shell.Env, v)
		}
	}
	shell.Env = append(shell.Env, "HOME="+dir, "NO_COLOR=1", "PATH="+bin+":"+os.Getenv("PATH"), "SEGNO_FLEET="+newDatabase(t),
		"ANTHROPIC_BASE_URL="+model, "ANTHROPIC_API_KEY=test-key")
	stdin, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	shell.Stderr = shell.Stdout
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		io.WriteString(stdin, "kill -9 $(jobs -p)\n") // those that a failed test left
		stdin.Close()
		shell.Wait()
	})
	return &walk{t, stdin, bufio.NewReader(out)}
}

// newDatabase makes an empty database and returns its URL.
func newDatabase(t *testing.T) string {
	t.Helper()
	name := "fleet_" + segno.NewID()
	c, err := postgresDriver{}.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.(postgresConn).Close(context.WithoutCancel(t.Context()))
	if _, err := c.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(server.URL, "/postgres?", "/"+name+"?", 1)
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
