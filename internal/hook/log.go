package hook

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
)

// maxLog is where hook.log is begun again; the one before it is kept beside it.
const maxLog = 1 << 20

// Log is the store's hook.log: one JSON object a line.
type Log struct{ f *os.File }

// Failure is one line of hook.log.
type Failure struct {
	Time    time.Time       `json:"time"`
	Event   string          `json:"event"`
	Session segno.SessionID `json:"session,omitempty"`
	Error   string          `json:"error"`
	Hint    string          `json:"hint,omitempty"`
}

func logFile(p local.Place) string { return filepath.Join(p.Store, "hook.log") }

// openLog returns a log that drops what it is told if it cannot be opened: a
// hook has nobody else to tell.
func openLog(p local.Place) *Log {
	name := logFile(p)
	if fi, err := os.Stat(name); err == nil && fi.Size() > maxLog {
		_ = os.Rename(name, name+".old") // at worst the log grows on
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(p.Store, 0o700) == nil {
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	}
	if err != nil {
		return &Log{}
	}
	return &Log{f}
}

// Close closes the file.
func (l *Log) Close() {
	if l.f != nil {
		l.f.Close()
	}
}

// failed writes one line. It names the event and the error, never a prompt, an
// input or an output.
func (l *Log) failed(event string, p payload, err error) {
	if l.f == nil {
		return
	}
	data, encErr := json.Marshal(Failure{Time: time.Now().UTC(), Event: event, Session: p.Session, Error: err.Error(), Hint: segno.HintOf(err)})
	if encErr != nil {
		return
	}
	_, _ = l.f.Write(append(data, '\n')) // nobody is left to tell
}

// Failures returns the last n lines of hook.log, oldest first.
func Failures(p local.Place, n int) ([]Failure, error) {
	f, err := os.Open(logFile(p))
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
