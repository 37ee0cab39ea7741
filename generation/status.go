package generation

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/world"
)

const (
	statusFile  = "status.json"
	pointerFile = "checkpoint.json"
)

// Status is the state of an experiment. The runner writes it whenever it changes.
type Status struct {
	Experiment  string        `json:"experiment"`
	State       State         `json:"state"`
	Error       string        `json:"error,omitempty"` // why it failed
	Generation  int           `json:"generation,omitempty"`
	Generations int           `json:"generations"`
	Run         string        `json:"run,omitempty"`    // the name of its directory
	Attempt     string        `json:"run_id,omitempty"` // as in the chain
	Ticks       int           `json:"ticks,omitempty"`  // ticks of the generation, until the newest checkpoint
	SimTime     segno.SimTime `json:"sim_time"`
	Agents      []string      `json:"agents"`
	// WhyNot is why another run of the experiment may have another course; "" if it is reproducible.
	WhyNot             string         `json:"why_not_reproducible,omitempty"`
	Outcomes           world.Outcomes `json:"outcomes,omitempty"`  // of the world now
	Checkpoints        int            `json:"checkpoints"`         // since the runner started
	CheckpointFailures int            `json:"checkpoint_failures"` // since the runner started
	LastFailure        string         `json:"last_failure,omitempty"`
	SessionsOmitted    int            `json:"sessions_omitted"` // archives that lack conversations because of a secret
	// FilesOmitted are the files in workspaces that the newest archive lacks because of secrets.
	FilesOmitted []string  `json:"files_omitted,omitempty"`
	Retries      int       `json:"retries"` // retries of failed generations, since the runner started
	Updated      time.Time `json:"updated"`
}

// State is the progress of an experiment.
type State string

// The states. An experiment in StateRunning without a runner was killed.
const (
	StateNone    State = "not started"
	StateRunning State = "running"
	StateStopped State = "stopped"
	StatePaused  State = "paused" // by [Pause]
	StateFailed  State = "failed"
	StateDone    State = "done"
	StateKilled  State = "killed"
)

// Pointer is checkpoint.json: the newest checkpoint of an experiment.
type Pointer struct {
	Checkpoint     string    `json:"checkpoint"` // relative to the directory of the pointer
	Digest         string    `json:"state_digest"`
	Generation     int       `json:"generation"`
	ElapsedSeconds int64     `json:"elapsed_seconds"`
	ElapsedTicks   int       `json:"elapsed_ticks,omitempty"`
	Written        time.Time `json:"written_at"`
}

// setState records the progress. An error does not end the experiment: the status is
// for people, and no resume depends on it.
func (r *Runner) setState(s State, failure string) {
	r.status.State, r.status.Error = s, failure
	r.status.Experiment, r.status.Generations, r.status.Updated = r.Experiment.Name, r.Experiment.Generations, r.Now().UTC()
	r.status.Agents = nil
	for _, a := range r.Experiment.Agents {
		r.status.Agents = append(r.status.Agents, a.Name)
	}
	_ = r.writeJSON(statusFile, r.status)
}

// writeJSON replaces a file of the experiment.
func (r *Runner) writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return vfs.Replace(r.FS, filepath.Join(r.dir, name), append(data, '\n'), 0o644)
}

// readJSON reads a file of an experiment, and reports whether it exists.
func readJSON(dir, name string, v any) (bool, error) {
	f, err := openFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		defer f.Close()
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(f, maxFile)); err == nil {
			err = json.Unmarshal(data, v)
		}
	}
	if err != nil {
		return false, segno.NewError(segno.KindCorrupt, "read experiment", filepath.Join(dir, name), err)
	}
	return true, nil
}

// maxFile is the maximum number of bytes that are read of a file of an experiment.
const maxFile = 16 << 20

// openFile opens a file of an experiment. It does not wait for a FIFO, which another process could put there.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a plain file")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
