package generation

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/internal/vfs"
)

const (
	runnerFile = "runner.json" // the process that runs the experiment, and its settings
	pauseFile  = "pause.json"  // a user wants the runner to pause
)

// Settings are how an experiment was started.
type Settings struct {
	File    string        `json:"file"` // of the experiment, absolute
	Every   time.Duration `json:"every"`
	Keep    int           `json:"keep"`
	Retries int           `json:"retries"`
	Deflate bool          `json:"deflate,omitempty"` // see archive.WriteOptions
}

// runnerRecord is runner.json.
type runnerRecord struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // see [proc.Start]
	UID   int    `json:"uid"`
	Settings
}

// pauseRequest is pause.json.
type pauseRequest struct {
	Grace time.Duration `json:"grace"`
}

// PauseOptions are the options of [Pause].
type PauseOptions struct {
	// Grace is how long agents may take to finish their turns. After that they are stopped within a turn.
	Grace time.Duration
	// Wait is how long the runner may then need for the checkpoint. After that it is killed.
	Wait time.Duration
	FS   vfs.FS // nil is the operating system
}

const (
	pollInterval  = 10 * time.Millisecond // how often Pause looks whether the runner has ended
	watchInterval = 50 * time.Millisecond // how often a runner looks for a request
)

// Pause stops the runner of an experiment with its world and all agents. It asks the runner with a file and not with
// a signal, because a second signal kills a runner that is about to stop. The runner makes a checkpoint
// first, also if the experiment makes none otherwise, and its state is then [StatePaused]. [Wake] is the
// counterpart.
//
// If Pause is killed, the runner continues or has paused. The error has [segno.KindNotFound] if the directory has no
// such experiment, and [segno.KindRefused] if it does not run or belongs to another user.
func Pause(ctx context.Context, out, name string, o PauseOptions) (Status, *Pointer, error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	p := pausing{dir: filepath.Join(out, name), name: name, PauseOptions: o}
	if err := p.find(ctx, out); err != nil {
		return Status{}, nil, err
	}
	data, err := json.Marshal(pauseRequest{Grace: o.Grace})
	if err == nil {
		err = vfs.Replace(o.FS, filepath.Join(p.dir, pauseFile), data, 0o600)
	}
	if err != nil {
		return Status{}, nil, segno.NewError(segno.KindIO, pauseOp, name, err)
	}
	if err := p.stop(ctx); err != nil {
		return Status{}, nil, err
	}
	s, pointer, err := ReadStatus(ctx, out, name)
	if err == nil && s.State != StatePaused {
		err = p.notPaused(s, pointer)
	}
	return s, pointer, err
}

const (
	pauseOp    = "pause experiment"
	statusHint = "see 'segno generations status'"
)

// pausing is one call of Pause.
type pausing struct {
	PauseOptions
	dir, name string
	runner    runnerRecord
}

// checkRuns returns an error with the state of the experiment if it does not run.
func (p *pausing) checkRuns(ctx context.Context, out string) error {
	s, _, err := ReadStatus(ctx, out, p.name)
	switch {
	case err != nil:
		return err
	case s.State == StateNone:
		return segno.NewError(segno.KindNotFound, pauseOp, p.name, nil).WithHint(statusHint)
	case s.State == StatePaused:
		return segno.Errorf(segno.KindRefused, pauseOp, p.name, "it is paused already").WithHint("run 'segno generations wake " + p.name + "' to continue it")
	case s.State != StateRunning:
		return segno.Errorf(segno.KindRefused, pauseOp, p.name, "it does not run: it is %s", s.State).WithHint(statusHint)
	}
	return nil
}

// find finds the runner.
func (p *pausing) find(ctx context.Context, out string) error {
	if err := p.checkRuns(ctx, out); err != nil {
		return err
	}
	known, err := readJSON(p.dir, runnerFile, &p.runner)
	if err != nil {
		return err
	}
	if !known || !p.isAlive() {
		if err := p.checkRuns(ctx, out); err != nil { // it may have paused since
			return err
		}
		return segno.Errorf(segno.KindRefused, pauseOp, p.name, "its runner has ended").WithHint(statusHint)
	}
	if p.runner.UID != os.Geteuid() || !isOwn(p.runner.PID) {
		return segno.Errorf(segno.KindRefused, pauseOp, p.name, "it belongs to another user").WithHint("run the command as that user")
	}
	return nil
}

