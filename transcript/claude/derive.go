package claude

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"

	"github.com/dalsegno/segno"
)

// maxRanges is the number of separate ranges of lines that a log keeps of another one at
// most.
const maxRanges = 4096

// overlap is the part of a transcript that is also in the transcript it was cut from.
type overlap struct {
	keep  []lineRange // the lines of that one it has
	lines int         // how many lines that one has
	end   int64       // where the transcript's own bytes begin
	hash  hash.Hash   // of the bytes up to end
}

// derive makes w derive from the log the session was cut from, as far as both transcripts
// are the same, and returns where the session's own bytes begin. It adds the bytes before
// that to sum. It returns 0 if the session must be stored like any other.
func (t *capture) derive(ctx context.Context, w *logWriter, sum hash.Hash32) (at int64, err error) {
	if t.of.Log.IsZero() || t.objects == nil || checkNewSession(t.op, t.src.Session) != nil {
		return 0, nil
	}
	logs, err := readLog(ctx, t.objects, t.of.Log, t.of.Offset)
	if err != nil {
		return 0, ctx.Err()
	}
	for _, from := range t.c.copies(t.op, t.of, t.objects) {
		sum.Reset()
		m, err := t.compare(ctx, from, sum)
		if err != nil {
			continue
		}
		if len(m.keep) == 0 {
			break
		}
		if m.keep[0] == (lineRange{1, m.lines}) {
			m.keep = nil
		} else if len(m.keep) > maxRanges || logs.filters() == maxFilters || logs.stored() > 2*t.to+blockSize {
			break
		}
		w.node = logNode{prev: t.of.Log, size: m.end, session: t.src.Session, keep: m.keep}
		t.hash = m.hash
		return m.end, nil
	}
	sum.Reset()
	return 0, ctx.Err()
}

// compare looks for the lines of a transcript in a copy of the one it was cut
// from, in order, and adds those it finds to sum.
func (t *capture) compare(ctx context.Context, from copySource, sum hash.Hash32) (*overlap, error) {
	m := &overlap{hash: sha256.New()}
	both := io.MultiWriter(m.hash, sum)
	own := newLineReader(io.NewSectionReader(t.file, 0, t.to), 0)
	ownLine, more := own.next()
	var r record
	var rewritten bytes.Buffer // a line of the other transcript with the session id of the cut
	readErr, err := from.eachLine(ctx, func(l line) error {
		if m.lines++; !more {
			return nil
		}
		rewritten.Reset()
		_ = r.parse(l.bytes) // a line that is not a record has no session ids
		err := r.writeAs(&rewritten, t.src.Session)
		if bytes.Equal(rewritten.Bytes(), ownLine.bytes) {
			_, _ = both.Write(ownLine.bytes) // hashes return no error
			m.keep = appendLine(m.keep, m.lines)
			m.end = ownLine.offset + int64(len(ownLine.bytes))
			ownLine, more = own.next()
		}
		return err
	})
	_, ownErr := own.end()
	return m, cmp.Or(readErr, err, ownErr)
}

var errStale = errors.New("the bytes are not those of the position")

// copySource is a place that may have the bytes of a position.
type copySource struct {
	op   string // for errors
	name string // of the file
	p    *segno.Position
	open func(ctx context.Context) (io.ReadCloser, error)
}

// eachLine calls do for each line of the position. It returns the error of do separately,
// because after another error the caller may try another copy.
func (s copySource) eachLine(ctx context.Context, do func(line) error) (readErr, doErr error) {
	in, err := s.open(ctx)
	if err != nil {
		return err, nil
	}
	defer in.Close()
	a := newReadAhead(ctx, io.LimitReader(in, s.p.Offset))
	defer a.close()
	l := newLineReader(a, 0)
	for at := range l.all() {
		if err := do(at); err != nil {
			return nil, err
		}
	}
	torn, err := l.end()
	switch {
	case err != nil:
		return err, nil
	case !a.is(s.p):
		return segno.NewError(segno.KindCorrupt, s.op, s.name, errStale), nil
	case torn > 0:
		return segno.Errorf(segno.KindCorrupt, s.op, s.name, "the position is in the middle of a line"), nil
	}
	return nil, nil
}

// copies returns the places to try for a position's bytes: the agent's files,
// then the objects.
func (c *Transcripts) copies(op string, p *segno.Position, o segno.Objects) []copySource {
	var out []copySource
	paths, _ := c.files(p.Session)
	if p.Path != "" {
		paths = append([]string{p.Path}, paths...)
	}
	for i, path := range paths {
		if i == 0 || path != p.Path {
			out = append(out, copySource{op, path, p, func(context.Context) (io.ReadCloser, error) { return openRegular(path) }})
		}
	}
	if p.Log.IsZero() || o == nil {
		return out
	}
	return append(out, copySource{op, "stored transcript", p, func(ctx context.Context) (io.ReadCloser, error) {
		r, err := openLog(ctx, o, p.Log, p.Offset)
		return io.NopCloser(r), err
	}})
}
