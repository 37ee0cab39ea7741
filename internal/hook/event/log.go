package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
)

// maxLog is the size at which hook.log is renamed to hook.log.old and a new one begins.
const maxLog = 1 << 20

// Log is the hook.log of the store in a directory: one JSON object per line. It does not exist
// until a hook fails.
type Log struct{ Store string }

// Failure is one line of hook.log.
type Failure struct {
	Time    time.Time       `json:"time"`
	Event   string          `json:"event"`
	Session segno.SessionID `json:"session,omitempty"`
	Error   string          `json:"error"`
	Hint    string          `json:"hint,omitempty"`
}

func (l Log) file() string { return filepath.Join(l.Store, "hook.log") }

// Append writes one line. It names the event and the error, never a prompt, an
// input or an output. It ignores its own errors, because a hook cannot report them.
func (l Log) Append(event string, session segno.SessionID, err error) {
	data, encErr := json.Marshal(Failure{Time: time.Now().UTC(), Event: event, Session: session, Error: err.Error(), Hint: segno.HintOf(err)})
	if encErr != nil {
		return
	}
	name := l.file()
	if fi, err := os.Lstat(name); err == nil && fi.Size() > maxLog {
		_ = os.Rename(name, name+".old") // at worst the log grows
	}
	const flag = os.O_WRONLY | os.O_APPEND | os.O_CREATE
	f, err := openPlain(name, flag)
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(l.Store, 0o700) == nil {
		f, err = openPlain(name, flag)
	}
	if err == nil {
		_, _ = f.Write(append(data, '\n'))
		f.Close()
	}
}

// AppendPanic, if it is deferred, ends a panic and writes its line.
func (l Log) AppendPanic() {
	if r := recover(); r != nil {
		l.Append("panic", "", fmt.Errorf("%v\n%s", r, debug.Stack()))
	}
}

// openPlain opens a plain file. It follows no symlink in the file's place, and does not
// block on a FIFO there.
func openPlain(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("not a plain file")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Failures returns the last n lines, oldest first.
func (l Log) Failures(n int) ([]Failure, error) {
	f, err := openPlain(l.file(), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, _ := io.ReadAll(f) // the lines before an error count
	var out []Failure
	for text := range bytes.Lines(data) {
		var line Failure
		if json.Unmarshal(text, &line) == nil {
			out = append(out, line)
		}
	}
	return out[max(0, len(out)-n):], nil
}
