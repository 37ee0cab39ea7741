package acptest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/dalsegno/segno/internal/acp"
)

// Client drives an agent's process and keeps all that comes from it, in order. Its
// methods may be called by many goroutines at once.
type Client struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *acp.Writer
	permit func(Received) string
	handle func(Received) (json.RawMessage, *acp.Error)
	stderr bytes.Buffer // read after exited
	exited chan struct{}
	err    error      // of Wait; read after exited
	gate   sync.Mutex // held while nothing is to be read

	mu       sync.Mutex
	next     int
	received []Received
	more     chan struct{}  // closed when something was received, and replaced
	open     map[string]int // how many answers a request still waits for, by its id
	problems []string
	ended    bool // stdout is
}

// Received is one message that came, and its place among all that did.
type Received struct {
	acp.Message
	Place int
}

// Update is what a session/update says; "" for any other message.
func (r Received) Update() string {
	if r.MethodName() != "session/update" {
		return ""
	}
	return r.Text(r.Find(r.Params, "update", "sessionUpdate"))
}

// Content is the text of an update's content, "" if it has none.
func (r Received) Content() string {
	return r.Message.Text(r.Find(r.Params, "update", "content", "text"))
}

// ClientOptions say how a client answers. The zero value allows everything and knows
// no method but session/request_permission.
type ClientOptions struct {
	// Permit returns the option that is chosen; "" is no answer at all, and
	// "cancelled" that outcome.
	Permit func(Received) string
	// Handle answers other requests.
	Handle func(Received) (json.RawMessage, *acp.Error)
}

// Start starts an agent's command in a separate process group. The end of the context kills the
// group.
func Start(ctx context.Context, cmd *exec.Cmd, o ClientOptions) (*Client, error) {
	c := &Client{cmd: cmd, permit: o.Permit, handle: o.Handle, exited: make(chan struct{}), more: make(chan struct{}), open: map[string]int{}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = &c.stderr
	cmd.WaitDelay = 2 * time.Second // a grandchild that lives on keeps stderr open
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = theirs
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		stdout.Close()
		return nil, fmt.Errorf("acptest: starting the agent: %w", err)
	}
	c.in, c.out = in, acp.NewWriter(in)
	stop := context.AfterFunc(ctx, func() { c.Kill() })
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.read(stdout)
	}()
	go func() {
		defer close(c.exited)
		defer stop()
		c.err = cmd.Wait()
		select {
		case <-read:
		case <-time.After(cmd.WaitDelay):
		}
		stdout.Close()
		<-read
	}()
	return c, nil
}

// PID is the process's id and its group's.
func (c *Client) PID() int { return c.cmd.Process.Pid }

// Send writes bytes unchanged. A request among them is registered, so that its answer is expected.
func (c *Client) Send(raw string) error {
	for line := range bytes.Lines([]byte(raw)) {
		if m, err := acp.Parse(line); err == nil && m.IsRequest() {
			c.mu.Lock()
			c.open[m.IDText()]++
			c.mu.Unlock()
		}
	}
	return c.out.Write([]byte(raw))
}

// Notify sends a notification.
func (c *Client) Notify(method string, params any) error {
	return c.out.Write(acp.Notification(method, encode(params)))
}

// Hold makes the client read nothing until the function it returns is called.
func (c *Client) Hold() (release func()) {
	c.gate.Lock()
	return c.gate.Unlock
}

// CloseStdin tells the agent that the client is done.
func (c *Client) CloseStdin() error { return c.in.Close() }

// Kill ends the process and its group the hard way. Groups its children made live on.
func (c *Client) Kill() {
	_ = syscall.Kill(-c.PID(), syscall.SIGKILL) // it may be gone
}

// KillOne ends the process alone, as the system would.
func (c *Client) KillOne() {
	_ = syscall.Kill(c.PID(), syscall.SIGKILL)
}

// Exited is closed when the process is gone and all it wrote was read.
func (c *Client) Exited() <-chan struct{} { return c.exited }

