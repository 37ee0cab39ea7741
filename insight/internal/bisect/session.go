package bisect

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/internal/worlds/supervise"
	"github.com/dalsegno/segno/workspace"
)

// State is what is known of a bisect. It is on disk in plain JSON, also in a sealed store, so it contains no text of
// checkpoints and no command.
type State struct {
	Version int            `json:"version"`
	Root    string         `json:"root"` // of the workspace
	Thread  segno.ThreadID `json:"thread"`
	Good    segno.CommitID `json:"good"` // the ends at the start
	Bad     segno.CommitID `json:"bad"`
	Command string         `json:"command,omitempty"` // a hash of the command that gave answers, and of its directory
	Answers []Answer       `json:"answers,omitempty"`
	Scratch []string       `json:"scratch,omitempty"` // scratch copies that exist, or that a killed process may have left
	ByHand  *ByHand        `json:"by_hand,omitempty"`
}

// Answer is the verdict about a checkpoint.
type Answer struct {
	Checkpoint segno.CommitID `json:"checkpoint"`
	Verdict    Verdict        `json:"verdict"`
	Code       *int           `json:"code,omitempty"` // the exit code, if a command ran
}

// ByHand is the scratch copy in which the user tests.
type ByHand struct {
	Dir        string         `json:"dir"`        // "" if it is to be made again
	Checkpoint segno.CommitID `json:"checkpoint"` // whose files it has
}

// version is the version of the state. Another version is an error.
const version = 1

// Session is the bisect of a workspace. It holds a lock until Close, and so do the commands that a process started before
// it was killed: see Hold.
type Session struct {
	State
	// Exists reports whether a bisect is under way.
	Exists bool

	fsys vfs.FS
	path string
	lock vfs.File
	mu   sync.Mutex // guards State while tests run
}

// lockWait is how long Open waits for another process. The commands of a killed process end within this time.
const lockWait = 2 * time.Second

// Open opens the bisect of a workspace. dir is the directory of all bisects of a store. The error has [segno.KindBusy] if
// another process has it open.
func Open(ctx context.Context, fsys vfs.FS, dir string, id segno.WorkspaceID) (*Session, error) {
	s := &Session{fsys: fsys, path: filepath.Join(dir, segno.DerivedID("bisect", string(id)))}
	err := vfs.MkdirAll(fsys, dir)
	if err == nil {
		s.lock, err = fsys.OpenFile(s.path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "bisect", dir, err)
	}
	err = vfs.Lock(ctx, s.lock, lockWait)
	if errors.Is(err, vfs.ErrLocked) {
		err = segno.NewError(segno.KindBusy, "bisect", "", errors.New("another process bisects this workspace")).WithHint("wait for it, or interrupt it")
	}
	if err == nil {
		err = s.read()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Session) read() error {
	data, err := os.ReadFile(s.path + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return segno.NewError(segno.KindIO, "bisect", s.path, err)
	}
	s.Exists = true
	if err := json.Unmarshal(data, &s.State); err != nil || s.Version < version {
		s.State = State{}
		return nil
	}
	if s.Version > version {
		return segno.Errorf(segno.KindNewer, "bisect", s.path, "a newer segno began this bisect").WithHint("end it with that version, or remove the file")
	}
	return nil
}

// IsDamaged reports whether the state cannot be read. Only Remove makes sense then.
func (s *Session) IsDamaged() bool { return s.Exists && s.Version == 0 }

// Close releases the lock.
func (s *Session) Close() { _ = s.lock.Close() }

// Hold is the locked file, for the processes that the caller starts. It is nil if the file system is not that of the
// operating system.
func (s *Session) Hold() *os.File {
	f, _ := s.lock.(*os.File)
	return f
}

// IndexFile returns the path of the scan index of a scratch copy.
func (s *Session) IndexFile(scratch string) string { return s.path + "." + filepath.Base(scratch) }

// Save makes the state durable.
func (s *Session) Save() error {
	s.Version, s.Exists = version, true
	data, err := json.Marshal(&s.State)
	if err == nil {
		err = vfs.Replace(s.fsys, s.path+".json", data, 0o600)
	}
	if err != nil {
		return segno.NewError(segno.KindIO, "save bisect", s.path, err)
	}
	return nil
}

// Remove ends the bisect: it removes the scratch copies and the state.
func (s *Session) Remove() error {
	if err := s.RemoveScratch(""); err != nil {
		return err
	}
	if err := s.fsys.Remove(s.path + ".json"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return segno.NewError(segno.KindIO, "end bisect", s.path, err)
	}
	s.State, s.Exists = State{}, false
	return s.fsys.SyncDir(filepath.Dir(s.path))
}

// scratchVariable is set for the commands in a scratch copy. Its value is the path of the copy.
const scratchVariable = "SEGNO_BISECT"

// InUse returns the scratch copy in which the user tests, or "". One that a killed process left incomplete, or that the user
// removed or replaced, is not in use.
func (s *Session) InUse() string {
	if s.ByHand == nil || s.ByHand.Checkpoint == "" {
		return ""
	}
	if fi, err := os.Lstat(s.ByHand.Dir); err != nil || !fi.IsDir() {
		return ""
	}
	return s.ByHand.Dir
}

// RemoveScratch kills the processes that still run in the scratch copies, and removes the copies except one. The state
// lists a copy until it is removed.
func (s *Session) RemoveScratch(except string) error {
	var failed error
	var kept []string
	for _, dir := range s.Scratch {
		if dir == except {
			kept = append(kept, dir)
			continue
		}
		supervise.KillWith(scratchVariable + "=" + dir)
		err := workspace.RemoveScratch(s.fsys, dir)
		if err == nil {
			if err = s.fsys.Remove(s.IndexFile(dir)); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
		if err != nil {
			kept, failed = append(kept, dir), errors.Join(failed, err)
		}
	}
	if len(kept) < len(s.Scratch) {
		if s.Scratch = kept; s.ByHand != nil && s.ByHand.Dir != except {
			s.ByHand.Dir = ""
		}
		failed = errors.Join(failed, s.Save())
	}
	return failed
}

// Announce records the path of a scratch copy that is about to be made.
func (s *Session) Announce(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Scratch = append(s.Scratch, path)
	return s.Save()
}

// Add records an answer.
func (s *Session) Add(a Answer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Answers = append(s.Answers, a)
	return s.Save()
}

// WorkspaceAt returns the root of the workspace whose scratch copy contains a directory, or "". It lets verbs work from
// the directory in which the user tests.
func WorkspaceAt(bisects, dir string) string {
	names, _ := filepath.Glob(filepath.Join(bisects, "*.json")) // the pattern is well-formed
	for _, name := range names {
		var state State
		data, err := os.ReadFile(name)
		if err != nil || json.Unmarshal(data, &state) != nil {
			continue
		}
		for _, scratch := range state.Scratch {
			if dir == scratch || strings.HasPrefix(dir, scratch+"/") {
				return state.Root
			}
		}
	}
	return ""
}
