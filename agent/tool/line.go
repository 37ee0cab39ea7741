package tool

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
)

// lines reads a file line by line, however long the lines are.
type lines struct {
	r    *bufio.Reader
	keep int // bytes of a line
	line []byte
}

// next returns the beginning of the next line, without its end, and how long the
// line is. It is good until the next. The last is followed by io.EOF.
func (l *lines) next() (line []byte, length int, err error) {
	for line = l.line[:0]; ; {
		piece, err := l.r.ReadSlice('\n')
		length += len(piece)
		if room := l.keep - len(line); room > 0 {
			line = append(line, piece[:min(room, len(piece))]...)
			l.line = line
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (err != io.EOF || length == 0):
			return nil, 0, err
		}
		if bytes.HasSuffix(piece, []byte("\n")) {
			length--
			line = line[:min(len(line), length)]
		}
		if len(line) == length && bytes.HasSuffix(line, []byte("\r")) {
			length--
			line = line[:length]
		}
		return line, length, nil
	}
}

// cut is a line as the model sees it: text, and not too long.
func cut(line []byte, length, most int) string {
	if length <= most && len(line) == length {
		return strings.ToValidUTF8(string(line), "\uFFFD")
	}
	text := strings.ToValidUTF8(string(line[:min(len(line), most)]), "")
	return text + " … (" + strconv.Itoa(length) + " bytes in this line)"
}

// untilDone is a reader that ends with its context.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// binary reports whether a file that begins so is no text.
func binary(start []byte) bool { return bytes.IndexByte(start, 0) >= 0 }
