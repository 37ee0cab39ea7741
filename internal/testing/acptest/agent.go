package acptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/dalsegno/segno/internal/proxy/acp"
)

// agent is a running agent.
type agent struct {
	Config
	out    *acp.Writer
	stdout io.Writer // the writer below out
	stop   func()    // ends all turns
	authed bool
	turns  sync.WaitGroup

	mu       sync.Mutex
	sessions map[string]*session
	next     int
	numbers  int                         // of sessions, see Config.Numbered
	waiting  map[string]chan acp.Message // by the id of a request to the client
}

// Agent serves a client on in and out until in ends, the context ends, or a script ends the agent.
// It then cancels running turns and waits for them.
func Agent(ctx context.Context, c Config, in io.Reader, out io.Writer) error {
	if err := os.MkdirAll(filepath.Join(c.Dir, "sessions"), 0o700); err != nil {
		return err
	}
	if err := c.notePID("agent", os.Getpid()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &agent{Config: c, stop: cancel, stdout: out, out: acp.NewWriter(chunkWriter{out, c.Chunk}), sessions: map[string]*session{},
		waiting: map[string]chan acp.Message{}}
	if c.Greeting != "" {
		fmt.Fprintln(out, c.Greeting)
	}
	defer a.turns.Wait()
	defer cancel()
	lines := acp.NewReader(in)
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, acp.ErrTooLong) {
			a.answer("", nil, &acp.Error{Code: acp.CodeParse, Message: "Message too long"})
			continue
		}
		if err != nil {
			return err
		}
		a.receive(ctx, line)
	}
}

func (a *agent) receive(ctx context.Context, line []byte) {
	m, err := acp.Parse(line)
	if e := new(acp.Error); errors.As(err, &e) {
		a.answer("", nil, e)
		return
	}
	switch {
	case m.IsResponse():
		a.mu.Lock()
		waiter := a.waiting[m.IDText()]
		delete(a.waiting, m.IDText())
		a.mu.Unlock()
		if waiter != nil {
			waiter <- m
		}
	case slices.Contains(a.Deaf, m.MethodName()):
		_ = os.WriteFile(a.DeafFile(), nil, 0o600) // a test that waits for it fails
	case m.IsRequest():
		a.request(ctx, m)
	case m.IsNotification():
		a.notified(m)
	default:
		a.answer("", nil, &acp.Error{Code: acp.CodeInvalidRequest, Message: "Invalid request"})
	}
}

func (a *agent) notified(m acp.Message) {
	switch name := m.MethodName(); name {
	case "session/cancel":
		if s := a.session(m.SessionID()); s != nil {
			s.stop()
		}
	case "$/cancel_request":
	default:
		a.send(acp.Notification("_echo", encode(map[string]string{"line": string(m.Line)})))
	}
}

func (a *agent) session(id string) *session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions[id]
}

func (a *agent) keep(s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sessions[s.id] = s
}

func (a *agent) forget(s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.sessions, s.id)
}

// send writes a message. If the write fails because the client has ended, send cancels all work.
func (a *agent) send(line []byte) {
	if a.CRLF {
		line = append(line[:len(line)-1:len(line)-1], '\r', '\n')
	}
	if a.out.Write(line) != nil {
		a.stop()
	}
}

func (a *agent) answer(id string, result any, err *acp.Error) {
	if err != nil {
		a.send(acp.Failure(id, err))
		return
	}
	raw, ok := result.(json.RawMessage)
	if !ok {
		raw = encode(result)
	}
	a.send(acp.Result(id, raw))
}

func (a *agent) update(s *session, update any) {
	a.send(acp.Notification("session/update", encode(map[string]any{"sessionId": s.id, "update": update})))
}

// ask sends a request to the client and waits for its answer.
func (a *agent) ask(ctx context.Context, method string, params any) (acp.Message, error) {
	answer := make(chan acp.Message, 1)
	a.mu.Lock()
	id := fmt.Sprint(a.next)
	a.next++
	a.waiting[id] = answer
	a.mu.Unlock()
	a.send(acp.Request(id, method, encode(params)))
	select {
	case m := <-answer:
		return m, nil
	case <-ctx.Done():
		return acp.Message{}, ctx.Err()
	}
}

// chunkWriter splits writes into chunks of a fixed size.
type chunkWriter struct {
	out  io.Writer
	size int
}

func (p chunkWriter) Write(data []byte) (int, error) {
	if p.size <= 0 {
		return p.out.Write(data)
	}
	done := 0
	for part := range slices.Chunk(data, p.size) {
		n, err := p.out.Write(part)
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func encode(v any) json.RawMessage { return acp.Encode(v) }
