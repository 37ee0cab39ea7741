package codex

import (
	"bytes"
	"cmp"
	"context"
	"io"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// compare compares the lines of a copy of the other session, except the first, with those of the
// stream. It returns a log that replaces the first line, and the stream's first line. The error is
// [sessionfile.ErrRewritten] if the lines differ.
func (t *capture) compare(ctx context.Context, from sessionfile.CopySource, logs sessionfile.LogChain, out io.Writer) (node sessionfile.Log, head []byte, err error) {
	if filters, _ := logs.Cost(); filters >= sessionfile.MaxFilters {
		return node, nil, nil
	}
	own := sessionfile.NewLineReader(t.stream.section(0, t.history.to), 0)
	readErr, err := from.EachLine(ctx, func(l sessionfile.Line) error {
		line, ok := own.Next()
		switch {
		case !ok:
			return sessionfile.ErrRewritten
		case l.Offset == 0:
			head, node.Skip = bytes.Clone(line.Bytes), int64(len(l.Bytes))
		case !bytes.Equal(line.Bytes, l.Bytes):
			return sessionfile.ErrRewritten
		}
		_, _ = out.Write(line.Bytes) // hashes return no error
		return nil
	})
	if len(head) <= sessionfile.BlockSize {
		node.Size = own.Offset
	}
	return node, head, cmp.Or(readErr, err)
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
