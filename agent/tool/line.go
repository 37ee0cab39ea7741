package tool

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// lineReader reads lines of any length.
type lineReader struct {
	r    *bufio.Reader
	skip int // bytes to skip of each line
	keep int // bytes to keep of each line, after those
	line []byte
}

// next returns the kept part of the next line, without the line end, and the length of the
// whole line. The part is valid until the next call. io.EOF follows the last line.
func (l *lineReader) next() (line []byte, length int, err error) {
	for line = l.line[:0]; ; {
		piece, err := l.r.ReadSlice('\n')
		from := min(max(l.skip-length, 0), len(piece))
		length += len(piece)
		if room := l.keep - len(line); room > 0 {
			line = append(line, piece[from:][:min(room, len(piece)-from)]...)
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
			line = line[:min(len(line), max(length-l.skip, 0))]
		}
		if len(line) == length-l.skip && bytes.HasSuffix(line, []byte("\r")) {
			length--
			line = line[:length]
		}
		return line, length, nil
	}
}

// displayLine returns a line as valid text of limited length.
func displayLine(line []byte, length, most int) string {
	if length <= most && len(line) == length {
		return strings.ToValidUTF8(string(line), "\uFFFD")
	}
	text := strings.ToValidUTF8(string(line[:wholeRunes(line, most)]), "")
	return text + " … (" + strconv.Itoa(length) + " bytes in this line)"
}

// wholeRunes returns the length of the longest prefix of at most most bytes that ends with a whole
// character.
func wholeRunes(text []byte, most int) int {
	if len(text) <= most {
		return len(text)
	}
	for end := most; end > most-utf8.UTFMax && end > 0; end-- {
		if utf8.RuneStart(text[end]) {
			return end
		}
	}
	return most // not UTF-8
}

// contextReader is a reader that ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (u contextReader) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// isBinary reports whether the beginning of a file is not text.
func isBinary(start []byte) bool { return bytes.IndexByte(start, 0) >= 0 }
