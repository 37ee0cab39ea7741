package file

import (
	"context"
	"errors"
	"fmt"

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
	out := &segno.Error{Op: op, Name: name, Kind: segno.KindIO, Err: err}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		out.Kind = segno.KindCancelled
	case errors.Is(err, errNewer):
		out.Kind, out.Hint = segno.KindNewer, "use the version that wrote it, or a newer one"
	}
	return out
}

func corrupt(op, name string, err error) error {
	return &segno.Error{Op: op, Name: name, Kind: segno.KindCorrupt, Err: err}
}

func notFound(op, name string) error {
	return &segno.Error{Op: op, Name: name, Kind: segno.KindNotFound}
}

func invalid(op, name, format string, args ...any) error {
	return &segno.Error{Op: op, Name: name, Kind: segno.KindInvalid, Err: fmt.Errorf(format, args...)}
}
