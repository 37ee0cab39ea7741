package tool

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
)

// Sandbox confines the commands that tools run: [None], [Bubblewrap] or [Runsc].
type Sandbox interface {
	// String is the name that [ParseSandbox] reads.
	String() string
	// Check returns an error with [segno.KindRefused] if this machine cannot run commands in the sandbox.
	Check(ctx context.Context) error
	// Prepare returns how to run a command in the sandbox. It changes nothing outside of a temporary directory.
	Prepare(c Command) (*Process, error)
}

// Command is a command for a sandbox.
type Command struct {
	Dir  string   // the working directory, an absolute path without symlinks; the only one that the command may change
	Args []string // the program and its arguments
	Env  []string // the whole environment, as NAME=value
	User *User    // nil is the user of this process
}

// Process is how a command is run.
type Process struct {
	Args    []string // the program and its arguments
	User    *User    // of the process; nil is the user of this process
	Release func()   // is called after the end of the process, if it is not nil
}

const opSandbox = "open sandbox"

// networkSuffix follows the name of a sandbox with a network.
const networkSuffix = "+network"

// ParseSandbox returns the sandbox with a name: "none", "bubblewrap" or "runsc". The commands of the last two have no
// network, except in "bubblewrap+network" and "runsc+network". The caller calls Check before it relies on the sandbox.
func ParseSandbox(name string) (Sandbox, error) {
	kind, network := strings.CutSuffix(name, networkSuffix)
	switch {
	case kind == "none" && !network:
		return None{}, nil
	case kind == "bubblewrap":
		return Bubblewrap{Network: network}, nil
	case kind == "runsc":
		return Runsc{Network: network}, nil
	}
	return nil, segno.Errorf(segno.KindInvalid, opSandbox, "", "unknown sandbox %.40q", name).
		WithHint("use none, bubblewrap or runsc, or one of the last two with " + networkSuffix)
}

func sandboxName(name string, network bool) string {
	if network {
		name += networkSuffix
	}
	return name
}

// None is no sandbox: a command may do what its user may.
type None struct{}

// String implements [Sandbox].
func (None) String() string { return "none" }

// Check implements [Sandbox].
func (None) Check(context.Context) error { return nil }

// Prepare implements [Sandbox].
func (None) Prepare(c Command) (*Process, error) { return &Process{Args: c.Args, User: c.User}, nil }

// User is a user of the system as whom commands run. They get no supplementary groups.
type User struct {
	Name, Home string
	UID, GID   uint32
}

// LookupUser returns a user by name or number. The error has [segno.KindRefused] if this process may not run commands as
// that user.
func LookupUser(name string) (*User, error) {
	const op = "look up user"
	u, err := user.Lookup(name)
	if _, numeric := strconv.Atoi(name); err != nil && numeric == nil {
		u, err = user.LookupId(name)
	}
	if err != nil {
		return nil, segno.NewError(segno.KindNotFound, op, name, nil).WithHint("give the name of a user of this machine")
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, segno.NewError(segno.KindInternal, op, name, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, segno.NewError(segno.KindInternal, op, name, err)
	}
	out := &User{Name: u.Username, Home: u.HomeDir, UID: uint32(uid), GID: uint32(gid)}
	return out, out.check()
}

// check returns an error if this process may not run commands as the user.
func (u *User) check() error {
	if u != nil && os.Geteuid() != 0 && os.Geteuid() != int(u.UID) {
		return segno.Errorf(segno.KindRefused, "run commands as another user", u.Name, "only root may").
			WithHint("start this program as root, or as the user who runs the commands")
	}
	return nil
}

// Limits are limits on what a command uses. 0 is no limit.
type Limits struct {
	// Processes is the largest number of processes and threads in a sandbox. It has no effect without a sandbox, in runsc, and for the user root;
	// their commands end with their time.
	Processes int
	// Memory is the largest number of bytes of each process for its data.
	Memory int64
}

// limitScript sets limits and then runs the command in its last argument. The shells disagree on the option for processes.
const limitScript = `test "$1" = 0 || { (ulimit -u "$1") 2>/dev/null && ulimit -u "$1" || ulimit -p "$1"; } || exit 126
test "$2" = 0 || ulimit -d "$2" || exit 126
exec sh -c "$3"`

// args returns the arguments that run a shell command with the limits.
func (l Limits) args(command string, sandboxed bool) []string {
	if !sandboxed {
		l.Processes = 0 // the system would count all processes of the user
	}
	if l == (Limits{}) {
		return []string{"sh", "-c", command}
	}
	return []string{"sh", "-c", limitScript, "sh", strconv.Itoa(l.Processes), strconv.FormatInt(l.Memory/1024, 10), command}
}

// findProgram returns the path of a sandbox's program. configured is its path, or "" to search in PATH.
func findProgram(sandbox, configured, name, hint string) (string, error) {
	if configured != "" {
		name = configured
	}
	file, err := exec.LookPath(name)
	if err == nil {
		file, err = filepath.Abs(file)
	}
	if err != nil {
		return "", segno.Errorf(segno.KindRefused, opSandbox, sandbox, "the program %s is missing", filepath.Base(name)).WithHint(hint)
	}
	return file, nil
}

// probe runs a command in a sandbox. The error has the last line of its output.
func probe(ctx context.Context, s Sandbox, dir string) error {
	p, err := s.Prepare(Command{Dir: dir, Args: []string{"true"}, Env: defaultSandboxEnv()})
	if err != nil {
		return err
	}
	if p.Release != nil {
		defer p.Release()
	}
	cmd := exec.CommandContext(ctx, p.Args[0], p.Args[1:]...)
	cmd.Env = defaultSandboxEnv()
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return fmt.Errorf("%w: %.200s", err, lines[len(lines)-1])
}

// defaultSandboxEnv is the environment of a command in a sandbox. Its home is empty, and ends with the command.
func defaultSandboxEnv() []string {
	env := []string{"HOME=/tmp", "TMPDIR=/tmp"}
	for _, name := range []string{"PATH", "LANG", "LC_ALL", "TZ"} {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// readable has the directories and files that programs need. A command in a sandbox can read these and its working
// directory. There is no home directory among them, and no file with a secret of the system.
var readable = [...]string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
	"/etc/alternatives", "/etc/ca-certificates", "/etc/group", "/etc/hosts", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
	"/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd", "/etc/pki/tls/certs", "/etc/resolv.conf", "/etc/ssl/certs", "/etc/terminfo",
}
