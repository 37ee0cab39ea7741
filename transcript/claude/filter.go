package claude

import (
	"bytes"
	"io"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// filterLines is the filter for logs of Claude Code's sessions.
func filterLines(in io.Reader, n sessionfile.Log) io.Reader {
	return &lineFilter{in: sessionfile.NewLineReader(in, 0), all: n.Keep == nil, keep: n.Keep, session: n.Session}
}

// lineFilter reads some lines of a transcript and gives them the id of another session.
type lineFilter struct {
	in      *sessionfile.LineReader
	all     bool                    // no line is left out
	keep    []sessionfile.LineRange // else the ranges still to come
	session segno.SessionID         // "" leaves the ids as they are

	err    error
	rest   []byte // of the current line
	buf    bytes.Buffer
	record record
}

func (f *lineFilter) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && f.err == nil {
		if len(f.rest) == 0 {
			f.err = f.next()
		}
		copied := copy(p[n:], f.rest)
		f.rest, n = f.rest[copied:], n+copied
	}
	if n > 0 || len(p) == 0 {
		return n, nil
	}
	return 0, f.err
}

// next puts the next line to keep into rest.
func (f *lineFilter) next() error {
	for l := range f.in.All() {
		if !f.keeps(l.Number) {
			continue
		}
		f.rest = l.Bytes
		if f.session == "" {
			return nil
		}
		_ = f.record.parse(l.Bytes) // a line that is not a record has no session ids
		f.buf.Reset()
		err := f.record.writeAs(&f.buf, f.session)
		f.rest = f.buf.Bytes()
		return err
	}
	torn, err := f.in.End()
	switch {
	case err != nil:
		return err
	case torn > 0:
		return segno.Errorf(segno.KindCorrupt, "read stored transcript", "", "its last line is truncated")
	}
	return io.EOF
}

func (f *lineFilter) keeps(line int) bool {
	for len(f.keep) > 0 && f.keep[0].To < line {
		f.keep = f.keep[1:]
	}
	return f.all || len(f.keep) > 0 && f.keep[0].From <= line
}
