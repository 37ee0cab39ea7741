package codex

import (
	"bytes"
	"context"
	"hash"
	"io"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// derive makes w replace the first line of the log that the session was cut from, and returns where
// the session's own bytes begin. It adds the bytes before that offset to sum and t.hash. It returns
// 0 if the session must be stored like any other.
func (t *capture) derive(ctx context.Context, w *sessionfile.LogWriter, sum hash.Hash32) (at int64, err error) {
	if t.of.Log.IsZero() || t.objects == nil {
		return 0, nil
	}
	logs, err := sessionfile.ReadLog(ctx, t.objects, t.of.Log, t.of.Offset)
	if err != nil {
		return 0, ctx.Err()
	}
	if filters, _ := logs.Cost(); filters >= sessionfile.MaxFilters {
		return 0, nil
	}
	for _, from := range t.c.copies(ctx, t.op, t.of, t.objects) {
		head, skip, err := t.compare(ctx, from, sum)
		if err != nil || len(head) > sessionfile.BlockSize {
			continue
		}
		size := t.of.Offset - skip + int64(len(head))
		if len(t.out.Earlier) > 0 && size > t.out.Earlier[0].Position.Offset {
			break // no log ends where the first own turn does
		}
		name, err := t.batch.Put(ctx, head)
		if err != nil {
			return 0, err
		}
		w.Next = sessionfile.Log{Prev: t.of.Log, Head: sessionfile.Chunk{Name: name, Size: int64(len(head))}, Skip: skip}
		w.Next.Size = size
		return size, nil
	}
	sum.Reset()
	t.hash.Reset()
	return 0, ctx.Err()
}

// compare compares the lines of a copy of the other session, except the first, with those of the
// stream. It returns the stream's first line and the length of the other session's first line. The
// error is errRewritten if the lines differ.
func (t *capture) compare(ctx context.Context, from sessionfile.CopySource, sum hash.Hash32) (head []byte, skip int64, err error) {
	sum.Reset()
	t.hash.Reset()
	own := sessionfile.NewLineReader(t.stream.section(0, t.history.to), 0)
	both := io.MultiWriter(t.hash, sum)
	readErr, err := from.EachLine(ctx, func(l sessionfile.Line) error {
		line, ok := own.Next()
		switch {
		case !ok:
			return errRewritten
		case l.Offset == 0:
			head, skip = bytes.Clone(line.Bytes), int64(len(l.Bytes))
		case !bytes.Equal(line.Bytes, l.Bytes):
			return errRewritten
		}
		_, _ = both.Write(line.Bytes) // hashes return no error
		return nil
	})
	if readErr != nil {
		err = readErr
	}
	return head, skip, err
}

// copies returns the places to try for a position's bytes: the agent's files, then the objects.
func (c *Transcripts) copies(ctx context.Context, op string, p *segno.Position, o segno.Objects) []sessionfile.CopySource {
	files := sessionfile.CopySource{Op: op, Name: string(p.Session), Position: p, Open: func(ctx context.Context) (io.ReadCloser, error) {
		s, err := c.open(ctx, op, segno.Source{Session: p.Session, Path: p.Path})
		if err != nil {
			return nil, err
		}
		return streamReader{s.section(0, s.size), s}, nil
	}}
	if p.Log.IsZero() || o == nil {
		return []sessionfile.CopySource{files}
	}
	stored := files
	stored.Name = "stored transcript"
	stored.Open = func(ctx context.Context) (io.ReadCloser, error) {
		r, err := sessionfile.OpenLog(ctx, o, p.Log, p.Offset, nil)
		return io.NopCloser(r), err
	}
	return []sessionfile.CopySource{files, stored}
}

// streamReader reads a stream and closes it.
type streamReader struct {
	io.Reader
	stream *stream
}

func (r streamReader) Close() error {
	r.stream.close()
	return nil
}
