package acpagent

import (
	"context"
	"errors"
	"io"
	"sync"

	wire "github.com/dalsegno/segno/internal/acp"
)

// errStopped is why a turn's context ended that the client cancelled.
var errStopped = errors.New("the client cancelled the turn")

// isStopped reports whether the client cancelled a turn.
func isStopped(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errStopped) }

// maxMessage is the longest message the connection takes: it ends over a longer one.
const maxMessage = 10 << 20

// intake is what the client says on its way to the connection, and what the connection
// answers. It hands on the prompts of one session one after the other, as they came:
// the connection would cancel the one under way for the next.
type intake struct {
	ctx context.Context // ends with the connection
	to  *io.PipeWriter
	out *wire.Writer

	mu    sync.Mutex
	lanes map[string]*lane // by session: those that have a prompt under way
}

// lane is a session's prompt under way, and those that wait for its end.
type lane struct {
	key   string          // of the request
	ctx   context.Context // ends when the client cancels it
	stop  context.CancelCauseFunc
	queue []wire.Message
}

// newIntake returns an intake that writes to out, and what the connection reads.
func newIntake(ctx context.Context, out io.Writer) (*intake, *io.PipeReader) {
	from, to := io.Pipe()
	return &intake{ctx: ctx, to: to, out: wire.NewWriter(out), lanes: map[string]*lane{}}, from
}

// read hands on what in says, until it ends.
func (k *intake) read(in io.Reader) {
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
			k.take(line)
		}
	}
}

func (k *intake) take(line []byte) {
	m, err := wire.Parse(line)
	if fault := (*wire.Error)(nil); errors.As(err, &fault) {
		k.answer(wire.Failure("", fault))
		return
	}
	switch method := m.MethodName(); {
	case method == "session/prompt" && m.IsRequest():
		if k.waits(m) {
			return
		}
	case method == "session/cancel", method == "session/close":
		k.stop(m.SessionID())
	case method == "$/cancel_request":
		k.stopOne(wire.CanonicalID(string(m.Find(m.Params, "requestId").Of(m.Line))))
	}
	k.handOn(m)
}

// handOn gives a message to the connection. One that has ended takes nothing more.
func (k *intake) handOn(m wire.Message) { _, _ = k.to.Write(m.Line) }

// answer answers the client. One that is gone misses nothing.
func (k *intake) answer(line []byte) { _ = k.out.Write(line) }

// waits queues a prompt if another of its session is under way; else it is now.
func (k *intake) waits(m wire.Message) bool {
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

// stop cancels a session's prompts: the one under way, and those that wait.
func (k *intake) stop(session string) {
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
func (k *intake) stopOne(key string) {
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

// turn is the context of a session's prompt under way, and what stops it as the client
// would.
func (k *intake) turn(ctx context.Context, session string) (context.Context, func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.lanes[session]; l != nil {
		return l.ctx, func() { l.stop(errStopped) }
	}
	ctx, stop := context.WithCancelCause(ctx)
	return ctx, func() { stop(errStopped) }
}

// Write passes on what the connection says. With the answer to a prompt the session's
// next is due.
func (k *intake) Write(line []byte) (int, error) {
	if err := k.out.Write(line); err != nil {
		return 0, err
	}
	if m, err := wire.Parse(line); err == nil && m.IsResponse() {
		if next, ok := k.next(m.CanonicalID()); ok {
			k.handOn(next)
		}
	}
	return len(line), nil
}

// next is the prompt that is due when the one with a key has its answer.
func (k *intake) next(key string) (m wire.Message, ok bool) {
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
