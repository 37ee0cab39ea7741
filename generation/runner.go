package generation

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/world"
)

// World is the process of a world.
type World interface {
	segno.World
	URL() string // the address of its API, for agents
	Port() int   // the port in URL
	PID() int
	Close() error
}

// WorldStart describes how to start a world.
type WorldStart struct {
	Document []byte    // to begin with; nil begins at time 0
	Path     string    // a file for Document, in the directory of the run
	Port     int       // the API's port if it is free; 0 is any
	Log      io.Writer // receives the world's output
	Hold     *os.File  // stays open until the world has ended, even if this process is killed
}

// Config contains the parts of a [Runner]. Every and the fields below it may be zero.
type Config struct {
	Experiment *Experiment
	Out        string // the directory of the runs
	// Start starts the world of the experiment.
	Start func(ctx context.Context, s WorldStart) (World, error)
	// Story, if not nil, returns a new story of the world of one run, for people.
	Story func() world.Story
	Kinds map[string]Kind
	Store segno.Store
	// Open returns the timeline of an agent's workspace.
	Open func(ctx context.Context, dir string) (*timeline.Timeline, error)
	// OpenHome, if not nil, returns the timeline of an agent's home. It saves all files except exclude.
	OpenHome func(ctx context.Context, dir string, exclude []string) (*timeline.Timeline, error)
	Temp     string // for temporary files, where agents do not look
	// Write are the options of all archives.
	Write archive.WriteOptions
	// Ours reports whether an archive with a digest was written here. Trust also accepts other archives.
	Ours  func(digest string) bool
	Trust bool

	Every        time.Duration // time between two checkpoints; 0 makes none
	Keep         int           // how many newest checkpoints to keep; the last one of each generation is kept, too
	Retries      int           // limit for all generations together
	NoAutoResume bool          // begins a generation that failed from its template
	ResumeFrom   string        // an archive, or ""

	// Grace is how long agents may take to finish their turns after the end of the context; 0 is 10 seconds. After
	// that they are frozen, and the checkpoint is of a moment within their turns.
	Grace  time.Duration
	Report func(Event) // is called by one goroutine at a time
	FS     vfs.FS
	Now    func() time.Time
}

// Runner runs one experiment.
type Runner struct {
	Config
	dir     string   // directory of the experiment: chain, pointer, status, lock
	locked  *os.File // the lock, which agents and the world hold, too
	key     []byte   // from which the agents' sessions in the world are derived
	status  Status
	retries int    // retries that are left
	paused  string // the run that was paused and did not go on yet, or ""
	// reported are the files with a secret that an event has named.
	reported []string
	bases    map[string]string // for the path of an archive, that of its base, or "" if it is full
}

