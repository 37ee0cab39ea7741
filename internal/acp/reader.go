package acp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrTooLong is what [Reader.Next] returns for a line longer than [MaxMessage], with
// the line's beginning; see [IDOfPrefix]. The rest is discarded; the next line can be read.
var ErrTooLong = errors.New("message is longer than 64 MiB")

// Reader reads lines.
type Reader struct{ in *bufio.Reader }

// NewReader returns a reader of in.
func NewReader(in io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(in, 64<<10)} }

// HasMore reports whether Next can return something without reading the input.
func (r *Reader) HasMore() bool { return r.in.Buffered() > 0 }

// Next returns the next line that is not blank, with its end of line. It adds the end of
// line that a last line lacks. The line belongs to the caller. The error is [ErrTooLong], or
// that of the input; [io.EOF] if the input ends between lines.
func (r *Reader) Next() ([]byte, error) {
	for {
		line, err := r.readLine()
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

func (r *Reader) readLine() ([]byte, error) {
	part, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return r.readLong(part)
	}
	return append(make([]byte, 0, len(part)+1), part...), err
}

// readLong reads the rest of a line. It joins the parts when it has them all: one slice
// that grows would leave several times the line's size as garbage.
func (r *Reader) readLong(part []byte) ([]byte, error) {
	parts, size := [][]byte{bytes.Clone(part)}, len(part)
	for {
		part, err := r.in.ReadSlice('\n')
		size += len(part)
		isFull := errors.Is(err, bufio.ErrBufferFull)
		switch {
		case size > MaxMessage && isFull:
			return parts[0], r.discardLine()
		case size > MaxMessage:
			return parts[0], ErrTooLong
		}
		if parts = append(parts, bytes.Clone(part)); !isFull {
			return bytes.Join(parts, nil), err
		}
	}
}

// discardLine reads to the end of a line and returns ErrTooLong, or an error of the input.
func (r *Reader) discardLine() error {
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
