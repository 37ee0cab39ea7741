package sessionfile

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/dalsegno/segno"
)

// ErrStale is the cause of an error of [CopySource.EachLine] if the bytes differ from those of the
// position.
var ErrStale = errors.New("the bytes at the position changed")

// CopySource is a place that may have the bytes of a position.
type CopySource struct {
	Op       string // for errors
	Name     string // name of the file
	Position *segno.Position
	Open     func(ctx context.Context) (io.ReadCloser, error)
}

// EachLine calls do for each line of the position. It returns the error of do separately,
// because after another error the caller may try another copy.
func (s CopySource) EachLine(ctx context.Context, do func(Line) error) (readErr, doErr error) {
	in, err := s.Open(ctx)
	if err != nil {
		return err, nil
	}
	defer in.Close()
	a := NewReadAhead(ctx, io.LimitReader(in, s.Position.Offset))
	defer a.Close()
	l := NewLineReader(a, 0)
	for at := range l.All() {
		if err := at.CheckWhole(s.Op, s.Name); err != nil {
			return err, nil
		}
		if err := do(at); err != nil {
			return nil, err
		}
	}
	torn, err := l.End()
	switch {
	case err != nil:
		return err, nil
	case !a.Is(s.Position):
		return segno.NewError(segno.KindCorrupt, s.Op, s.Name, ErrStale), nil
	case torn > 0:
		return segno.Errorf(segno.KindCorrupt, s.Op, s.Name, "the position is in the middle of a line"), nil
	}
	return nil, nil
}

// FirstCopy calls read for each copy until one has the bytes of the position. read must return the
// two errors of [CopySource.EachLine].
func FirstCopy(ctx context.Context, op, session string, copies []CopySource, read func(CopySource) (readErr, doErr error)) error {
	err := error(segno.Errorf(segno.KindNotFound, op, session, "neither the agent's files nor the store have its bytes"))
	for _, from := range copies {
		readErr, doErr := read(from)
		switch {
		case doErr != nil:
			return IOError(op, session, doErr)
		case readErr == nil:
			return nil
		case ctx.Err() != nil:
			return IOError(op, session, ctx.Err())
		case !errors.Is(readErr, fs.ErrNotExist) && segno.KindOf(readErr) != segno.KindNotFound:
			err = readErr
		}
	}
	return IOError(op, session, err)
}
