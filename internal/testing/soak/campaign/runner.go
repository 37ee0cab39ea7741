package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/vfs"
)

// runner runs campaigns of a checkout.
type runner struct {
	source
	options
	all      []campaign
	dir      string    // the directory of the outputs, and of what fuzzers found
	states   string    // the directory of the states
	deadline time.Time // no part begins after it; zero for none
	out      io.Writer

	mu      sync.Mutex // guards the fields below, and out
	state   *state
	running []string
}

// campaign runs the missing parts of a campaign, and returns its state.
func (r *runner) campaign(ctx context.Context, c campaign) (*state, error) {
	for _, dir := range []string{r.dir, r.states} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	unlock, err := r.lock(ctx, c.name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := r.begin(ctx, c); err != nil {
		return nil, err
	}
	scratch, temp, err := r.scratch(c)
	if err != nil {
		return nil, err
	}
	defer removeAll(scratch)
	defer removeAll(temp)
	packages, err := allTests(ctx, r.root)
	if err != nil {
		return nil, err
	}
	all, err := plan(r.all, c, packages, r.state.Seed)
	if err != nil {
		return nil, err
	}
	planned := map[string]bool{}
	for _, p := range all {
		planned[p.name()] = true
	}
	r.state.drop(func(done result) bool { return !planned[done.Part] }) // tests that were removed or renamed
	r.state.Planned = len(all)
	if err := r.state.write(r.states); err != nil {
		return nil, err
	}
	missing := slices.DeleteFunc(all, func(p part) bool {
		done, ok := r.state.Parts[p.name()]
		return ok && (done.OK || !r.retry)
	})
	r.say("%s: %d of %d parts to run, seed %d, commit %s", c.name, len(missing), r.state.Planned, r.state.Seed, r.commit)
	b := newBinaries(r.root, scratch, temp, missing)
	for _, p := range missing {
		if p.suite.race && !b.hasCompiler(ctx) {
			r.say("%s: %s runs without the race detector, which needs a C compiler", c.name, p.name())
		}
	}
	if err := r.runAll(ctx, c, missing, b); err != nil && ctx.Err() == nil {
		return nil, err
	}
	r.say("%s", summary(r.state))
	return r.state, report(r.all, r.root, r.states)
}

// lock keeps other processes from the campaign until unlock is called.
func (r *runner) lock(ctx context.Context, name string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(r.dir, name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := vfs.Lock(ctx, f, 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("another process runs this campaign: %w", err)
	}
	return func() { f.Close() }, nil
}

// begin reads the state of the campaign and removes the parts that it must run again. It makes a new state if no part is left.
func (r *runner) begin(ctx context.Context, c campaign) error {
	s, err := readState(r.states, c.name)
	if err != nil {
		return err
	}
	switch {
	case s == nil:
	case r.seed != 0 && r.seed != s.Seed:
		r.say("%s: begins with the seed %d; it had %d", c.name, r.seed, s.Seed)
		s = nil
	case r.keep:
		r.say("%s: continues parts of %s", c.name, strings.Join(s.Commits, ", "))
	default:
		n := len(s.Parts)
		if err := r.dropChanged(ctx, s); err != nil {
			return err
		}
		if n != len(s.Parts) {
			r.say("%s: runs %d of its %d parts again, because sources of their tests have changed", c.name, n-len(s.Parts), n)
		}
		if len(s.Parts) == 0 {
			s = nil
		}
	}
	if s == nil {
		s = &state{Campaign: c.name, Seed: r.newSeed(), Parts: map[string]result{}}
		if err := os.RemoveAll(filepath.Join(r.dir, c.name)); err != nil {
			return err
		}
	}
	r.state, r.running = s, nil
	return nil
}

// dropChanged removes each part that ran on a commit with another program.
func (r *runner) dropChanged(ctx context.Context, s *state) error {
	programs, err := allPrograms(ctx, r.root)
	if err != nil {
		return err
	}
	files := map[string][]string{} // by the commit
	s.drop(func(p result) bool {
		if p.Commit == r.commit {
			return false
		}
		changed, known := files[p.Commit]
		if !known {
			var err error
			if changed, err = r.changedSince(ctx, p.Commit); err != nil {
				changed = []string{"go.mod"} // git does not have the commit, or it had changes that were not committed
			}
			files[p.Commit] = changed
		}
		program := programs[p.pkg()]
		return program == nil || slices.ContainsFunc(changed, func(file string) bool { return program.isOf(file, p.test()) })
	})
	return nil
}

// scratch makes the directories for test binaries and for the temporary files of tests. It removes the directories that
// a killed run of the campaign left.
func (r *runner) scratch(c campaign) (binaries, temp string, err error) {
	file := filepath.Join(r.dir, c.name+".scratch")
	left, _ := os.ReadFile(file) // there is none before the first run
	for dir := range strings.Lines(string(left)) {
		if dir = strings.TrimSpace(dir); strings.HasPrefix(filepath.Base(dir), scratchName) {
			removeAll(dir)
		}
	}
	where := ""
	if c.where == memory {
		where = memdir.Path()
	}
	if binaries, err = tempDir("", scratchName); err == nil {
		temp, err = tempDir(where, scratchName)
	}
	if err == nil {
		err = os.WriteFile(file, []byte(binaries+"\n"+temp+"\n"), 0o600)
	}
	return binaries, temp, err
}

// scratchName begins the names of temporary directories. It is without the word segno, because tests check that no agent
// sees it, and agents see paths.
const scratchName = "soak-campaign-"

// runAll runs parts, as many at once as the campaign allows.
func (r *runner) runAll(ctx context.Context, c campaign, missing []part, b *binaries) error {
	ctx, stop := context.WithCancel(ctx)
	beat := make(chan struct{})
	go func() {
		defer close(beat)
		r.heartbeat(ctx, c.name)
	}()
	defer func() {
		stop()
		<-beat
	}()
	next := make(chan part)
	errs := make(chan error)
	workers := min(max(1, c.atOnce), max(1, len(missing)))
	for range workers {
		go func() {
			var err error
			for p := range next {
				if r.isOver() {
					continue
				}
				if e := r.part(ctx, c, p, b); e != nil {
					err = errors.Join(err, e)
					stop() // the state could not be written
				}
			}
			errs <- err
		}()
	}
	for _, p := range missing {
		if ctx.Err() != nil || r.isOver() {
			break
		}
		select {
		case next <- p:
		case <-ctx.Done():
		}
	}
	close(next)
	var all error
	for range workers {
		all = errors.Join(all, <-errs)
	}
	return all
}

// isOver reports whether no more parts begin.
func (r *runner) isOver() bool { return !r.deadline.IsZero() && time.Now().After(r.deadline) }

// heartbeat prints each minute which parts run.
func (r *runner) heartbeat(ctx context.Context, name string) {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.mu.Lock()
			running := strings.Join(r.running, ", ")
			done := len(r.state.Parts)
			r.mu.Unlock()
			r.say("%s %d/%d runs %s", name, done, r.state.Planned, running)
		}
	}
}

