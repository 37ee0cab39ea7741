package event

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
)

// maxLog is where hook.log is begun again; the one before it is kept beside it.
const maxLog = 1 << 20

// Log is the hook.log of the store in a directory: one JSON object a line. There
// is none until something fails.
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
// input or an output. It drops what it cannot write: a hook has nobody else to tell.
func (l Log) Append(event string, session segno.SessionID, err error) {
	data, encErr := json.Marshal(Failure{Time: time.Now().UTC(), Event: event, Session: session, Error: err.Error(), Hint: segno.HintOf(err)})
	if encErr != nil {
		return
	}
	name := l.file()
	if fi, err := os.Lstat(name); err == nil && fi.Size() > maxLog {
		_ = os.Rename(name, name+".old") // at worst the log grows on
	}
	const flag = os.O_WRONLY | os.O_APPEND | os.O_CREATE
	f, err := openLog(name, flag)
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(l.Store, 0o700) == nil {
		f, err = openLog(name, flag)
	}
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.Write(append(data, '\n')) // nobody is left to tell
}

// openLog opens a plain file. It follows no symlink in the file's place, and a FIFO there
// blocks nothing.
func openLog(name string, flag int) (*os.File, error) {
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
	f, err := openLog(l.file(), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []Failure
	for r := bufio.NewReader(f); ; {
		data, err := r.ReadBytes('\n')
		var line Failure
		if json.Unmarshal(data, &line) == nil {
			out = append(out, line)
		}
		if err != nil {
			break
		}
	}
	if len(out) > n {
		out = out[len(out)-n:]
	}
	return out, nil
}
