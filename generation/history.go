package generation

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/vfs"
)

// ReadStatus returns the state of an experiment in a directory of runs. It checks whether the runner still runs.
func ReadStatus(ctx context.Context, out, name string) (Status, *Pointer, error) {
	dir := filepath.Join(out, name)
	s := Status{Experiment: name, State: StateNone}
	if _, err := readJSON(dir, statusFile, &s); err != nil {
		return s, nil, err
	}
	switch isLocked, err := isLocked(ctx, dir); {
	case err != nil:
		return s, nil, err
	case isLocked && s.State != StateDone:
		s.State = StateRunning
	case !isLocked && s.State == StateRunning:
		s.State = StateKilled
	}
	var p Pointer
	known, err := readJSON(dir, pointerFile, &p)
	if err != nil || !known {
		return s, nil, err
	}
	return s, &p, nil
}

// isLocked reports whether a runner holds the lock of the experiment.
func isLocked(ctx context.Context, dir string) (bool, error) {
	f, err := openFile(filepath.Join(dir, lockFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, segno.NewError(segno.KindIO, "read experiment", dir, err)
	}
	defer f.Close()
	err = vfs.LockShared(ctx, f, 0)
	if errors.Is(err, vfs.ErrLocked) {
		return true, nil
	}
	return false, err
}

// Experiments returns the names of the experiments in a directory of runs.
func Experiments(out string) (names []string, err error) {
	found, err := filepath.Glob(filepath.Join(globQuote(out), "*", lockFile))
	for _, path := range found {
		names = append(names, filepath.Base(filepath.Dir(path)))
	}
	return names, err
}

// Log is the history of an experiment.
type Log struct {
	Rows        []Row             `json:"rows"`
	Checkpoints []SavedCheckpoint `json:"checkpoints"`
}

// SavedCheckpoint describes one archive of an experiment.
type SavedCheckpoint struct {
	Path           string    `json:"path"` // relative to the directory of the runs
	Run            string    `json:"run"`  // the directory that has it
	Digest         string    `json:"state_digest"`
	Parent         string    `json:"parent,omitempty"` // the digest of the archive before it in its line
	Created        time.Time `json:"created"`
	Generation     int       `json:"generation"`
	ElapsedTicks   int       `json:"elapsed_ticks"`
	ElapsedSeconds float64   `json:"elapsed_seconds"`
	SimTime        string    `json:"sim_time"`
	Consistency    string    `json:"consistency"`
	Agents         []string  `json:"agents"`
	Omitted        int       `json:"omitted"`        // conversations left out because of a secret
	OmittedFiles   int       `json:"omitted_files"`  // files of workspaces left out because of a secret
	Base           string    `json:"base,omitempty"` // the name of the archive of which it is a delta
	Error          string    `json:"error,omitempty"`

	// Workspaces are the checkpoints of the agents in the store of the machine that made the archive.
	Workspaces map[string]segno.CommitID `json:"workspaces,omitempty"`
}

// ReadLog returns the rows of the chain and all archives, oldest first. An archive that cannot be read is
// listed with its error.
func ReadLog(out, name string) (Log, error) {
	l := Log{Checkpoints: []SavedCheckpoint{}}
	var err error
	if l.Rows, err = readChain(filepath.Join(out, name)); err != nil {
		return l, err
	}
	runs, err := filepath.Glob(filepath.Join(globQuote(out), name+"-g[0-9][0-9][0-9]*"))
	if err != nil {
		return l, err
	}
	for _, run := range runs {
		for _, path := range archivesIn(run) {
			l.Checkpoints = append(l.Checkpoints, readSavedIn(run, path))
		}
	}
	slices.SortStableFunc(l.Checkpoints, func(a, b SavedCheckpoint) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Path, b.Path))
	})
	return l, nil
}

// readSavedIn describes one archive of a run.
func readSavedIn(run, path string) SavedCheckpoint {
	c := readSaved(path)
	c.Run = filepath.Base(run)
	c.Path = filepath.ToSlash(filepath.Join(c.Run, checkpointsDir, filepath.Base(path)))
	return c
}

// readSaved describes one archive.
func readSaved(path string) (c SavedCheckpoint) {
	r, err := archive.Open(path)
	if err != nil {
		c.Error = err.Error()
		return c
	}
	defer r.Close()
	s := savedRun{Reader: r}
	if err := s.readCaller(); err != nil {
		c.Error = err.Error()
	}
	m := r.Manifest()
	c.Digest, c.Created, c.Agents = m.Digest, r.Metadata().Created, r.Metadata().Agents
	c.Generation, c.ElapsedTicks, c.ElapsedSeconds = s.caller.Generation, s.caller.ElapsedTicks, s.caller.ElapsedSeconds
	c.Workspaces = map[string]segno.CommitID{}
	for agent, files := range s.caller.Files {
		c.Workspaces[agent] = files.Workspace
	}
	if d := r.Delta(); d != nil {
		c.Base = d.Name
	}
	if m.Parent != nil {
		c.Parent = m.Parent.Digest
	}
	if m.World != nil {
		c.SimTime = m.World.SimTime
	}
	if m.Cut != nil {
		c.Consistency = m.Cut.Consistency
	}
	sessions, files := omittedSecrets(m)
	c.Omitted, c.OmittedFiles = len(sessions), len(files)
	return c
}

// ReadRows returns the rows of the chain of an experiment, oldest first, or none if no attempt has ended.
func ReadRows(out, name string) ([]Row, error) { return readChain(filepath.Join(out, name)) }

// AttemptArchives returns the paths of the archives that an attempt left, oldest first. They are in the directory of
// its run, which is beside the directory of the experiment. An attempt whose symlink points elsewhere has none.
func AttemptArchives(out, name, attempt string) []string {
	if !filepath.IsLocal(attempt) || strings.ContainsRune(attempt, filepath.Separator) {
		return nil
	}
	run, err := filepath.EvalSymlinks(filepath.Join(out, name, attemptsDir, attempt))
	if err != nil {
		return nil
	}
	real, err := filepath.EvalSymlinks(out)
	if err != nil || filepath.Dir(run) != real {
		return nil
	}
	return archivesIn(run)
}

// ReadArchive describes one of [AttemptArchives].
func ReadArchive(path string) SavedCheckpoint {
	return readSavedIn(filepath.Dir(filepath.Dir(path)), path)
}

// Find returns the experiment that a user names: by its name, by the name or the directory of one of its runs, or by
// its directory. out is the directory of the runs unless the name is a path. Paths are relative to wd.
func Find(wd, out, called string) (dir, name string, found bool) {
	at := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(wd, path)
	}
	dir, name = at(out), filepath.Clean(called)
	if strings.ContainsRune(called, filepath.Separator) {
		path := at(called)
		dir, name = filepath.Dir(path), filepath.Base(path)
	}
	if _, err := os.Stat(filepath.Join(dir, name, lockFile)); err != nil {
		name = runName().ReplaceAllString(name, "")
		_, err = os.Stat(filepath.Join(dir, name, lockFile))
		return dir, name, err == nil && simpleName().MatchString(name)
	}
	return dir, name, simpleName().MatchString(name)
}