// isAlive reports whether the process of the record runs, and has the lock of the experiment open.
func (p *pausing) isAlive() bool {
	if !proc.Alive(p.runner.PID, p.runner.Start) {
		return false
	}
	lock, err := os.Stat(filepath.Join(p.dir, lockFile))
	if err != nil {
		return false
	}
	dir := filepath.Join("/proc", strconv.Itoa(p.runner.PID), "fd")
	files, err := os.ReadDir(dir)
	if err != nil {
		return p.runner.Start == "" // the system has no /proc
	}
	for _, f := range files {
		if info, err := os.Stat(filepath.Join(dir, f.Name())); err == nil && os.SameFile(info, lock) {
			return true
		}
	}
	return false
}

// isOwn reports whether a process belongs to this user.
func isOwn(pid int) bool {
	info, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(stat.Uid) == os.Geteuid()
}

// stop returns when the runner and all that it started have ended. It kills a runner that does not.
func (p *pausing) stop(ctx context.Context) error {
	for _, wait := range []time.Duration{p.Grace + p.Wait, lockWait + p.Wait} {
		gone, err := p.await(ctx, wait)
		if gone || err != nil {
			return err
		}
		if err := p.kill(); err != nil {
			return err
		}
	}
	return segno.Errorf(segno.KindBusy, pauseOp, p.name, "its processes do not end").WithHint(statusHint)
}

// kill kills the runner, if it still runs. Its agents and its world end with it.
func (p *pausing) kill() error {
	if !proc.Alive(p.runner.PID, p.runner.Start) {
		return nil
	}
	if err := syscall.Kill(p.runner.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return segno.NewError(segno.KindRefused, pauseOp, p.name, err).WithHint("run the command as the user of the experiment")
	}
	return nil
}

// await waits until no process has the lock.
func (p *pausing) await(ctx context.Context, wait time.Duration) (gone bool, err error) {
	timeout, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		locked, err := isLocked(ctx, p.dir)
		if err != nil || !locked {
			return err == nil, err
		}
		select {
		case <-tick.C:
		case <-timeout.Done():
			return false, ctx.Err()
		}
	}
}

// notPaused is the error of a runner that ended in another state.
func (p *pausing) notPaused(s Status, pointer *Pointer) error {
	newest := "there is no checkpoint"
	if pointer != nil {
		newest = "the newest checkpoint is " + filepath.Join(p.dir, filepath.FromSlash(pointer.Checkpoint))
	}
	switch {
	case s.State == StateDone:
		return segno.Errorf(segno.KindRefused, pauseOp, p.name, "it was complete before it could pause").WithHint(statusHint)
	case s.State == StateKilled:
		return segno.Errorf(segno.KindIO, pauseOp, p.name, "the runner did not end in time and was killed; %s", newest).
			WithHint("run 'segno generations run " + p.runner.File + "' to continue from it")
	}
	return segno.Errorf(segno.KindIO, pauseOp, p.name, "the runner ended without a checkpoint: it is %s; %s", s.State, newest).
		WithHint("see 'segno generations status " + p.name + "'")
}

