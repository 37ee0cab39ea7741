// Package retryrig tests a promise of package agent to its callers on a store: if a caller
// runs a task, and after any error runs the same input again, the task finishes and each of
// its effects happens once.
//
// The caller is a separate process, which may be killed, too. It works on one task after the
// other until enough faults have happened: the store, the model and the tools fail at random,
// contexts end, models panic, and the caller's process or the store's server is killed. The
// effects are lines of a file, which no fault affects.
package retryrig

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// Store is a store with leases, so that only one run at a time has a thread.
type Store interface {
	segno.Store
	segno.Leaser
}

// Opener opens the store at a place. Every process of a caller calls it. If the store
// supports that, it calls disk before each write to a file; an error of disk stands for one
// of the disk.
type Opener func(ctx context.Context, where string, disk func() error) (Store, error)

// Server is a store's server, which a trial kills and starts again.
type Server interface {
	Kill()
	Restart(ctx context.Context) error
}

// RetryTrial is a test on one store.
type RetryTrial struct {
	Open   string // the name of the opener of [Main] that the callers use
	Where  string
	Server Server // nil if the store has none
	Memory Store  // a store in memory, instead of Open and Where; its caller is never killed
	Faults int    // the least number of faults
}

// Faults returns the number of faults for a test: few by default, and 1,000 if suites are
// tried whole.
func Faults(t testing.TB) int {
	t.Helper()
	return soak.Count(t, 50, 1000)
}

// childArgs is the environment variable that makes a process a caller.
const childArgs = "SEGNO_TEST_CALLER"

// Main runs the caller in a process that a trial started, and then exits. In any other
// process it does nothing. A package with trials calls it first in TestMain.
func Main(openers map[string]Opener) {
	args := os.Getenv(childArgs)
	if args == "" {
		return
	}
	var o order
	err := json.Unmarshal([]byte(args), &o)
	if err == nil {
		c := &caller{order: o, in: bufio.NewReader(os.Stdin), out: os.Stdout}
		err = c.work(context.Background(), openers[o.Open])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// order is the task of a caller process.
type order struct {
	Open, Where string
	Ledger      string // the file of effects
	Task        int    // the first task; an earlier caller may have begun it
	Attempt     int    // the number of callers before this one
	Seed        uint64
	Faults      int  // the number of faults to make before the last task ends
	Kill        bool // the process may kill itself
	Restart     bool // the store's server may be killed
}

// Run makes a trial.
func Run(t *testing.T, trial RetryTrial) {
	t.Helper()
	o := order{Open: trial.Open, Where: trial.Where, Seed: soak.Seed(t), Ledger: filepath.Join(t.TempDir(), "ledger"), Faults: trial.Faults,
		Kill: trial.Memory == nil, Restart: trial.Server != nil}
	x := &examiner{T: t, seed: o.Seed, server: trial.Server, faults: map[string]int{}}
	if trial.Memory != nil {
		in, out := io.Pipe()
		c := &caller{order: o, out: out}
		go func() {
			out.CloseWithError(c.work(t.Context(), func(context.Context, string, func() error) (Store, error) { return notClosed{trial.Memory}, nil }))
		}()
		if err := x.listen(in, io.Discard); err != nil {
			t.Fatal(err)
		}
	} else {
		x.callers(o)
	}
	x.effects(o.Ledger)
	if n := x.made(); n < trial.Faults {
		t.Errorf("%d faults, want %d", n, trial.Faults)
	}
	t.Logf("%d tasks, %d callers, faults %v", x.task+1, x.died+1, x.faults)
}

// notClosed is a store that outlives its caller.
type notClosed struct{ Store }

func (notClosed) Close() error { return nil }

// examiner reads the reports of the callers and checks their results.
type examiner struct {
	*testing.T
	seed   uint64
	server Server
	faults map[string]int
	task   int // the newest
	died   int // the number of callers that were killed
}

func (x *examiner) made() (n int) {
	for _, some := range x.faults {
		n += some
	}
	return n
}

// callers starts a caller, and another one each time a caller is killed.
func (x *examiner) callers(o order) {
	x.Helper()
	for total := o.Faults; ; o.Task, o.Attempt, o.Faults = x.task, x.died, max(0, total-x.made()) {
		args, err := json.Marshal(o)
		if err != nil {
			x.Fatal(err)
		}
		var said strings.Builder
		switch killed, err := x.caller(string(args), &said); {
		case err != nil:
			x.Fatalf("%v: %s", err, said.String())
		case !killed:
			return
		}
		x.died++
	}
}

// caller runs one caller and reports whether it was killed.
func (x *examiner) caller(args string, said io.Writer) (killed bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(x.Context(), self)
	cmd.Env, cmd.Stderr = append(os.Environ(), childArgs+"="+args), said
	in, err := cmd.StdinPipe()
	if err != nil {
		return false, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	heard := x.listen(out, in)
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true, heard
	}
	return false, errors.Join(err, heard)
}

// listen reads a caller's reports until it ends.
func (x *examiner) listen(from io.Reader, to io.Writer) error {
	for lines := bufio.NewScanner(from); ; {
		if !lines.Scan() {
			return lines.Err()
		}
		what, text, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case reportTask:
			if _, err := fmt.Sscan(text, &x.task); err != nil {
				return err
			}
		case reportFault:
			x.faults[text]++
		case reportWrong:
			x.Errorf("task %d: %s", x.task, text)
		case reportKill:
			x.server.Kill()
			if _, err := fmt.Fprintln(to, "killed"); err != nil && !errors.Is(err, syscall.EPIPE) { // the caller may have killed itself meanwhile
				return err
			}
			if err := x.server.Restart(x.Context()); err != nil {
				return err
			}
		default:
			return fmt.Errorf("a caller reports %q", lines.Text())
		}
	}
}

// effects compares the effects of the tasks with the expected ones.
func (x *examiner) effects(file string) {
	x.Helper()
	paid, err := readLedger(file)
	if err != nil {
		x.Fatal(err)
	}
	for n := range x.task + 1 {
		want := newTask(x.seed, n).bills()
		if got := slices.Sorted(slices.Values(paid[n])); !slices.Equal(got, want) {
			x.Errorf("task %d paid %q, want %q", n, got, want)
		}
	}
}
