package cli

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/dalsegno/segno"
)

// defaultPager is the pager if the environment names no other program.
const defaultPager = "less"

// pager is standard output for a result that may be longer than the terminal. It buffers the first
// lines. A short result is written to the terminal, and a long result to the user's pager.
type pager struct {
	app     *App
	out     *os.File
	command string
	rows    int // rows of the terminal

	held    bytes.Buffer
	process *exec.Cmd // nil until the result is too long for the terminal
	in      io.WriteCloser
	quit    bool // the user has left the pager
}

// newPager returns nil if standard output is not a terminal, if the terminal is dumb, or if the user
// does not want a pager.
func (a *App) newPager() *pager {
	out, ok := a.Stdout.(*os.File)
	if !ok || !a.pages || a.noPager || !Terminal(out) || a.Getenv("TERM") == "dumb" {
		return nil
	}
	command := cmp.Or(a.Getenv("SEGNO_PAGER"), a.Getenv("PAGER"), defaultPager)
	if _, err := exec.LookPath(defaultPager); command == "cat" || command == defaultPager && err != nil {
		return nil
	}
	_, rows, err := term.GetSize(int(out.Fd()))
	if err != nil || rows < 1 {
		return nil
	}
	return &pager{app: a, out: out, command: command, rows: rows}
}

// Write buffers the result until it fills the terminal, and then starts the user's pager and sends
// everything to it.
func (p *pager) Write(data []byte) (int, error) {
	if p.process != nil {
		return p.send(data)
	}
	p.held.Write(data)
	if bytes.Count(p.held.Bytes(), []byte("\n")) < p.rows { // the prompt needs a row
		return len(data), nil
	}
	if err := p.start(); err != nil {
		return 0, err
	}
	if _, err := p.send(p.held.Bytes()); err != nil {
		return 0, err
	}
	return len(data), nil
}

// send writes to the user's pager. EPIPE means that the user has quit it.
func (p *pager) send(data []byte) (int, error) {
	n, err := p.in.Write(data)
	p.quit = p.quit || errors.Is(err, syscall.EPIPE)
	return n, err
}

// start runs the pager as git does: through the shell, with options for less that keep colours and
// leave the result on the screen.
func (p *pager) start() (err error) {
	c := exec.Command("sh", "-c", p.command) //nolint:noctx // the pager ends when its user quits it
	c.Stdout, c.Stderr, c.Env = p.out, p.app.Stderr, p.app.Environ()
	for name, value := range map[string]string{"LESS": "FRX", "LV": "-c"} {
		if p.app.Getenv(name) == "" {
			c.Env = append(c.Env, name+"="+value)
		}
	}
	if p.in, err = c.StdinPipe(); err == nil {
		err = c.Start()
	}
	if err != nil {
		return segno.NewError(segno.KindIO, "start pager", p.command, err).WithHint("use --no-pager")
	}
	p.process = c
	// Ctrl+C is a command of the pager, which needs the terminal until it ends.
	signal.Ignore(os.Interrupt)
	return nil
}

// close ends the result and waits for the pager. err is the error that made the result incomplete,
// or nil. close returns an error if the shell could not run the pager. It is not an error if the
// user quits the pager early.
func (p *pager) close(err error) error {
	if p.process == nil {
		_, writeErr := p.out.Write(p.held.Bytes())
		return cmp.Or(err, writeErr)
	}
	closeErr := p.in.Close()
	_ = p.process.Wait() // the exit code is below
	if code := p.process.ProcessState.ExitCode(); code == 126 || code == 127 {
		return segno.Errorf(segno.KindIO, "start pager", p.command, "the shell could not run it").WithHint("use --no-pager")
	}
	if p.quit {
		return nil
	}
	return cmp.Or(err, closeErr)
}