// part runs a part and writes its result into the state. A part that the context stops has no result.
func (r *runner) part(ctx context.Context, c campaign, p part, b *binaries) error {
	r.mu.Lock()
	r.running = append(r.running, p.name())
	r.mu.Unlock()
	outputs := filepath.Join(r.dir, c.name)
	temp, err := tempDir(b.temp, "")
	if err == nil {
		err = os.MkdirAll(outputs, 0o755)
	}
	if err != nil {
		return err
	}
	defer removeAll(temp)
	binary, done, err := b.build(ctx, p)
	if err != nil {
		return err
	}
	defer done()
	file := filepath.Join(outputs, p.file()+".log")
	begun := time.Now()
	runErr := start(ctx, command{binary: binary, args: p.args(filepath.Join(r.dir, "fuzz")), env: p.env(), dir: filepath.Join(r.root, p.pkg), temp: temp}, file)
	if ctx.Err() != nil {
		return os.Remove(file)
	}
	res, why, err := judge(file, runErr)
	if err != nil {
		return err
	}
	res.Part, res.Commit = p.name(), r.commit
	res.Seconds = time.Since(begun).Round(time.Millisecond).Seconds()
	r.mu.Lock()
	r.running = slices.DeleteFunc(r.running, func(name string) bool { return name == p.name() })
	before := r.state.Parts[p.name()]
	res.Failed = before.Failed
	res.Output, res.Repeat = before.Output, before.Repeat
	if !res.OK {
		res.Failed++
		kept := fmt.Sprintf("%s.%d.log", p.file(), res.Failed)
		res.Output, res.Repeat = filepath.Join(c.name, kept), p.repeat()
		err = os.Rename(file, filepath.Join(outputs, kept))
	} else {
		err = os.Remove(file)
	}
	r.state.set(res)
	err = errors.Join(err, r.state.write(r.states))
	n := len(r.state.Parts)
	r.mu.Unlock()
	r.sayResult(c, p, res, why, n)
	return err
}

func (r *runner) sayResult(c campaign, p part, done result, why string, n int) {
	verdict := "ok    "
	if !done.OK {
		verdict = "FAILED"
	}
	line := fmt.Sprintf("%s %d/%d %s %s, %d tests", c.name, n, r.state.Planned, verdict, p.name(), done.Tests)
	if done.Cases > 0 {
		line += fmt.Sprintf(", %d cases", done.Cases)
	}
	r.say("%s, %s", line, time.Duration(done.Seconds*float64(time.Second)).Round(time.Second))
	if !done.OK {
		r.say("  %s\n  output: %s\n  repeat: %s", why, filepath.Join("build", "soak", done.Output), done.Repeat)
	}
}

func (r *runner) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format+"\n", args...)
}

// tempDir makes a directory that other users can enter, because in tests by root, PostgreSQL runs as another user.
func tempDir(below, pattern string) (string, error) {
	dir, err := os.MkdirTemp(below, pattern)
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711)
}

// removeAll removes a directory, even if a test left read-only directories in it.
func removeAll(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir) // the directory of all parts is removed later
}
