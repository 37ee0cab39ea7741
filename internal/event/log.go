package event

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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

// Failed writes one line. It names the event and the error, never a prompt, an
// input or an output. It drops what it cannot write: a hook has nobody else to tell.
func (l Log) Failed(event string, session segno.SessionID, err error) {
	data, encErr := json.Marshal(Failure{Time: time.Now().UTC(), Event: event, Session: session, Error: err.Error(), Hint: segno.HintOf(err)})
	if encErr != nil {
		return
	}
	name := l.file()
	if fi, err := os.Stat(name); err == nil && fi.Size() > maxLog {
		_ = os.Rename(name, name+".old") // at worst the log grows on
	}
	const flag = os.O_WRONLY | os.O_APPEND | os.O_CREATE
	f, err := os.OpenFile(name, flag, 0o600)
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(l.Store, 0o700) == nil {
		f, err = os.OpenFile(name, flag, 0o600)
	}
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.Write(append(data, '\n')) // nobody is left to tell
}

// Failures returns the last n lines, oldest first.
func (l Log) Failures(n int) ([]Failure, error) {
	f, err := os.Open(l.file())
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