// Wake returns how a paused experiment was started, so that the caller can run it again with these settings.
// [Runner.Run] then continues it. Wake also continues an experiment after its runner was killed, because the killed process
// may have been a wake. The error has [segno.KindRefused] if it is neither paused nor killed, and the error of
// [archive.Open] or [archive.Reader.Verify] if the checkpoint of a paused one is damaged.
func Wake(ctx context.Context, out, name string) (Settings, error) {
	const op = "wake experiment"
	s, pointer, err := ReadStatus(ctx, out, name)
	var record runnerRecord
	known := false
	if err == nil {
		known, err = readJSON(filepath.Join(out, name), runnerFile, &record)
	}
	switch {
	case err != nil:
		return Settings{}, err
	case s.State == StateNone:
		return Settings{}, segno.NewError(segno.KindNotFound, op, name, nil).WithHint(statusHint)
	case s.State == StateRunning:
		return Settings{}, segno.Errorf(segno.KindRefused, op, name, "it is awake already").WithHint(statusHint)
	case s.State == StateKilled && known:
		return record.Settings, nil
	case s.State != StatePaused || !known:
		return Settings{}, segno.Errorf(segno.KindRefused, op, name, "it is not paused: it is %s", s.State).WithHint(statusHint)
	case pointer == nil: // it was paused before its first checkpoint
		return record.Settings, nil
	}
	return record.Settings, pointer.verify(ctx, out, name)
}

// checkPaused reports a checkpoint of a pause that the experiment cannot continue, before anything is
// renamed. Otherwise the generation would begin again.
func (r *Runner) checkPaused() error {
	var p Pointer
	known, err := readJSON(r.dir, pointerFile, &p)
	if err != nil || !known || r.paused != r.runID(p.Generation) || r.NoAutoResume || r.ResumeFrom != "" {
		return err
	}
	s, err := p.open(r.Out, r.Experiment.Name)
	if err != nil {
		return nil // the runner reports it and uses an older one
	}
	return errors.Join(r.checkSaved(s), s.Close())
}

// verify reads the archive that the pointer of an experiment names.
func (p *Pointer) verify(ctx context.Context, out, name string) error {
	r, err := p.open(out, name)
	if err != nil {
		return err
	}
	return errors.Join(r.Verify(ctx, nil), r.Close())
}

// open opens the archive that the pointer of an experiment names.
func (p *Pointer) open(out, name string) (*savedRun, error) {
	path := filepath.Join(out, name, filepath.FromSlash(p.Checkpoint))
	candidates := []string{path}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) { // a wake that was killed renamed the run
		moved, err := filepath.Glob(filepath.Join(globQuote(out), name+"-g*."+endPaused+"-*", checkpointsDir, filepath.Base(path)))
		if err != nil {
			return nil, err
		}
		candidates = append(moved, path)
	}
	var last error
	for _, path := range candidates {
		s, err := openArchive(path)
		if err != nil {
			last = err
			continue
		}
		if s.Manifest().Digest == p.Digest {
			return s, nil
		}
		s.Close()
		last = segno.Errorf(segno.KindCorrupt, "wake experiment", name, "its checkpoint is not the one that was made").
			WithHint("run 'segno generations run' with its file to continue from another one")
	}
	return nil, last
}

// recordRunner makes this process known to Pause, and forgets an earlier request.
func (r *Runner) recordRunner() error {
	var before Status
	if _, err := readJSON(r.dir, statusFile, &before); err == nil && before.State == StatePaused {
		r.paused = r.runID(before.Generation)
	}
	err := r.FS.Remove(filepath.Join(r.dir, pauseFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return segno.NewError(segno.KindIO, "run experiment", r.dir, err)
	}
	return r.writeJSON(runnerFile, runnerRecord{PID: os.Getpid(), Start: proc.Start(os.Getpid()), UID: os.Geteuid(),
		Settings: Settings{File: r.Experiment.path, Every: r.Every, Keep: r.Keep, Retries: r.Config.Retries, Deflate: r.Write.Deflate}})
}

// watchPause returns a context that ends when a user wants the experiment to pause.
func (r *Runner) watchPause(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		tick := time.NewTicker(watchInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, is := r.pauseRequested(); is {
				cancel()
			}
		}
	}()
	return ctx, cancel
}

// pauseRequested returns the request of a user to pause.
func (r *Runner) pauseRequested() (q pauseRequest, is bool) {
	is, err := readJSON(r.dir, pauseFile, &q)
	return q, is && err == nil
}

// grace is how long agents may finish their turns after the end of the context.
func (r *Runner) grace() time.Duration {
	if q, is := r.pauseRequested(); is {
		return q.Grace
	}
	return r.Grace
}
