package archive

import (
	"errors"
	"io/fs"
)

// An UnsafeError is in the chain of an error with KindCorrupt if the file has the parts of an
// archive but contradicts itself: two programs could read different content from it, or one of its
// files or links would be outside the directory. An archive that was manipulated on purpose looks
// like this. Damage to a header can have the same effect.
type UnsafeError struct{ Err error }

func (e *UnsafeError) Error() string { return e.Err.Error() }

func (e *UnsafeError) Unwrap() error { return e.Err }

// unsafe makes err an UnsafeError. It returns nil and errors of the disk unchanged.
func unsafe(err error) error {
	if err == nil || errors.As(err, new(*fs.PathError)) {
		return err
	}
	return &UnsafeError{err}
}
