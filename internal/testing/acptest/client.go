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

	"github.com/dalsegno/segno/internal/proxy/acp"
)

// Client drives an agent's process and stores all its messages in order. It is safe for
// concurrent use.
type Client struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *acp.Writer
	permit func(Received) string
	handle func(Received) (json.RawMessage, *acp.Error)
	stderr bytes.Buffer // read after exited
	exited chan struct{}
	err    error      // of Wait; read after exited
	gate   sync.Mutex // held while the client must not read

	mu       sync.Mutex
	next     int
	received []Received
	more     chan struct{}  // closed and replaced after each received message
	open     map[string]int // the number of missing answers, by the request's id
	problems []string
	ended    bool // stdout has ended
}

// Received is a received message, and its place among all received messages.
type Received struct {
	acp.Message
	Place int
}

// Update returns the kind of a session/update, or "" for any other message.
func (r Received) Update() string {
	if r.MethodName() != "session/update" {
		return ""
	}
	return r.Text(r.Find(r.Params, "update", "sessionUpdate"))
}

// Content returns the text of an update's content, or "" if there is none.
func (r Received) Content() string {
	return r.Message.Text(r.Find(r.Params, "update", "content", "text"))
}

// ClientOptions configures the answers of a client. The zero value allows everything, and
// supports no method except session/request_permission.
type ClientOptions struct {
	// Permit returns the id of the chosen option. "" means no answer at all, and "cancelled"
	// means the outcome cancelled.
	Permit func(Received) string
	// Handle answers other requests.
	Handle func(Received) (json.RawMessage, *acp.Error)
}

// Start starts an agent's command in a separate process group. When the context ends, the group
// is killed.
func Start(ctx context.Context, cmd *exec.Cmd, o ClientOptions) (*Client, error) {
	c := &Client{cmd: cmd, permit: o.Permit, handle: o.Handle, exited: make(chan struct{}), more: make(chan struct{}), open: map[string]int{}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = &c.stderr
	cmd.WaitDelay = 2 * time.Second // a surviving grandchild keeps stderr open
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

// PID returns the id of the process, which is also the id of its group.
func (c *Client) PID() int { return c.cmd.Process.Pid }

// Send writes bytes unchanged. It registers the requests among them, so that their answers are
// expected.
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

// Hold stops the client's reading until release is called.
func (c *Client) Hold() (release func()) {
	c.gate.Lock()
	return c.gate.Unlock
}

// CloseStdin closes the agent's standard input, as a client does that ends.
func (c *Client) CloseStdin() error { return c.in.Close() }

// Kill kills the process and its group. Groups that its children made survive.
func (c *Client) Kill() {
	_ = syscall.Kill(-c.PID(), syscall.SIGKILL) // it may have ended
}

// KillOne kills only the process and not its group.
func (c *Client) KillOne() {
	_ = syscall.Kill(c.PID(), syscall.SIGKILL)
}

// Exited is closed when the process has ended and all its output was read.
func (c *Client) Exited() <-chan struct{} { return c.exited }

// Wait waits for the end of the process and returns its exit code, or -1 if a signal ended it.
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

// Stderr waits for the end of the process and returns its standard error.
func (c *Client) Stderr() string {
	<-c.exited
	return c.stderr.String()
}

// Messages returns all received messages in order.
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

// Unanswered returns the ids of the requests that have no answer yet.
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

// ErrEnded is the error of a wait if the agent's stdout has ended.
var ErrEnded = errors.New("acptest: the agent is gone")

// Await waits for the first message at place from or later for which want returns true.
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

// Place returns the place of the next message.
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

// take stores a received message, counts answers and answers requests.
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
	_ = c.out.Write(acp.Result(r.IDText(), encode(map[string]any{"outcome": outcome}))) // the agent may have ended
}
