package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dalsegno/segno/agent"
)

// ExecuteOptions configure [Execute]. The zero value is valid.
type ExecuteOptions struct {
	// Env is the whole environment of a command, as NAME=value. nil is this process's environment
	// without the variables whose names contain KEY, TOKEN, SECRET, PASSW or CREDENTIAL. For a command in
	// a sandbox or of another user, nil is only what programs need: PATH, HOME, the language and the time zone.
	Env []string
	// Sandbox confines commands; nil is [None].
	Sandbox Sandbox
	// User runs the commands as another user, which only root may; nil is the user of this process. The user
	// needs access to the directory.
	User *User
	// Limits are limits on what a command uses.
	Limits Limits
	// Timeout is the default time limit of a command; 0 is two minutes.
	Timeout time.Duration
	// MaxTimeout is the longest limit that a call may set; 0 is an hour.
	MaxTimeout time.Duration
	// Output is the number of bytes kept of a command's output, half of them from its beginning
	// and half from its end; 0 is 256 KB.
	Output int
}

func (o ExecuteOptions) withDefaults() ExecuteOptions {
	if o.Sandbox == nil {
		o.Sandbox = None{}
	}
	switch {
	case o.Env != nil:
	case o.isSandboxed():
		o.Env = defaultSandboxEnv()
	case o.User != nil:
		o.Env = append(slices.DeleteFunc(defaultSandboxEnv(), func(v string) bool { return strings.HasPrefix(v, "HOME=") }), "HOME="+o.User.Home, "USER="+o.User.Name)
	default:
		o.Env = withoutSecrets(os.Environ())
	}
	o.MaxTimeout = cmp.Or(o.MaxTimeout, time.Hour)
	o.Timeout = cmp.Or(o.Timeout, min(2*time.Minute, o.MaxTimeout))
	o.Output = cmp.Or(o.Output, 256<<10)
	return o
}

func (o ExecuteOptions) isSandboxed() bool {
	_, none := o.Sandbox.(None)
	return !none
}

// describeSandbox returns a sentence for the model, which otherwise would not know why a command fails.
func (o ExecuteOptions) describeSandbox() string {
	if !o.isSandboxed() {
		return ""
	}
	return " It runs in the sandbox " + o.Sandbox.String() + ": it can change the working directory only, and has no network unless the sandbox's name says so."
}

// Check returns an error with [segno.KindRefused] if commands cannot run in the sandbox or as the user. A program calls it
// before it starts an agent; otherwise each command fails with the same error.
func (o ExecuteOptions) Check(ctx context.Context) error {
	if err := o.User.check(); err != nil {
		return err
	}
	return o.withDefaults().Sandbox.Check(ctx)
}

func withoutSecrets(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(v), "=")
		return slices.ContainsFunc([]string{"KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL"}, func(word string) bool {
			return strings.Contains(name, word)
		})
	})
}

type executeArgs struct {
	Command string  `json:"command" jsonschema:"for sh -c"`
	Timeout float64 `json:"timeout_seconds,omitempty" jsonschema:"after how many seconds to stop it, if the command needs more time or less"`
}

// Execute returns a tool that runs shell commands in a directory. Without a sandbox, require approval, or
// run the agent where they can do no harm. A command and the processes in
// its group end with the call, with its time limit, with the run's context, and with this
// process, even if it is killed. A call with a lost result runs again only after approval.
func Execute(dir string, o ExecuteOptions) agent.Tool {
	o = o.withDefaults()
	return agent.NewTool("execute", fmt.Sprintf("Runs a shell command in the working directory and returns what it prints, and its exit code. "+
		"There is no input and no terminal. It is stopped after %v, or after timeout_seconds; "+
		"background processes are stopped when it ends.%s", o.Timeout, o.describeSandbox()),
		agent.LostAsk, func(ctx context.Context, inv *agent.Invocation, args executeArgs) (agent.Result, error) {
			if strings.TrimSpace(args.Command) == "" {
				return agent.Result{}, errors.New("no command to run")
			}
			timeout, err := o.timeout(args.Timeout)
			if err != nil {
				return agent.Result{}, err
			}
			emit(inv, agent.Event{Kind: eventExecStart, Text: args.Command})
			r, err := o.run(ctx, dir, args.Command, timeout)
			if err != nil {
				return agent.Result{}, err
			}
			emit(inv, agent.Event{Kind: EventExecFinish, Text: args.Command, Code: &r.code})
			return agent.Result{Text: r.text(timeout), Error: r.code != 0}, nil
		})
}

