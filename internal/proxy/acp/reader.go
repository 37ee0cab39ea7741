package acp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrTooLong is the error of [Reader.Next] for a line longer than [MaxMessage]. Next also
// returns the line's beginning, for [IDOfPrefix], and discards the rest; the caller can read
// the next line.
var ErrTooLong = errors.New("message is longer than 64 MiB")

// Reader reads messages, one line each.
type Reader struct{ in *bufio.Reader }

// NewReader returns a reader of in.
func NewReader(in io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(in, 64<<10)} }

// HasMore reports whether Next can return something without reading the input.
func (r *Reader) HasMore() bool { return r.in.Buffered() > 0 }

// Next returns the next line that is not blank, with its end of line. If the last line lacks
// one, Next adds it. The line belongs to the caller. The error is [ErrTooLong], or the error
// of the input, or [io.EOF] if the input ends between lines.
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

// readLine reads a line. If the line is longer than [MaxMessage], readLine returns its first
// prefixLength bytes and ErrTooLong. It uses a buffer, which doubles when it grows; a growing
// slice would leave several times the line's size as garbage.
func (r *Reader) readLine() ([]byte, error) {
	const prefixLength = 64 << 10
	var line bytes.Buffer
	for isTooLong := false; ; {
		part, err := r.in.ReadSlice('\n')
		if isTooLong = isTooLong || line.Len()+len(part) > MaxMessage; isTooLong {
			line.Truncate(min(line.Len(), prefixLength))
		} else {
			line.Write(part)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case isTooLong && (err == nil || errors.Is(err, io.EOF)):
			return bytes.Clone(line.Bytes()), ErrTooLong
		default:
			return line.Bytes(), err
		}
	}
}
