package tool

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
)

// Bubblewrap is a [Sandbox] of Linux namespaces that the program bwrap makes, version 0.8 or newer. A command can change its
// working directory only. It can read the system's programs and nothing of the user's home. Its /tmp, /proc and /dev are
// its own. It sees no process outside, has no network, gains no privileges, and all its processes end with the call.
type Bubblewrap struct {
	Network bool     // the command may use the network, also that of this machine
	Read    []string // more paths that it may read, such as a tool chain
	Program string   // the path of bwrap; "" searches in PATH
}

// String implements [Sandbox].
func (b Bubblewrap) String() string { return sandboxName("bubblewrap", b.Network) }

// Check implements [Sandbox]. It runs a command.
func (b Bubblewrap) Check(ctx context.Context) error {
	if _, err := b.program(); err != nil {
		return err
	}
	err := probe(ctx, b, "/usr")
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case strings.Contains(err.Error(), "namespace"), strings.Contains(err.Error(), "uid map"):
		return segno.Errorf(segno.KindRefused, opSandbox, b.String(), "the kernel forbids user namespaces: %w", err).
			WithHint("allow them with the sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces or kernel.apparmor_restrict_unprivileged_userns")
	case strings.Contains(err.Error(), "Unknown option"):
		return segno.Errorf(segno.KindRefused, opSandbox, b.String(), "bwrap is older than 0.8: %w", err).WithHint("install a newer bubblewrap")
	}
	return segno.NewError(segno.KindRefused, opSandbox, b.String(), err).WithHint("run bwrap yourself to see why it fails")
}

func (b Bubblewrap) program() (string, error) {
	return findProgram(b.String(), b.Program, "bwrap", "install the package bubblewrap")
}

// Prepare implements [Sandbox].
func (b Bubblewrap) Prepare(c Command) (*Process, error) {
	program, err := b.program()
	if err != nil {
		return nil, err
	}
	// Without --disable-userns a command can make another user namespace, have all privileges there, and attack more of the kernel.
	args := []string{program, "--unshare-user", "--unshare-all", "--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"}
	if b.Network {
		args = append(args, "--share-net")
	}
	for _, path := range readable {
		switch info, err := os.Lstat(path); {
		case err != nil:
		case info.Mode()&os.ModeSymlink != 0 && filepath.Dir(path) == "/":
			target, err := os.Readlink(path)
			if err != nil {
				return nil, err
			}
			args = append(args, "--symlink", target, path)
		default:
			args = append(args, "--ro-bind-try", path, path)
		}
	}
	// The kernel lets root write to /proc/sys without any capability, and the user root stays root in a namespace.
	args = append(args, "--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp", "--tmpfs", "/run")
	for _, path := range b.Read {
		args = append(args, "--ro-bind", path, path)
	}
	args = append(args, "--bind", c.Dir, c.Dir, "--chdir", c.Dir, "--remount-ro", "/", "--")
	return &Process{Args: append(args, c.Args...), User: c.User}, nil
}
