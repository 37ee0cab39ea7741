package bisect

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/worlds/supervise"
	"github.com/dalsegno/segno/workspace"
)

// Tester runs a command on states of the files, in one scratch copy for each worker.
type Tester struct {
	Args   []string // one argument is a command for sh; several are a program and its arguments
	Below  string   // the directory of the command, relative to the root
	Env    []string
	States []Candidate
	Hold   *os.File // see [supervise.Options]
	// Allow, if not nil, returns an error if the user has not trusted a checkpoint's files. Test then returns that error.
	Allow func(ctx context.Context, x *segno.Checkpoint) error
	// Open makes a scratch copy. It is not called concurrently.
	Open func(ctx context.Context) (*workspace.Scratch, error)
	// Scratch has the copy of each worker, or nil until the worker needs one.
	Scratch []*workspace.Scratch

	opening sync.Mutex
}

// The exit codes with a meaning, as in git bisect run.
const (
	codeSkip = 125
	maxCode  = 127
)

// Test runs the command on a state. It implements Test of a [Runner].
func (t *Tester) Test(ctx context.Context, worker, state int) (Result, error) {
	c := &t.States[state]
	if c.Missing != "" {
		return Result{Verdict: Skip, Code: -1, Why: c.Missing}, nil
	}
	if t.Allow != nil {
		if err := t.Allow(ctx, c.Checkpoint); err != nil {
			return Result{}, err
		}
	}
	scratch, err := t.worker(ctx, worker)
	if err != nil {
		return Result{}, err
	}
	missing, err := scratch.Reset(ctx, *c.Checkpoint.Workspace)
	if err != nil {
		return Result{}, err
	}
	if len(missing) > 0 {
		return Result{Verdict: Skip, Code: -1, Why: WhyMissing(missing)}, nil
	}
	dir := filepath.Join(scratch.Root(), t.Below)
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		return Result{Verdict: Skip, Code: -1, Why: "there is no directory " + segno.QuotePath(t.Below)}, nil
	}
	r, err := t.run(ctx, scratch.Root(), dir)
	if err == nil && (r.Code < 0 || r.Code > maxCode) {
		err = &AbortError{state, r}
	}
	return r, err
}

// AbortError is the error of a command that ended with a code above 127, as after a signal. It ends the bisect without a
// verdict, as in git.
type AbortError struct {
	State int
	Result
}

func (e *AbortError) Error() string { return fmt.Sprintf("the command ended with code %d", e.Code) }

// WhyMissing describes why a scratch copy cannot have the files of a checkpoint.
func WhyMissing(missing []segno.Conflict) string {
	return segno.QuotePath(missing[0].Path) + " cannot be restored: " + missing[0].Why
}

// worker returns the scratch copy of a worker, and makes it first if necessary.
func (t *Tester) worker(ctx context.Context, worker int) (*workspace.Scratch, error) {
	if t.Scratch[worker] != nil {
		return t.Scratch[worker], nil
	}
	t.opening.Lock()
	defer t.opening.Unlock()
	s, err := t.Open(ctx)
	t.Scratch[worker] = s
	return s, err
}

// run runs the command and kills the processes that it leaves: a server with the files of this state would answer in the next
// test.
func (t *Tester) run(ctx context.Context, root, dir string) (Result, error) {
	argv := t.Args
	if len(argv) == 1 {
		argv = []string{"sh", "-c", argv[0]}
	}
	var out tail
	env := append(slices.Clone(t.Env), "PWD="+dir, scratchVariable+"="+root)
	started := time.Now()
	g, err := supervise.Start(ctx, argv, supervise.Options{Dir: dir, Env: env, Output: &out, Hold: t.Hold})
	if err != nil {
		return Result{}, segno.NewError(segno.KindIO, "run command", strings.Join(t.Args, " "), err)
	}
	defer supervise.KillWith(scratchVariable + "=" + root) // those that left the group
	select {
	case <-g.Gone:
	case <-ctx.Done():
		g.Kill()
		return Result{}, ctx.Err()
	}
	r := Result{Verdict: Good, Code: g.State().ExitCode(), Took: time.Since(started), Output: string(out)}
	switch {
	case r.Code == codeSkip:
		r.Verdict = Skip
	case r.Code != 0:
		r.Verdict = Bad
	}
	return r, nil
}

// tail keeps the end of what a command prints.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	*t = append(*t, p...)
	if over := len(*t) - most; over > 0 {
		*t = slices.Delete(*t, 0, over)
	}
	return len(p), nil
}
