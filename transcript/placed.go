package transcript

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"

	"github.com/dalsegno/segno"
)

// CaptureCut returns the position at the end of src, which was cut from of. It is what
// [Claude.Capture] would return of src alone, but its log is derived from of's,
// with the bytes alone that are src's own. All of src is stored if of's log cannot
// be read, if src holds less than half of what would have to be read for it, or
// if lines were left out of lines that were left out too often. Errors are those of
// Capture.
func (c *Claude) CaptureCut(ctx context.Context, src segno.Source, of segno.Position, o segno.Objects, b segno.Batch) (segno.Position, error) {
	t := &taking{c: c, op: "read session that was cut", src: src, batch: b, known: func(string) bool { return false }, of: &of, objects: o}
	err := t.take(ctx)
	return t.out.Position, err
}

// maxRuns is how many pieces of another log a log is made of at most.
const maxRuns = 4096

// likeness is what a transcript has in common with the one it was cut from.
type likeness struct {
	keep  []run // the lines of that one it has
	lines int   // how many there are
	at    int64 // where the transcript's own bytes begin
	hash  hash.Hash
}

// derive makes w derive from the log the session was cut from, as far as it is
// the same. Where that cannot be told the session is stored as any other.
func (t *taking) derive(ctx context.Context, w *logWriter, sum hash.Hash32) (at int64, err error) {
	if t.of.Log.IsZero() || t.objects == nil || checkNew(t.op, t.src.Session) != nil {
		return 0, nil
	}
	nodes, err := readLog(ctx, t.objects, t.of.Log, t.of.Offset)
	if err != nil {
		return 0, ctx.Err()
	}
	for _, from := range t.c.origins(*t.of, t.objects) {
		sum.Reset()
		m, err := t.compare(ctx, from, sum)
		if err != nil {
			continue
		}
		if len(m.keep) == 0 {
			break
		}
		if m.keep[0] == (run{1, m.lines}) {
			m.keep = nil
		} else if len(m.keep) > maxRuns || nodes.sieves() == maxSieves || nodes.stored() > 2*t.to+blockSize {
			break
		}
		w.node, w.size, w.session, w.keep = t.of.Log, m.at, t.src.Session, m.keep
		t.hash = m.hash
		return m.at, nil
	}
	sum.Reset()
	return 0, ctx.Err()
}

// compare looks for the lines of a transcript in one place of those it was cut
// from, which must be what the position says, and adds those it finds to sum.
func (t *taking) compare(ctx context.Context, from origin, sum hash.Hash32) (*likeness, error) {
	in, err := from.open(ctx)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	a := readAhead(ctx, io.LimitReader(in, t.of.Offset))
	defer a.close()
	m := &likeness{hash: sha256.New()}
	theirs, ours := a.lines(), newLines(io.NewSectionReader(t.file, 0, t.to), 0)
	both := io.MultiWriter(m.hash, sum)
	var s scanner
	var r record
	var as bytes.Buffer // a line of theirs as one of ours
	mine, more := ours.next()
	for {
		l, ok := theirs.next()
		if !ok {
			break
		}
		if m.lines++; !more {
			continue
		}
		as.Reset()
		if s.parse(l.bytes, &r) != nil {
			r.sessions = nil
		}
		if err := splice(&as, l.bytes, &r, t.src.Session); err != nil {
			return nil, err
		}
		if bytes.Equal(as.Bytes(), mine.bytes) {
			both.Write(mine.bytes)
			m.add(mine)
			mine, more = ours.next()
		}
	}
	if torn, err := theirs.close(); torn > 0 || err != nil {
		return nil, errors.Join(errStale, err)
	}
	if size, got := a.sum(); size != t.of.Offset || got != t.of.SHA256 {
		return nil, errStale
	}
	_, err = ours.close()
	return m, err
}

// add counts the line of theirs that was read last as mine.
func (m *likeness) add(mine line) {
	m.at = mine.offset + int64(len(mine.bytes))
	if n := len(m.keep); n > 0 && m.keep[n-1].to == m.lines-1 {
		m.keep[n-1].to = m.lines
		return
	}
	m.keep = append(m.keep, run{m.lines, m.lines})
}
