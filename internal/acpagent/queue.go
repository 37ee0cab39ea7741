package acpagent

import (
	"context"
	"errors"
	"io"
	"sync"

	wire "github.com/dalsegno/segno/internal/acp"
)

// errStopped is the cause of a turn's context that the client cancelled.
var errStopped = errors.New("the client cancelled the turn")

// isStopped reports whether the client cancelled a turn.
func isStopped(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errStopped) }

// maxMessage is the longest message that the connection accepts; a longer one would end it.
const maxMessage = 10 << 20

// prompts forwards the client's messages to the connection, and the connection's to the
// client. It forwards the prompts of a session one at a time, in order, because the connection
// cancels a running prompt when the next arrives.
type promptQueue struct {
	ctx context.Context // ends with the connection
	to  *io.PipeWriter
	out *wire.Writer

	mu    sync.Mutex
	lanes map[string]*lane // by session: those with a running prompt
}

// lane is a session's running prompt, and those that wait for its end.
type lane struct {
	key   string          // of the request
	ctx   context.Context // ends when the client cancels it
	stop  context.CancelCauseFunc
	queue []wire.Message
}

// newPromptQueue returns a queue that writes to out, and the reader for the connection.
func newPromptQueue(ctx context.Context, out io.Writer) (*promptQueue, *io.PipeReader) {
	from, to := io.Pipe()
	return &promptQueue{ctx: ctx, to: to, out: wire.NewWriter(out), lanes: map[string]*lane{}}, from
}

// read forwards the messages of in until it ends.
func (k *promptQueue) read(in io.Reader) {
	lines := wire.NewReader(in)
	for {
		line, err := lines.Next()
		switch {
		case errors.Is(err, wire.ErrTooLong), len(line) > maxMessage:
			id, _ := wire.IDOfPrefix(line)
			k.answer(wire.Failure(id, &wire.Error{Code: wire.CodeInvalidRequest, Message: "Invalid request: the message is too long"}))
		case err != nil:
			k.to.CloseWithError(err)
			return
		default:
			k.handle(line)
		}
	}
}

func (k *promptQueue) handle(line []byte) {
	m, err := wire.Parse(line)
	if fault := (*wire.Error)(nil); errors.As(err, &fault) {
		k.answer(wire.Failure("", fault))
		return
	}
	switch method := m.MethodName(); {
	case method == "session/prompt" && m.IsRequest():
		if k.enqueue(m) {
			return
		}
	case method == "session/cancel", method == "session/close":
		k.stop(m.SessionID())
	case method == "$/cancel_request":
		k.stopOne(wire.CanonicalID(string(m.Find(m.Params, "requestId").Of(m.Line))))
	}
	k.forward(m)
}

// forward gives a message to the connection. It ignores that the connection has ended.
func (k *promptQueue) forward(m wire.Message) { _, _ = k.to.Write(m.Line) }

// answer answers the client. It ignores that the client has disconnected.
func (k *promptQueue) answer(line []byte) { _ = k.out.Write(line) }

// enqueue queues a prompt if another of its session is running; otherwise the prompt is running now.
func (k *promptQueue) enqueue(m wire.Message) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.lanes[m.SessionID()]
	if l != nil {
		l.queue = append(l.queue, m)
		return true
	}
	l = new(lane)
	l.begin(k.ctx, m)
	k.lanes[m.SessionID()] = l
	return false
}

func (l *lane) begin(ctx context.Context, m wire.Message) {
	l.key = m.CanonicalID()
	l.ctx, l.stop = context.WithCancelCause(ctx)
}

// stop cancels a session's prompts: the running one, and those that wait.
func (k *promptQueue) stop(session string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.lanes[session]
	if l == nil {
		return
	}
	for _, m := range l.queue {
		k.answer(cancelled(m))
	}
	l.queue = nil
	l.stop(errStopped)
}

// stopOne cancels the prompt of one request.
func (k *promptQueue) stopOne(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.lanes {
		if l.key == key {
			l.stop(errStopped)
		}
		for i, m := range l.queue {
			if m.CanonicalID() == key {
				l.queue = append(l.queue[:i:i], l.queue[i+1:]...)
				k.answer(cancelled(m))
				break
			}
		}
	}
}

func cancelled(m wire.Message) []byte {
	return wire.Result(m.IDText(), wire.Encode(map[string]string{"stopReason": "cancelled"}))
}

// turn returns the context of a session's running prompt, and a function that cancels it as
// the client would.
func (k *promptQueue) turn(ctx context.Context, session string) (context.Context, func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.lanes[session]; l != nil {
		return l.ctx, func() { l.stop(errStopped) }
	}
	ctx, stop := context.WithCancelCause(ctx)
	return ctx, func() { stop(errStopped) }
}

// Write forwards a message of the connection. After the answer to a prompt it forwards the
// session's next.
func (k *promptQueue) Write(line []byte) (int, error) {
	if err := k.out.Write(line); err != nil {
		return 0, err
	}
	if m, err := wire.Parse(line); err == nil && m.IsResponse() {
		if next, ok := k.next(m.CanonicalID()); ok {
			k.forward(next)
		}
	}
	return len(line), nil
}

// next returns the prompt that follows the one with a key in its session.
func (k *promptQueue) next(key string) (m wire.Message, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for session, l := range k.lanes {
		if l.key != key {
			continue
		}
		l.stop(nil)
		if len(l.queue) == 0 {
			delete(k.lanes, session)
			return m, false
		}
		m, l.queue = l.queue[0], l.queue[1:]
		l.begin(k.ctx, m)
		return m, true
	}
	return m, false
}
