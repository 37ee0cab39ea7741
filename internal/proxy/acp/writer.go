package acp

import (
	"encoding/json"
	"io"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
)

// Writer writes whole lines in the order of the calls. It is safe for concurrent use; each
// stream needs exactly one Writer.
type Writer struct {
	mu      sync.Mutex
	out     io.Writer
	file    syscall.RawConn // the file of out, nil if it has none
	pending []byte          // lines for the next write
	err     error
}

// maxPending is the number of bytes that [Writer.WriteLater] collects before it writes
// them.
const maxPending = 64 << 10

// NewWriter returns a writer to out.
func NewWriter(out io.Writer) *Writer {
	w := &Writer{out: out}
	if f, ok := out.(syscall.Conn); ok {
		w.file, _ = f.SyscallConn() // if it fails, TryWrite writes nothing
	}
	return w
}

// Write writes the pending lines and one more line. After an error, every call returns that
// error.
func (w *Writer) Write(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) == 0 {
		return w.write(line)
	}
	w.pending = append(w.pending, line...)
	return w.flush()
}

// TryWrite writes one line if that cannot block: the line must be short, the file ready,
// and no other write in progress. It reports whether it wrote the line.
func (w *Writer) TryWrite(line []byte) bool {
	if w.file == nil || len(line) > atomicSize() || !w.mu.TryLock() {
		return false
	}
	defer w.mu.Unlock()
	if len(w.pending) > 0 || !isWritable(w.file) {
		return false
	}
	_ = w.write(line) // every later call returns the error
	return true
}

// WriteLater writes one line with the next Write or Flush, or when enough lines are
// pending. The caller must call one of them soon.
func (w *Writer) WriteLater(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending = append(w.pending, line...); len(w.pending) < maxPending {
		return w.err
	}
	return w.flush()
}

// Flush writes the pending lines.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

func (w *Writer) flush() error {
	if len(w.pending) == 0 {
		return w.err
	}
	err := w.write(w.pending)
	if w.pending = w.pending[:0]; cap(w.pending) > 2*maxPending {
		w.pending = nil // do not keep the buffer of a long line
	}
	return err
}

func (w *Writer) write(lines []byte) error {
	if w.err == nil {
		_, w.err = w.out.Write(lines)
	}
	return w.err
}

// isWritable reports whether a write of [atomicSize] bytes to a file would not block.
func isWritable(file syscall.RawConn) (ready bool) {
	err := file.Control(func(fd uintptr) {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(polled, 0)
		ready = n == 1 && err == nil && polled[0].Revents == unix.POLLOUT
	})
	return ready && err == nil
}

// atomicSize is PIPE_BUF, the number of bytes that a pipe accepts if poll(2) reports it as
// writable.
func atomicSize() int {
	if runtime.GOOS == "linux" {
		return 4096
	}
	return 512
}

// Encode returns v as JSON in which <, > and & are not escaped. It panics if v cannot be
// encoded.
func Encode(v any) json.RawMessage {
	data, err := segno.Encode(v)
	if err != nil {
		panic("acp: internal error: a message does not encode: " + err.Error())
	}
	return data
}

// envelope is a message that segno writes.
type envelope struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

func (e envelope) line() []byte {
	e.Version = "2.0"
	return append(Encode(e), '\n')
}

// Request returns the line of a request. id is JSON.
func Request(id, method string, params json.RawMessage) []byte {
	return envelope{ID: json.RawMessage(id), Method: method, Params: params}.line()
}

// Notification returns the line of a notification.
func Notification(method string, params json.RawMessage) []byte {
	return envelope{Method: method, Params: params}.line()
}

// Result returns the line that answers the request with an id. id is JSON; "" means null.
// An empty result becomes null.
func Result(id string, result json.RawMessage) []byte {
	return envelope{ID: orNull(id), Result: orNull(string(result))}.line()
}

// Failure returns the line that answers a request with an error. id is JSON; "" means null.
func Failure(id string, err *Error) []byte {
	return envelope{ID: orNull(id), Error: err}.line()
}

func orNull(value string) json.RawMessage {
	if value == "" {
		value = "null"
	}
	return json.RawMessage(value)
}