// Wait returns the exit code once the process is gone; -1 if a signal ended it.
func (c *Client) Wait(ctx context.Context) (int, error) {
	select {
	case <-c.exited:
	case <-ctx.Done():
		return 0, fmt.Errorf("acptest: waiting for the agent to exit: %w", ctx.Err())
	}
	var exit *exec.ExitError
	if c.err != nil && !errors.As(c.err, &exit) && !errors.Is(c.err, exec.ErrWaitDelay) {
		return 0, fmt.Errorf("acptest: waiting for the agent to exit: %w", c.err)
	}
	return c.cmd.ProcessState.ExitCode(), nil
}

// Stderr is what the process wrote there. It waits for its end.
func (c *Client) Stderr() string {
	<-c.exited
	return c.stderr.String()
}

// Messages are all that came, in order.
func (c *Client) Messages() []Received {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Received(nil), c.received...)
}

// Problems returns violations of the protocol by the agent: a second answer, an answer without a
// request, or a line that is not a message.
func (c *Client) Problems() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.problems...)
}

// Unanswered are the ids of requests that have no answer yet.
func (c *Client) Unanswered() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []string
	for id, n := range c.open {
		if n > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// ErrEnded is what waiting returns when the agent's stdout has ended.
var ErrEnded = errors.New("acptest: the agent is gone")

// Await returns the first message at or behind a place that is wanted, when it came.
func (c *Client) Await(ctx context.Context, from int, want func(Received) bool) (Received, error) {
	for {
		c.mu.Lock()
		for ; from < len(c.received); from++ {
			if r := c.received[from]; want(r) {
				c.mu.Unlock()
				return r, nil
			}
		}
		ended, more := c.ended, c.more
		c.mu.Unlock()
		if ended {
			return Received{}, ErrEnded
		}
		select {
		case <-more:
		case <-ctx.Done():
			return Received{}, ctx.Err()
		}
	}
}

// Place is the place the next message will have.
func (c *Client) Place() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.received)
}

func (c *Client) read(stdout io.Reader) {
	lines := acp.NewReader(stdout)
	for {
		line, err := lines.Next()
		c.gate.Lock()
		c.gate.Unlock() //lint:ignore SA2001 whoever holds it lets us wait here
		if errors.Is(err, acp.ErrTooLong) {
			c.take(Received{}, err)
			continue
		}
		if err != nil {
			break
		}
		m, err := acp.Parse(line)
		c.take(Received{Message: m}, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	close(c.more)
	c.more = make(chan struct{})
}

// take keeps what came, counts answers and answers requests.
func (c *Client) take(r Received, err error) {
	c.mu.Lock()
	r.Place = len(c.received)
	c.received = append(c.received, r)
	if err != nil {
		c.problems = append(c.problems, fmt.Sprintf("%v: %.80q", err, r.Line))
	} else if id := r.IDText(); r.IsResponse() && id != "null" {
		if c.open[id] == 0 {
			c.problems = append(c.problems, "an answer too many: "+fmt.Sprintf("%.120s", r.Line))
		}
		c.open[id] = max(0, c.open[id]-1)
	}
	close(c.more)
	c.more = make(chan struct{})
	c.mu.Unlock()
	if err == nil && r.IsRequest() {
		go c.respond(r)
	}
}

func (c *Client) respond(r Received) {
	if r.MethodName() != "session/request_permission" {
		result, e := json.RawMessage(nil), &acp.Error{Code: acp.CodeMethodNotFound, Message: "Method not found"}
		if c.handle != nil {
			result, e = c.handle(r)
		}
		if e != nil {
			_ = c.out.Write(acp.Failure(r.IDText(), e))
			return
		}
		_ = c.out.Write(acp.Result(r.IDText(), result))
		return
	}
	choice := "allow"
	if c.permit != nil {
		choice = c.permit(r)
	}
	outcome := map[string]string{"outcome": "selected", "optionId": choice}
	switch choice {
	case "":
		return
	case "cancelled":
		outcome = map[string]string{"outcome": "cancelled"}
	}
	_ = c.out.Write(acp.Result(r.IDText(), encode(map[string]any{"outcome": outcome}))) // the agent may be gone
}
