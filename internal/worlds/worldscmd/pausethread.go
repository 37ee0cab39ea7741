package worldscmd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/proc"
)

type pauseThreadResult struct {
	Thread     segno.ThreadID   `json:"thread"`
	Checkpoint segno.CommitID   `json:"checkpoint"`
	Label      string           `json:"label"`
	Ended      []segno.ThreadID `json:"ended"` // other threads whose agents ended with the same process
	Killed     bool             `json:"killed"`
	File       string           `json:"file,omitempty"`
	FileBytes  []byte           `json:"file_bytes,omitempty"`
	Digest     string           `json:"state_digest,omitempty"`
}

// threadPause is the state of one run of pause for a thread.
type threadPause struct {
	*app
	store  *local.Store
	spool  *spool.Dir
	thread segno.ThreadID
	flags  pauseFlags
	result pauseThreadResult
}

// pauseThread stops the agent of a thread and makes a checkpoint.
func (a *app) pauseThread(ctx context.Context, called string, flags pauseFlags) error {
	a.ThreadName = called
	d, err := a.Open(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	p := &threadPause{app: a, store: d.Store, spool: d.Store.Spool(), flags: flags}
	if p.thread, err = a.ThreadID(ctx, d); err != nil {
		return err
	}
	p.result = pauseThreadResult{Thread: p.thread, Ended: []segno.ThreadID{}}
	if flags.output != "" {
		if err := cli.CheckOutput("pause", cli.Absolute(d.Dir, flags.output)); err != nil {
			return err
		}
	}
	mark, err := p.begin(ctx)
	if err != nil {
		return err
	}
	at, err := p.save(ctx, d)
	if err != nil {
		return err
	}
	mark.Checkpoint = at.ID
	if err := p.spool.KeepPaused(mark); err != nil {
		return err
	}
	p.result.Checkpoint, p.result.Label = at.ID, cli.Label(at)
	if flags.output != "" {
		if err := p.pack(ctx, d, at); err != nil {
			return err
		}
	}
	return a.Print(p.result, p.write)
}

const pauseThreadOp = "pause thread"

// begin stops the agent. An earlier pause may have stopped it and been killed before it made the
// checkpoint.
func (p *threadPause) begin(ctx context.Context) (mark spool.Paused, err error) {
	mark, wasPaused, err := p.spool.Paused(p.thread)
	if err != nil {
		return mark, err
	}
	runner, runs, err := p.runner(ctx)
	switch {
	case err != nil:
		return mark, err
	case runs:
	case wasPaused && mark.Checkpoint != "":
		return mark, segno.Errorf(segno.KindRefused, pauseThreadOp, string(p.thread), "it is paused already").
			WithHint("run 'segno generations wake " + cli.Short(p.thread) + "' to continue it")
	case wasPaused:
		return mark, nil // the agent has ended; only the checkpoint is missing
	default:
		return mark, segno.Errorf(segno.KindRefused, pauseThreadOp, string(p.thread), "no process of segno runs its agent").
			WithHint("pause stops agents of 'segno acp', 'segno chat' and 'segno agent'; end another one yourself, and run 'segno save'")
	}
	if err := p.check(ctx, runner); err != nil {
		return mark, err
	}
	mark = spool.Paused{Thread: p.thread, Verb: runner.Verb, Command: runner.Command, Time: p.store.Place().Now()}
	if err := p.spool.KeepPaused(mark); err != nil {
		return mark, err
	}
	return mark, p.stop(ctx, runner)
}

// runner returns the process that runs the thread's agent.
func (p *threadPause) runner(ctx context.Context) (spool.Runner, bool, error) {
	all, err := p.spool.Runners(ctx, p.thread)
	if err != nil {
		return spool.Runner{}, false, err
	}
	dir := p.store.Place().Store
	i := slices.IndexFunc(all, func(r spool.Runner) bool { return proc.Alive(r.PID, r.Start) && hasOpenBelow(r.PID, dir) })
	if i < 0 {
		return spool.Runner{}, false, nil
	}
	r := all[i]
	if r.Agent.PID > 1 && proc.Parent(r.Agent.PID) != r.PID {
		r.Agent = spool.Process{} // the id belongs to another process, or the agent has ended
	}
	return r, true, nil
}

// hasOpenBelow reports whether a process has a file below a directory open. A process of segno has a file of its store
// open, so a forged record cannot make pause stop some other process. The result is also true if the system cannot list
// open files, and for a process of another user, which check refuses.
func hasOpenBelow(pid int, dir string) bool {
	if uid, known := ownerOf(pid); known && uid != os.Geteuid() {
		return true
	}
	files, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "fd", "*"))
	if err != nil || len(files) == 0 {
		_, err := os.Stat("/proc/self/fd")
		return err != nil
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(files, func(file string) bool {
		target, err := os.Readlink(file)
		return err == nil && strings.HasPrefix(target, real+string(filepath.Separator))
	})
}

