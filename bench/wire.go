package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// wire is a client's connection to a parrot process: directly, through a relay, or through
// segno.
type wire struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	log   bytes.Buffer
	asked int
}

// wires are the three connections to the same agent.
type wires struct{ direct, relay, segno *wire }

// dial starts the three, each with a session that works in dir. segno keeps its store below
// home.
func (b *bench) dial(ctx context.Context, dir, home string) (_ *wires, err error) {
	segno, err := b.build(ctx, true)
	if err != nil {
		return nil, err
	}
	me, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := new(wires)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "XDG_DATA_HOME=" + filepath.Join(home, "data")}
	for _, way := range []struct {
		wire **wire
		args []string
	}{
		{&w.direct, []string{me, "parrot"}},
		{&w.relay, []string{me, "relay", "--", me, "parrot"}},
		{&w.segno, []string{segno, "acp", "--", me, "parrot"}},
	} {
		if *way.wire, err = newWire(ctx, dir, env, way.args); err != nil {
			return nil, fmt.Errorf("%s: %w", way.args[1], err)
		}
	}
	return w, nil
}

// small returns an empty project and a home for segno.
func (b *bench) small() (dir, home string, err error) {
	if dir, err = b.scratch("small"); err != nil {
		return "", "", err
	}
	home, err = b.scratch("acp")
	return dir, home, err
}

func (w *wires) close() error {
	var errs []error
	for _, one := range []*wire{w.direct, w.relay, w.segno} {
		if one != nil {
			errs = append(errs, one.close())
		}
	}
	return errors.Join(errs...)
}

func newWire(ctx context.Context, dir string, env, args []string) (*wire, error) {
	w := &wire{cmd: exec.CommandContext(ctx, args[0], args[1:]...)}
	w.cmd.Dir, w.cmd.Env, w.cmd.Stderr = dir, env, &w.log
	in, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.in, w.out = in, bufio.NewReaderSize(out, 64<<10)
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	if err := w.ask("initialize", `{"protocolVersion":1}`); err != nil {
		return w, err
	}
	cwd, err := json.Marshal(dir)
	if err != nil {
		return w, err
	}
	return w, w.ask("session/new", `{"cwd":`+string(cwd)+`,"mcpServers":[]}`)
}

func (w *wire) close() error {
	w.in.Close()
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(w.cmd.Args, " "), err, &w.log)
	}
	return nil
}

// ask sends a request and reads until its answer arrives.
func (w *wire) ask(method, params string) error {
	if err := w.request(method, params); err != nil {
		return err
	}
	_, err := w.updates(func(int) error { return nil })
	return err
}

// request sends a request without waiting for the answer.
func (w *wire) request(method, params string) error {
	w.asked++
	_, err := fmt.Fprintf(w.in, `{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}`+"\n", w.asked, method, params)
	return err
}

// prompt returns the params of a prompt.
func prompt(text string) string {
	return `{"sessionId":"` + parrotSession + `","prompt":[{"type":"text","text":"` + text + `"}]}`
}

// updates reads until the answer of the last request, and counts the parrot's updates
// before it. It calls each with the count so far.
func (w *wire) updates(each func(n int) error) (int, error) {
	answer := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,`, w.asked)
	for n := 0; ; {
		line, err := w.out.ReadSlice('\n')
		switch {
		case err != nil:
			return n, fmt.Errorf("read: %w: %s", err, &w.log)
		case isUpdate(line):
			n++
			if err := each(n); err != nil {
				return n, err
			}
		case bytes.HasPrefix(line, answer) && bytes.Contains(line, []byte(`"error":`)):
			return n, fmt.Errorf("the agent answered %s", line)
		case bytes.HasPrefix(line, answer):
			return n, nil
		}
	}
}

// echo sends a small request and waits for its answer.
func (w *wire) echo() error {
	return w.ask("_x/echo", `{"sessionId":"`+parrotSession+`","text":"forty bytes of text that come back again"}`)
}

// hear sends a small notification and waits for the update that it causes.
func (w *wire) hear() error {
	if _, err := w.in.Write(sayOne); err != nil {
		return err
	}
	for {
		line, err := w.out.ReadSlice('\n')
		if err != nil || isUpdate(line) {
			return err
		}
	}
}

var sayOne = []byte(`{"jsonrpc":"2.0","method":"_x/say","params":{"sessionId":"` + parrotSession + `"}}` + "\n")
