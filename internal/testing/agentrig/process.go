package agentrig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Process is a running agent in a separate process group.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // of Wait; read after exited
}

// command returns a command that runs the agent with args. When the context ends, the agent is
// killed.
func (r *Rig) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, r.Bin, args...)
	cmd.Dir = r.Project
	cmd.Env = append(r.Env(), "PWD="+r.Project)
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	// A tool's child process that outlives the agent keeps its pipes open.
	cmd.WaitDelay = time.Second
	return cmd
}

// start runs cmd as the leader of a new group.
func start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("agentrig: starting the agent: %w", err)
	}
	return watch(cmd), nil
}

func watch(cmd *exec.Cmd) *Process {
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p
}

// PID returns the agent's process id, which is also the id of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends sig only to the agent and not to its group, as a supervisor does.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Kill kills the agent's process group and returns when the agent has exited. Tools run in separate
// groups and survive, as in a crash.
func (p *Process) Kill() error {
	err := killGroup(p.PID())
	<-p.exited
	return err
}

// Exited is closed when the agent has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Wait waits for the end of the agent and returns its exit code, or -1 if a signal ended it.
func (p *Process) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.exited:
	case <-ctx.Done():
		return 0, fmt.Errorf("agentrig: waiting for the agent to exit: %w", ctx.Err())
	}
	var exit *exec.ExitError
	if p.err != nil && !errors.As(p.err, &exit) && !errors.Is(p.err, exec.ErrWaitDelay) {
		return 0, fmt.Errorf("agentrig: waiting for the agent to exit: %w", p.err)
	}
	return p.cmd.ProcessState.ExitCode(), nil
}

func killGroup(id int) error {
	err := syscall.Kill(-id, syscall.SIGKILL)
	if err == syscall.ESRCH {
		return nil // the whole group has ended
	}
	return err
}