// New returns a runner.
func New(c Config) *Runner {
	if c.FS == nil {
		c.FS = vfs.OS
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Grace == 0 {
		c.Grace = 10 * time.Second
	}
	if c.Report == nil {
		c.Report = func(Event) {}
	}
	return &Runner{Config: c, dir: filepath.Join(c.Out, c.Experiment.Name), retries: c.Retries, bases: map[string]string{}}
}

// ErrStopped is the error of a run that was stopped. Another Run continues it.
var ErrStopped = errors.New("stopped; run the same command again to continue")

// Run runs the generations that are not complete yet, until ctx ends. It retries a failed generation from its
// newest checkpoint that verifies. At the end of ctx, the runner makes a checkpoint and returns [ErrStopped].
// If checkpoints fail, the experiment continues, and the error of Run finally counts them.
func (r *Runner) Run(ctx context.Context) error {
	if err := vfs.MkdirAllSynced(r.FS, r.dir); err != nil {
		return segno.NewError(segno.KindIO, "run experiment", r.dir, err)
	}
	unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := r.readKey(); err != nil {
		return err
	}
	if err := r.recordRunner(); err != nil {
		return err
	}
	if err := r.checkPaused(); err != nil {
		return err
	}
	if err := r.updateChain(); err != nil {
		return err
	}
	ctx, cancel := r.watchPause(ctx)
	defer cancel()
	if err := r.runAll(ctx); err != nil {
		return err
	}
	r.event(Event{Kind: EventDone})
	failures, omitted := r.status.CheckpointFailures, r.status.SessionsOmitted
	if failures == 0 && omitted == 0 {
		return nil
	}
	return segno.Errorf(segno.KindIO, "run experiment", r.Experiment.Name,
		"all generations are complete; failed checkpoints: %d; checkpoints without a conversation because of a secret: %d", failures, omitted).
		WithHint("see 'segno generations status'")
}

func (r *Runner) runAll(ctx context.Context) error {
	first, err := r.next()
	if err != nil {
		return err
	}
	var from *savedRun
	if r.ResumeFrom != "" {
		if from, err = r.openSaved(ctx, r.ResumeFrom); err != nil {
			return err
		}
		first = from.caller.Generation
		if err := r.setAside(from); err != nil {
			return errors.Join(err, from.Close())
		}
	}
	for g := first; g <= r.Experiment.Generations; g++ {
		if err := r.generation(ctx, g, from); err != nil {
			return err
		}
		from = nil
	}
	return nil
}

// generation runs one generation to its end. from is the checkpoint to begin with, or nil.
func (r *Runner) generation(ctx context.Context, g int, from *savedRun) error {
	for {
		if ctx.Err() != nil {
			return r.stopped(g, nil)
		}
		a, err := r.prepare(ctx, g, from)
		if err == nil {
			err = a.run(ctx)
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			if a != nil {
				_ = a.record(runStopped) // without it, the row would count as failed
			}
			return r.stopped(g, a.cutError())
		}
		if a != nil {
			_ = errors.Join(a.record(runFailed), r.updateChain()) // the next attempt completes what is missing
		}
		r.event(Event{Kind: EventFailed, Generation: g, Run: r.runID(g), Error: err.Error()})
		if r.retries <= 0 || !mayRetry(err) {
			r.setState(StateFailed, err.Error())
			hint := "run the same command again to continue from the newest checkpoint"
			if !mayRetry(err) {
				hint = cmp.Or(segno.HintOf(err), hint)
			}
			return segno.NewError(segno.KindOf(err), "run generation", fmt.Sprintf("%d of %s", g, r.Experiment.Name), err).WithHint(hint)
		}
		r.retries--
		r.status.Retries++
		from = nil
	}
}

// stopped returns the error of a run that a signal ended. cut is the error of its checkpoint, or nil.
func (r *Runner) stopped(g int, cut error) error {
	state := StateStopped
	if _, is := r.pauseRequested(); is && cut == nil {
		state = StatePaused
	}
	r.setState(state, "")
	r.event(Event{Kind: EventStopped, Generation: g, Run: r.runID(g)})
	return segno.NewError(segno.KindCancelled, "run experiment", r.Experiment.Name, errors.Join(ErrStopped, cut))
}

// mayRetry reports whether another try may succeed.
func mayRetry(err error) bool {
	switch segno.KindOf(err) {
	case segno.KindInvalid, segno.KindRefused, segno.KindConflict:
		return false
	}
	return true
}

// runID returns the name of the run of a generation. A repeated run has the same name, because agents see it in
// the path of their workspace.
func (r *Runner) runID(g int) string { return fmt.Sprintf("%s-g%03d", r.Experiment.Name, g) }

func (r *Runner) runDir(g int) string { return filepath.Join(r.Out, r.runID(g)) }

func (r *Runner) event(e Event) {
	e.Time, e.Experiment = r.Now().UTC(), r.Experiment.Name
	r.Report(e)
}

// lockWait is how long the agents and the world of a killed runner may take to end.
const lockWait = 2 * time.Second

// lock makes this process the only runner of the experiment. The processes that it starts hold the lock, too, so
// that no agent of a killed runner acts in the world of the next one.
func (r *Runner) lock(ctx context.Context) (unlock func(), err error) {
	name := filepath.Join(r.dir, lockFile)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600) // it has no content
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "lock experiment", name, err)
	}
	r.locked = f
	if err := vfs.Lock(ctx, f, lockWait); err != nil {
		err = errors.Join(err, f.Close())
		if errors.Is(err, vfs.ErrLocked) {
			return nil, segno.Errorf(segno.KindBusy, "run experiment", r.Experiment.Name, "another runner has it").
				WithHint("wait for it, or use another directory with --out")
		}
		return nil, segno.NewError(segno.KindIO, "lock experiment", name, err)
	}
	return func() { _ = errors.Join(vfs.Unlock(f), f.Close()) }, nil // all processes were killed, and nothing was written
}

const (
	keyFile  = "key"
	lockFile = "lock"
)

// readKey reads the key of the experiment. If there is none, it creates one.
func (r *Runner) readKey() (err error) {
	name := filepath.Join(r.dir, keyFile)
	r.key, err = os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		r.key = []byte(rand.Text())
		err = vfs.Replace(r.FS, name, r.key, 0o600)
	}
	if err != nil {
		return segno.NewError(segno.KindIO, "read key", name, err)
	}
	return nil
}
