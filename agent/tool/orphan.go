package tool

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// orphanGuard kills a command's process group if this process dies before it has done so
// itself, even by SIGKILL. The guard is a small shell in another session. It reads the group's
// number from a pipe and then waits for the end of the pipe. The kernel ends the pipe with the last
// process that holds it open for writing, which is this one.
type orphanGuard struct {
	ctx         context.Context // of the guard and of the command; it does not end
	shell       *exec.Cmd
	read, write *os.File
}

const (
	guardScript = `read -r group && { read -r _; kill -s KILL -- "-$group"; }`
	// guardedScript sends its group to the guard and then runs its arguments. The
	// command ends with this process at whatever moment this process dies.
	guardedScript = `echo $$ >&3; exec 3>&-; exec "$@"`
	// sandboxedScript does the same, and stays the parent of a sandbox until the sandbox ends: a sandbox ends with its parent,
	// and the system takes the end of one thread of this process for that of a parent.
	sandboxedScript = `echo $$ >&3; exec 3>&-; "$@"; exit $?`
)

func newOrphanGuard(ctx context.Context) (*orphanGuard, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("run command: %w", err)
	}
	ctx = context.WithoutCancel(ctx) // the end of a call kills the whole group; see commandResult.wait
	g := &orphanGuard{ctx: ctx, shell: exec.CommandContext(ctx, "sh", "-c", guardScript), read: read, write: write}
	g.shell.Stdin = read
	g.shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := g.shell.Start(); err != nil {
		read.Close()
		write.Close()
		return nil, fmt.Errorf("run command: %w", err)
	}
	return g, nil
}

// command is a command whose process group the guard kills. It must be started as the
// leader of a group.
func (g *orphanGuard) command(args []string, isSandboxed bool) *exec.Cmd {
	script := guardedScript
	if isSandboxed {
		script = sandboxedScript
	}
	cmd := exec.CommandContext(g.ctx, "sh", append([]string{"-c", script, "sh"}, args...)...)
	cmd.ExtraFiles = []*os.File{g.write}
	return cmd
}

// stop ends the guard. The caller has killed the group, or never started it.
func (g *orphanGuard) stop() {
	_ = g.shell.Process.Kill()
	_ = g.shell.Wait() // it was killed
	g.write.Close()
	g.read.Close()
}
