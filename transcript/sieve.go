package transcript

import (
	"bytes"
	"errors"
	"io"

	"github.com/dalsegno/segno"
)

// sieve reads a transcript as another session's, or some of its lines only.
type sieve struct {
	in      *lines
	all     bool            // nothing is left out
	keep    []run           // else the lines to come
	session segno.SessionID // "" leaves the ids as they are

	ended   error
	rest    []byte
	buf     bytes.Buffer
	scanner scanner
	record  record
}

// newSieve returns a reader of the lines keep, nil for all.
func newSieve(r io.Reader, keep []run, session segno.SessionID) *sieve {
	return &sieve{in: newLines(r, 0), all: keep == nil, keep: keep, session: session}
}

func (s *sieve) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && s.ended == nil {
		if len(s.rest) == 0 {
			s.ended = s.next()
		}
		took := copy(p[n:], s.rest)
		s.rest, n = s.rest[took:], n+took
	}
	if n > 0 || len(p) == 0 {
		return n, nil
	}
	return 0, s.ended
}

// next puts the next line that is kept into rest.
func (s *sieve) next() error {
	for {
		l, ok := s.in.next()
		if !ok {
			torn, err := s.in.close()
			switch {
			case err != nil:
				return err
			case torn > 0:
				return corrupt("read stored transcript", "", errors.New("its last line is torn"))
			}
			return io.EOF
		}
		if !s.kept(l.number) {
			continue
		}
		s.rest = l.bytes
		if s.session != "" && s.scanner.parse(l.bytes, &s.record) == nil {
			s.buf.Reset()
			if err := splice(&s.buf, l.bytes, &s.record, s.session); err != nil {
				return err
			}
			s.rest = s.buf.Bytes()
		}
		return nil
	}
}

func (s *sieve) kept(line int) bool {
	for len(s.keep) > 0 && s.keep[0].to < line {
		s.keep = s.keep[1:]
	}
	return s.all || len(s.keep) > 0 && s.keep[0].from <= line
}

// splice writes a record as one of another session: every top-level sessionId is
// replaced, every other byte is as it was.
func splice(w io.Writer, line []byte, r *record, session segno.SessionID) error {
	at := 0
	for _, id := range r.sessions {
		if _, err := w.Write(line[at:id.from]); err != nil {
			return err
		}
		if _, err := io.WriteString(w, string(session)); err != nil {
			return err
		}
		at = id.to
	}
	_, err := w.Write(line[at:])
	return err
}
