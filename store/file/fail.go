package file

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
)

// errNewer marks what a newer version wrote.
var errNewer = errors.New("it was written by a newer version")

// fail gives an error its kind. Errors that have one pass through.
func fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	var known *segno.Error
	if errors.As(err, &known) {
		return err
	}
	out := segno.NewError(segno.KindIO, op, name, err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		out.Kind = segno.KindCancelled
	case errors.Is(err, errNewer):
		out.Kind, out.Hint = segno.KindNewer, "use the version that wrote it, or a newer one"
	}
	return out
}

func corrupt(op, name string, err error) error {
	return segno.NewError(segno.KindCorrupt, op, name, err)
}

func notFound(op, name string) error {
	return segno.NewError(segno.KindNotFound, op, name, nil)
}

func invalid(op, name, format string, args ...any) error {
	return segno.Errorf(segno.KindInvalid, op, name, format, args...)
}
