package acp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrTooLong is what [Reader.Next] returns for a line longer than [MaxMessage], with
// the line's beginning; see [IDOfPrefix]. The rest is gone; the next line can be read.
var ErrTooLong = errors.New("message is longer than 64 MiB")

// Reader reads lines.
type Reader struct{ in *bufio.Reader }

// NewReader returns a reader of in.
func NewReader(in io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(in, 64<<10)} }

// HasMore reports whether Next can return something without reading the input.
func (r *Reader) HasMore() bool { return r.in.Buffered() > 0 }

// Next returns the next line that is not blank, with its end of line. A last line
// without one is given one. The line is the caller's. The error is [ErrTooLong], or
// that of the input; [io.EOF] where that ends between lines.
func (r *Reader) Next() ([]byte, error) {
	for {
		line, err := r.line()
		if errors.Is(err, ErrTooLong) {
			return line, err
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			if line[len(line)-1] != '\n' {
				line = append(line, '\n')
			}
			return line, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (r *Reader) line() ([]byte, error) {
	part, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return r.long(part)
	}
	return append(make([]byte, 0, len(part)+1), part...), err
}

// long reads the rest of a line. Its parts are joined when all are there: one slice
// that grows would leave several times the line behind.
func (r *Reader) long(part []byte) ([]byte, error) {
	parts, size := [][]byte{bytes.Clone(part)}, len(part)
	for {
		part, err := r.in.ReadSlice('\n')
		size += len(part)
		full := errors.Is(err, bufio.ErrBufferFull)
		switch {
		case size > MaxMessage && full:
			return parts[0], r.drop()
		case size > MaxMessage:
			return parts[0], ErrTooLong
		}
		if parts = append(parts, bytes.Clone(part)); !full {
			return bytes.Join(parts, nil), err
		}
	}
}

// drop reads to the end of a line.
func (r *Reader) drop() error {
	for {
		_, err := r.in.ReadSlice('\n')
		if err == nil || errors.Is(err, io.EOF) {
			return ErrTooLong
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// Writer writes lines, each whole and in the order of the calls. It may be used by
// many goroutines at once: it is the one writer of its direction.
type Writer struct {
	mu   sync.Mutex
	out  io.Writer
	file syscall.RawConn // of out, nil if it has none
	kept []byte          // lines for the next write
	err  error
}

// maxKept is how much [Writer.WriteLater] keeps.
const maxKept = 64 << 10

// NewWriter returns a writer to out.
func NewWriter(out io.Writer) *Writer {
	w := &Writer{out: out}
	if f, ok := out.(syscall.Conn); ok {
		w.file, _ = f.SyscallConn() // without it TryWrite writes nothing
	}
	return w
}

// takes reports whether a file takes [atOnce] bytes without waiting for its reader.
func takes(file syscall.RawConn) (ready bool) {
	err := file.Control(func(fd uintptr) {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(polled, 0)
		ready = n == 1 && err == nil && polled[0].Revents == unix.POLLOUT
	})
	return ready && err == nil
}

// atOnce is PIPE_BUF: a pipe that poll(2) calls writable takes so many bytes.
func atOnce() int {
	if runtime.GOOS == "linux" {
		return 4096
	}
	return 512
}

// Write writes one line. After an error every call returns that error.
func (w *Writer) Write(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.kept) == 0 {
		return w.write(line)
	}
	w.kept = append(w.kept, line...)
	return w.flush()
}

// TryWrite writes one line if that does not have to wait, and reports whether it did: of
// a short line to a file that takes it at once, with no other write under way.
func (w *Writer) TryWrite(line []byte) bool {
	if w.file == nil || len(line) > atOnce() || !w.mu.TryLock() {
		return false
	}
	defer w.mu.Unlock()
	if len(w.kept) > 0 || !takes(w.file) {
		return false
	}
	_ = w.write(line) // every later call returns the error
	return true
}

// WriteLater writes one line later: with the next Write or Flush, or when there is much to
// write. Who calls it must call one of them soon.
func (w *Writer) WriteLater(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kept = append(w.kept, line...); len(w.kept) < maxKept {
		return w.err
	}
	return w.flush()
}

// Flush writes what was kept.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

func (w *Writer) flush() error {
	if len(w.kept) == 0 {
		return w.err
	}
	err := w.write(w.kept)
	if w.kept = w.kept[:0]; cap(w.kept) > 2*maxKept {
		w.kept = nil // it was a long line
	}
	return err
}

func (w *Writer) write(lines []byte) error {
	if w.err == nil {
		_, w.err = w.out.Write(lines)
	}
	return w.err
}