// check refuses a process that must not be stopped.
func (p *threadPause) check(ctx context.Context, r spool.Runner) error {
	if uid, known := ownerOf(r.PID); known && uid != os.Geteuid() {
		return segno.Errorf(segno.KindRefused, pauseThreadOp, string(p.thread), "its agent belongs to another user").WithHint("run the command as that user")
	}
	for _, other := range r.Threads {
		if other == p.thread {
			continue
		}
		held, err := p.store.LeaseOf(ctx, other)
		if err != nil {
			return err
		}
		if held.Owner != "" {
			return segno.Errorf(segno.KindRefused, pauseThreadOp, string(p.thread), "its agent also has a turn of thread %s in progress", cli.Short(other)).
				WithHint("wait for that turn to end")
		}
		p.result.Ended = append(p.result.Ended, other)
	}
	return nil
}

// ownerOf returns the user of a process.
func ownerOf(pid int) (uid int, known bool) {
	info, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
	if err != nil {
		return 0, false
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return int(stat.Uid), true
}

// stop gives the turn some time, and then ends the process of segno, which ends the agent and records the turn. Finally
// it kills both if they still run.
func (p *threadPause) stop(ctx context.Context, r spool.Runner) error {
	isIdle := func() (bool, error) {
		held, err := p.store.LeaseOf(ctx, p.thread)
		return held.Owner == "" || !proc.Alive(r.PID, r.Start), err
	}
	if _, err := waitUntil(ctx, p.flags.grace, isIdle); err != nil {
		return err
	}
	if proc.Alive(r.PID, r.Start) {
		if err := syscall.Kill(r.PID, syscall.SIGTERM); errors.Is(err, syscall.EPERM) {
			return segno.NewError(segno.KindRefused, pauseThreadOp, string(p.thread), err).WithHint("run the command as the user of the agent")
		}
	}
	hasEnded := func() (bool, error) { return !proc.Alive(r.PID, r.Start), nil }
	ended, err := waitUntil(ctx, p.flags.wait, hasEnded)
	if err != nil {
		return err
	}
	if !ended {
		p.result.Killed = true
		_ = syscall.Kill(r.PID, syscall.SIGKILL) // it may have ended
		if ended, err = waitUntil(ctx, killWait, hasEnded); err != nil {
			return err
		}
	}
	if r.Agent.PID > 1 && proc.Alive(r.Agent.PID, r.Agent.Start) {
		_ = syscall.Kill(-r.Agent.PID, syscall.SIGKILL) // it may have ended
		agentEnded := func() (bool, error) { return !proc.Alive(r.Agent.PID, r.Agent.Start), nil }
		gone, err := waitUntil(ctx, killWait, agentEnded)
		if err != nil {
			return err
		}
		ended = ended && gone
	}
	if !ended {
		return segno.Errorf(segno.KindBusy, pauseThreadOp, string(p.thread), "its agent does not end").WithHint("end process " + strconv.Itoa(r.PID) + ", and run the command again")
	}
	return p.spool.RemoveRunner(r.Process)
}

// killWait is the longest time that a process may need to end after SIGKILL.
const killWait = 10 * time.Second

// waitUntil polls is until it returns true, an error occurs or the time is over.
func waitUntil(ctx context.Context, wait time.Duration, is func() (bool, error)) (bool, error) {
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if done, err := is(); done || err != nil {
			return done, err
		}
		select {
		case <-tick.C:
		case <-timeout.C:
			return is()
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// save records the turn if its process could not, and makes a checkpoint of the files. If the directory is at another
// thread, it returns the thread's newest checkpoint instead.
func (p *threadPause) save(ctx context.Context, d *cli.Workspace) (*segno.Checkpoint, error) {
	if err := d.Timeline.CloseAbandonedTurns(ctx); err != nil {
		return nil, err
	}
	if err := d.Timeline.CloseThreadTurns(ctx, p.thread); err != nil {
		return nil, err
	}
	current, err := d.Timeline.CurrentThread(ctx)
	if err != nil {
		return nil, err
	}
	if current == p.thread {
		return d.Timeline.Save(ctx, segno.CheckpointSave, "pause")
	}
	_, c, err := p.CheckpointNamed(ctx, d, "@")
	return c, err
}

// pack writes the checkpoint to an archive.
func (p *threadPause) pack(ctx context.Context, d *cli.Workspace, at *segno.Checkpoint) error {
	path := cli.Absolute(d.Dir, p.flags.output)
	m, err := p.packCheckpoint(ctx, d, at.ID, path)
	if err != nil {
		return segno.NewError(segno.KindOf(err), "", "", err).WithHint("the thread is paused; " + segno.HintOf(err))
	}
	p.result.File, p.result.FileBytes, p.result.Digest = path, segno.PathBytes(path), m.Digest
	return nil
}

func (p *threadPause) write(w *cli.Printer) {
	how := ""
	if p.result.Killed {
		how = ", whose agent had to be killed"
	}
	w.Linef("paused thread %s at %s%s", cli.Short(p.thread), p.result.Label, how)
	for _, other := range p.result.Ended {
		w.Linef("  the agent also served thread %s", cli.Short(other))
	}
	if p.result.File != "" {
		w.Linef("archive %s", cli.QuotePath(p.RelativePath(p.result.File)))
	}
	w.Linef("to continue:\n  segno generations wake %s", cli.Short(p.thread))
}