func (o ExecuteOptions) timeout(seconds float64) (time.Duration, error) {
	if seconds == 0 {
		return o.Timeout, nil
	}
	if seconds < 0 || seconds > o.MaxTimeout.Seconds() {
		return 0, fmt.Errorf("timeout_seconds %v: use more than 0 and at most %v", seconds, o.MaxTimeout.Seconds())
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

type commandResult struct {
	output     string
	code       int
	timedOut   bool
	stopped    bool // the run was cancelled
	killedRest bool // processes of its group were still running
}

const (
	timedOutCode = 124         // as timeout(1) returns
	drain        = time.Second // for output of processes that left the group
)

func (r *commandResult) text(timeout time.Duration) string {
	var b strings.Builder
	if b.WriteString(r.output); r.output == "" {
		b.WriteString("(no output)\n")
	} else if !strings.HasSuffix(r.output, "\n") {
		b.WriteString("\n")
	}
	switch {
	case r.timedOut:
		fmt.Fprintf(&b, "timed out after %v and was stopped with its child processes: set a longer timeout_seconds\n", timeout)
	case r.stopped:
		b.WriteString("stopped with its child processes: the run was cancelled\n")
	case r.killedRest:
		b.WriteString("(background processes of the command were stopped)\n")
	}
	fmt.Fprintf(&b, "exit code %d", r.code)
	return b.String()
}

// run runs a command and ends its process group.
func (o ExecuteOptions) run(ctx context.Context, dir, command string, timeout time.Duration) (*commandResult, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("run command: %w", err)
	}
	defer out.Close()
	defer in.Close()
	process, err := o.prepare(dir, command)
	if err != nil {
		return nil, err
	}
	if process.Release != nil {
		defer process.Release()
	}
	guard, err := newOrphanGuard(ctx)
	if err != nil {
		return nil, err
	}
	defer guard.stop()
	cmd := guard.command(process.Args, o.isSandboxed())
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, o.Env, in, in
	// A new session has no terminal, so a command cannot write over a question there.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if u := process.User; u != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID}
	}
	err = cmd.Start()
	in.Close()
	if err != nil {
		return nil, fmt.Errorf("run command: %w", err)
	}
	kept := &headTail{each: o.Output / 2}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(kept, out) // ends with the pipe or its deadline
	}()
	r := &commandResult{}
	r.wait(ctx, cmd, timeout)
	if late := out.SetReadDeadline(time.Now().Add(drain)); late != nil {
		out.Close()
	}
	<-drained
	r.output = kept.String()
	return r, nil
}

// prepare returns how to run a command in the sandbox.
func (o ExecuteOptions) prepare(dir, command string) (*Process, error) {
	if err := o.User.check(); err != nil {
		return nil, err
	}
	real, err := filepath.Abs(dir)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return nil, fmt.Errorf("run command: %w", err)
	}
	return o.Sandbox.Prepare(Command{Dir: real, Args: o.Limits.args(command, o.isSandboxed()), Env: o.Env, User: o.User})
}

// wait returns when the shell has ended and its group was killed.
func (r *commandResult) wait(ctx context.Context, cmd *exec.Cmd, timeout time.Duration) {
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // ProcessState has the result
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-exited:
	case <-timer.C:
		r.timedOut = true
	case <-ctx.Done():
		r.stopped = true
	}
	r.killedRest = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) == nil
	<-exited
	switch status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus); {
	case r.timedOut:
		r.code = timedOutCode
	case status.Signaled():
		r.code = 128 + int(status.Signal()) // as a shell returns
	default:
		r.code = status.ExitStatus()
	}
}
