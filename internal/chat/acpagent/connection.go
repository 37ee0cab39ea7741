package acpagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	wire "github.com/dalsegno/segno/internal/proxy/acp"
)

// errStopped is the cause of a request's context that the client cancelled.
var errStopped = errors.New("the client cancelled the request")

// isStopped reports whether the client cancelled a request.
func isStopped(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errStopped) }

// handler serves a request. The connection encodes its result or its error as the answer.
type handler func(ctx context.Context, m wire.Message) (any, error)

// handle returns a handler that decodes and validates the params of a request.
func handle[P, R any](serve func(context.Context, P) (R, error)) handler {
	return func(ctx context.Context, m wire.Message) (any, error) {
		var p P
		err := m.Decode(m.Params, &p)
		if v, ok := any(&p).(interface{ Validate() error }); ok && err == nil {
			err = v.Validate()
		}
		if err != nil {
			return nil, segno.NewError(segno.KindInvalid, m.MethodName(), "", err)
		}
		return serve(ctx, p)
	}
}

// connection is the agent's end of a connection. It serves each request of the client in a
// goroutine, and the prompts of a session one at a time, in order. The connection of the
// protocol's library is not suitable, because it cancels a prompt when the session's next one
// arrives.
type connection struct {
	ctx      context.Context // ends with the connection
	out      *wire.Writer
	handlers map[string]handler

	mu       sync.Mutex
	ended    bool
	serving  sync.WaitGroup
	requests []*request                   // the client's requests without an answer, oldest first
	asked    map[string]chan wire.Message // requests to the client without an answer, by id
	calls    int                          // requests to the client so far
}

// request is a request of the client that has no answer yet.
type request struct {
	wire.Message
	stop context.CancelCauseFunc
	done chan struct{} // closed after the answer
}

func (r *request) isPromptOf(session string) bool {
	return r.MethodName() == "session/prompt" && r.SessionID() == session
}

// read handles the client's messages until in ends.
func (c *connection) read(in io.Reader) {
	lines := wire.NewReader(in)
	for {
		line, err := lines.Next()
		var id string
		var m wire.Message
		switch {
		case errors.Is(err, wire.ErrTooLong):
			id, _ = wire.IDOfPrefix(line)
			err = &wire.Error{Code: wire.CodeInvalidRequest, Message: "Invalid request: the message is too long"}
		case err != nil:
			return
		default:
			m, err = wire.Parse(line)
		}
		if fault := (*wire.Error)(nil); errors.As(err, &fault) {
			_ = c.out.Write(wire.Failure(id, fault)) // if the client is gone, in ends
			continue
		}
		c.handle(m)
	}
}

// handle handles a message. Cancellations take effect before read reads the next message:
// that message may be the answer to a permission request, which must not let a cancelled call
// run.
func (c *connection) handle(m wire.Message) {
	switch method := m.MethodName(); {
	case m.IsResponse():
		c.mu.Lock()
		if answer := c.asked[m.CanonicalID()]; answer != nil {
			answer <- m
			delete(c.asked, m.CanonicalID())
		}
		c.mu.Unlock()
	case method == "session/cancel", method == "session/close":
		c.stop(func(r *request) bool { return r.isPromptOf(m.SessionID()) })
	case method == "$/cancel_request":
		key := wire.CanonicalID(string(m.Find(m.Params, "requestId").Of(m.Line)))
		c.stop(func(r *request) bool { return r.CanonicalID() == key })
	}
	if m.IsRequest() {
		c.start(m)
	}
}

// stop cancels the requests for which is returns true.
func (c *connection) stop(is func(*request) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.requests {
		if is(r) {
			r.stop(errStopped)
		}
	}
}

// start serves a request in a goroutine. A prompt waits until the session's previous prompt
// has its answer, unless the client cancels the waiting prompt first. start answers a
// cancelled prompt at once, but keeps it in the list until the previous prompt has ended: the
// next prompt must not run at the same time as the previous one.
func (c *connection) start(m wire.Message) {
	ctx, stop := context.WithCancelCause(c.ctx)
	r := &request{Message: m, stop: stop, done: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		stop(nil)
		return
	}
	before := make(chan struct{})
	close(before) // there is nothing to wait for
	for _, other := range c.requests {
		if r.isPromptOf(m.SessionID()) && other.isPromptOf(m.SessionID()) {
			before = other.done
		}
	}
	c.requests = append(c.requests, r)
	c.serving.Go(func() {
		select {
		case <-before:
		case <-ctx.Done():
		}
		_ = c.out.Write(c.answer(ctx, m)) // if the client is gone, the connection ends
		<-before
		stop(nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests = slices.DeleteFunc(c.requests, func(other *request) bool { return other == r })
		close(r.done)
	})
}

// answer serves a request and returns the line of the answer.
func (c *connection) answer(ctx context.Context, m wire.Message) []byte {
	serve := c.handlers[m.MethodName()]
	if serve == nil {
		missing := fmt.Sprintf("%q: Method not found", m.MethodName())
		return wire.Failure(m.IDText(), &wire.Error{Code: wire.CodeMethodNotFound, Message: missing})
	}
	result, err := serve(ctx, m)
	var data []byte
	if err == nil {
		data, err = json.Marshal(result)
	}
	if err != nil {
		return wire.Failure(m.IDText(), answerError(err))
	}
	return wire.Result(m.IDText(), data)
}

// answerError converts an error for the protocol.
func answerError(err error) *wire.Error {
	e := &wire.Error{Code: wire.CodeOf(segno.KindOf(err)), Message: err.Error(),
		Data: wire.Encode(map[string]any{"kind": segno.KindOf(err), "hint": segno.HintOf(err)})}
	var model *agent.ModelError
	if errors.As(err, &model) && model.Status != 0 {
		e.Message = fmt.Sprintf("%s (status %d)", e.Message, model.Status)
	}
	return e
}

// end waits for the requests under way, after the connection's context has ended. No other
// request begins.
func (c *connection) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.serving.Wait()
}

// notify sends a notification to the client.
func (c *connection) notify(method string, params any) error {
	data, err := json.Marshal(params)
	if err != nil {
		return err
	}
	return c.out.Write(wire.Notification(method, data))
}

// call sends a request to the client and decodes the answer into result. If ctx ends first,
// it cancels the request.
func (c *connection) call(ctx context.Context, method string, params, result any) error {
	data, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answer := make(chan wire.Message, 1)
	c.mu.Lock()
	c.calls++
	id := fmt.Sprint(c.calls)
	c.asked[id] = answer
	c.mu.Unlock()
	if err := c.out.Write(wire.Request(id, method, data)); err != nil {
		return err
	}
	select {
	case m := <-answer:
		if e := m.Err(); e != nil {
			return e
		}
		return m.Decode(m.Result, result)
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.asked, id)
		c.mu.Unlock()
		return errors.Join(context.Cause(ctx), c.notify("$/cancel_request", map[string]json.RawMessage{"requestId": json.RawMessage(id)}))
	}
}
