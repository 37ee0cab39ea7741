package claude

import (
	"context"
	"errors"
	"io"

	"github.com/dalsegno/segno"
)

var errStale = errors.New("the bytes at the position changed")

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
