package segno

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"syscall"
)

// Error is an error that a user or a program can act on.
type Error struct {
	Op   string // the operation: "restore", "open store"
	Name string // its object: a path, a thread, a checkpoint; may be ""
	Kind Kind   // for programs: exit code, retry
	Err  error  // the cause, or nil if Kind is sufficient
	Hint string // the next step for the user, one imperative sentence, or ""
}

// Kind classifies an [Error]. A Kind is itself an error, so that
// errors.Is(err, KindNotFound) holds for each error of that kind. The numbers are
// append-only.
type Kind int

// The kinds.
const (
	KindInternal  Kind = iota // a defect of segno, or not classified
	KindInvalid               // the input is malformed or contradictory
	KindNotFound              // the named object does not exist
	KindConflict              // another writer was first, or has changed the object since
	KindRefused               // it would be unsafe now: a turn is open, a root is too wide
	KindCorrupt               // the data exists but is damaged; never confused with not found
	KindBusy                  // a lock was not available in time; a retry may help
	KindFenced                // the writer's lease has passed to another
	KindNewer                 // written by a newer version of segno
	KindIO                    // the disk, the operating system or the network failed
	KindPartial               // done in part; the result lists the rest
	KindCancelled             // the context ended

	KindNone Kind = -1 // no error; the kind of nil
)

// kinds holds the name and the text of each kind.
var kinds = [...]struct{ name, text string }{
	{"internal", "internal error"}, {"invalid", "invalid"}, {"not_found", "does not exist"}, {"conflict", "conflict"},
	{"refused", "refused"}, {"corrupt", "damaged"}, {"busy", "busy"}, {"fenced", "the lease has passed to another writer"},
	{"newer", "written by a newer segno"}, {"io", "i/o error"}, {"partial", "incomplete"}, {"cancelled", "cancelled"},
}

// MarshalText writes the kind's name for programs: "not_found", "conflict", ….
func (k Kind) MarshalText() ([]byte, error) {
	switch {
	case k == KindNone:
		return []byte("none"), nil
	case k < 0 || int(k) >= len(kinds):
		return []byte(kinds[KindInternal].name), nil
	}
	return []byte(kinds[k].name), nil
}

// String is the kind in words.
func (k Kind) String() string {
	switch {
	case k == KindNone:
		return "no error"
	case k < 0 || int(k) >= len(kinds):
		return fmt.Sprintf("kind %d", int(k))
	}
	return kinds[k].text
}

// Error is the same as String.
func (k Kind) Error() string { return k.String() }

// NewError returns an error of a kind. err is its cause, or nil if the kind is sufficient.
func NewError(kind Kind, op, name string, err error) *Error {
	return &Error{Op: op, Name: name, Kind: kind, Err: err}
}

// Errorf is [NewError] with the cause fmt.Errorf(format, args...).
func Errorf(kind Kind, op, name, format string, args ...any) *Error {
	return NewError(kind, op, name, fmt.Errorf(format, args...))
}

// WithHint sets the hint and returns e.
func (e *Error) WithHint(hint string) *Error {
	e.Hint = hint
	return e
}

// Is reports whether target is e's [Kind].
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && KindOf(e) == k
}

// Error returns one lower-case line: the operation, its object and the cause.
func (e *Error) Error() string {
	cause := e.Err
	if cause == nil {
		cause = e.Kind
	}
	parts := []string{e.Op, e.Name, cause.Error()}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}

func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the outermost [Error] in err's chain whose kind is not [KindInternal].
// Without such an error it returns [KindCancelled] for a context's own errors, [KindNone] for nil,
// and [KindInternal] otherwise.
func KindOf(err error) Kind {
	if err == nil {
		return KindNone
	}
	for e := range errorsIn(err) {
		if e.Kind != KindInternal {
			return e.Kind
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return KindCancelled
	}
	return KindInternal
}

// HintOf returns the first hint in err's chain, or "". If there is no hint and the disk is full, it
// returns a hint about that, because any write can fail this way.
func HintOf(err error) string {
	for e := range errorsIn(err) {
		if e.Hint != "" {
			return e.Hint
		}
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return "free some space on the disk, then run the command again"
	}
	return ""
}

// errorsIn yields each [Error] in err's chain, the outermost first.
func errorsIn(err error) iter.Seq[*Error] {
	return func(yield func(*Error) bool) {
		for e := (*Error)(nil); errors.As(err, &e) && yield(e); {
			err = e.Err
		}
	}
}

// ConflictError is the cause of an [Error] with [KindConflict] that a [Store]'s Commit returns:
// Actual is the thread's head, which is not the one that the writer expected.
type ConflictError struct{ Actual Head }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("the head of thread %s is %q", e.Actual.Thread, e.Actual.Head)
}

// errText is an error that is only its text.
type errText string

func (e errText) Error() string { return string(e) }
