// Package supervise runs commands that end with the process that started them, even if that process
// is killed.
package supervise

import (
	"context"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// script runs a command and kills its process group as soon as standard input ends. The owner
// holds the other end of this pipe, so the command ends even if the owner is killed.
//
// A SIGTERM to the group must not end the shell before the command, which may take its time.
//
// There are two watchers, so that the command still ends with its owner if one of them is killed.
//
// File descriptor 3 is Options.Hold, which the command does not inherit.
const script = `exec 4<&0
"$@" 3<&- 4<&- </dev/null & command=$!
for watcher in 1 2; do
	{ trap '' TERM; read -r _ <&4; kill -KILL 0; } >/dev/null 2>&1 &
done
trap : TERM
wait $command; status=$?
while kill -0 $command 2>/dev/null; do wait $command; status=$?; done
exit $status`

// Group is a process group with one command.
type Group struct {
	// Gone is closed when the command has ended and its group was killed.
	Gone <-chan struct{}

	cmd   *exec.Cmd
	owned io.Closer // when it is closed, even by the end of this process, the watchers kill the group
}

// Options configures the environment of a command.
type Options struct {
	Dir    string
	Env    []string  // the complete environment
	Output io.Writer // receives both streams; nil discards them
	// Hold, if not nil, stays open until the group has ended, even if the owner is killed. A lock on
	// it therefore lasts as long as the group.
	Hold *os.File
}

// Start starts a command in a new process group. Its standard input is empty.
func Start(ctx context.Context, argv []string, o Options) (*Group, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	gone := make(chan struct{})
	g := &Group{Gone: gone, owned: write}
	g.cmd = exec.CommandContext(context.WithoutCancel(ctx), "sh", append([]string{"-c", script, "sh"}, argv...)...)
	g.cmd.Dir, g.cmd.Env, g.cmd.Stdin = o.Dir, o.Env, read
	if o.Hold != nil {
		g.cmd.ExtraFiles = []*os.File{o.Hold}
	}
	if o.Output != nil {
		g.cmd.Stdout, g.cmd.Stderr = o.Output, o.Output
	}
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	g.cmd.WaitDelay = time.Second
	if err := g.cmd.Start(); err != nil {
		write.Close()
		return nil, err
	}
	go func() {
		_ = g.cmd.Wait() // the exit status is in ProcessState
		_ = syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL)
		g.owned.Close()
		close(gone)
	}()
	return g, nil
}

// PID returns the process id of the group.
func (g *Group) PID() int { return g.cmd.Process.Pid }

// State returns the exit state of the command. The caller must wait for Gone first.
func (g *Group) State() *os.ProcessState { return g.cmd.ProcessState }

// Signal sends a signal to all processes of the group, if the command still runs.
func (g *Group) Signal(s syscall.Signal) {
	select {
	case <-g.Gone: // the system may have given the group id to another group
	default:
		_ = syscall.Kill(-g.cmd.Process.Pid, s)
	}
}

// Kill kills the group and returns when the command has ended.
func (g *Group) Kill() {
	g.Signal(syscall.SIGKILL)
	<-g.Gone
}

// Stop asks the group to end, and kills it after grace.
func (g *Group) Stop(grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	g.Signal(syscall.SIGTERM)
	select {
	case <-g.Gone:
	case <-timer.C:
		g.Kill()
	}
}
