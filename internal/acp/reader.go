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

// readLine reads a line. Of a line longer than [MaxMessage] it returns the first prefixLength
// bytes and ErrTooLong. A buffer doubles when it grows; a slice that grows would leave several
// times the line's size as garbage.
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
