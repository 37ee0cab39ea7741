package sessionfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/google/uuid"
)

// maxSession is the maximum length of a session id.
const maxSession = 128

// CheckSession returns an error unless a session id may become a part of a path.
func CheckSession(op string, id segno.SessionID) error {
	invalid := func(why string) error { return segno.Errorf(segno.KindInvalid, op, "", "the session id %s", why) }
	switch {
	case id == "":
		return invalid("is empty")
	case id[0] == '-':
		return invalid("begins with a dash, like a command-line option")
	case len(id) > maxSession:
		return invalid("is too long")
	case strings.Trim(string(id), nameCharacters) != "":
		return invalid("contains characters other than letters, digits, - and _")
	}
	return nil
}

// CheckNewSession returns an error unless id can be the id of a new session. Agents resume only
// UUIDs.
func CheckNewSession(op string, id segno.SessionID) error {
	if err := CheckSession(op, id); err != nil {
		return err
	}
	if len(id) != 36 || uuid.Validate(string(id)) != nil {
		return segno.Errorf(segno.KindInvalid, op, string(id), "the session id is not a UUID")
	}
	return nil
}

// EmptyError returns the error for a cut at a position without a conversation.
func EmptyError(op string, id segno.SessionID) error {
	return segno.Errorf(segno.KindInvalid, op, string(id), "the conversation is empty, so there is nothing to resume")
}

// ExistsError returns the error for writing a session that already exists with other bytes.
func ExistsError(op, name string) error {
	return segno.Errorf(segno.KindConflict, op, name, "the session exists already").WithHint("choose another session id")
}

// maxCapture is the maximum number of transcript bytes that one call reads. It is limited because a part of each record
// stays in memory.
const maxCapture = 4 << 30

// CheckSize returns an error if a transcript has too many new bytes to be read.
func CheckSize(op, path string, bytes int64) error {
	if bytes <= maxCapture {
		return nil
	}
	return segno.Errorf(segno.KindRefused, op, path, "it has %d GiB that are not stored, more than the %d GiB that segno reads", bytes>>30, int64(maxCapture)>>30).
		WithHint("begin a new session; this one stays as it is")
}

// CheckUnchanged returns [segno.KindBusy] if a file changed after before was taken, which means
// that another process writes to its session.
func CheckUnchanged(op, path string, before os.FileInfo) error {
	after, err := os.Stat(path)
	if err == nil && (after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime())) {
		err = segno.Errorf(segno.KindBusy, op, path, "another process writes to the session").WithHint("wait until it is idle")
	}
	return err
}

// IOError wraps an error of the operating system or of a context in a [segno.Error] of the matching
// kind. It returns nil, and errors that already wrap a [segno.Error], unchanged.
func IOError(op, name string, err error) error {
	var known *segno.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	kind := segno.KindIO
	switch {
	case errors.Is(err, fs.ErrNotExist):
		kind = segno.KindNotFound
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		kind = segno.KindCancelled
	}
	return segno.NewError(kind, op, name, err)
}

// IgnoreMissing returns err unless it reports that a file does not exist (any more).
func IgnoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
