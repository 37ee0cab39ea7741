package tool

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
)

// Runsc is a [Sandbox] of gVisor: a kernel in user space, between the command and the system's kernel, which the program
// runsc runs. A command may do the same as in [Bubblewrap].
type Runsc struct {
	Network bool     // the command may use the network, also that of this machine
	Read    []string // more paths that it may read, such as a tool chain
	Program string   // the path of runsc; "" searches in PATH
}

// String implements [Sandbox].
func (r Runsc) String() string { return sandboxName("runsc", r.Network) }

// Check implements [Sandbox]. It runs a command.
func (r Runsc) Check(ctx context.Context) error {
	if _, err := r.program(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "segno-runsc-")
	if err != nil {
		return segno.NewError(segno.KindIO, opSandbox, r.String(), err)
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err == nil {
		err = probe(ctx, r, dir)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	return segno.NewError(segno.KindRefused, opSandbox, r.String(), err).WithHint("run 'runsc do true' to see why it fails")
}

func (r Runsc) program() (string, error) {
	return findProgram(r.String(), r.Program, "runsc", "install gVisor: https://gvisor.dev/docs/user_guide/install/")
}

// bundle is a configuration of the OCI runtime specification.
type bundle struct {
	Version  string        `json:"ociVersion"`
	Process  bundleProcess `json:"process"`
	Root     bundleRoot    `json:"root"`
	Hostname string        `json:"hostname"`
	Mounts   []mount       `json:"mounts"`
	Linux    struct {
		Namespaces []namespace `json:"namespaces"`
	} `json:"linux"`
}

type bundleProcess struct {
	User            bundleUser `json:"user"`
	Args            []string   `json:"args"`
	Env             []string   `json:"env"`
	Dir             string     `json:"cwd"`
	NoNewPrivileges bool       `json:"noNewPrivileges"`
	Capabilities    struct{}   `json:"capabilities"` // none
}

type bundleUser struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

type bundleRoot struct {
	Path     string `json:"path"`
	ReadOnly bool   `json:"readonly"`
}

type mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options,omitempty"`
}

type namespace struct {
	Type string `json:"type"`
}

// Prepare implements [Sandbox]. The process itself runs as the user of this process, and the command as its user.
func (r Runsc) Prepare(c Command) (*Process, error) {
	program, err := r.program()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "segno-runsc-")
	if err != nil {
		return nil, err
	}
	release := func() { _ = os.RemoveAll(dir) } // a temporary directory
	if err := r.writeBundle(dir, c); err != nil {
		release()
		return nil, fmt.Errorf("prepare sandbox: %w", err)
	}
	args := []string{program, "--root", filepath.Join(dir, "state"), "--ignore-cgroups", "--network", "none"}
	if r.Network {
		args[len(args)-1] = "host"
	}
	if os.Geteuid() != 0 {
		args = append(args, "--rootless")
	}
	return &Process{Args: append(args, "run", "--bundle", dir, "segno-"+rand.Text()), Release: release}, nil
}

// writeBundle writes the root directory of a command, which is empty, and its configuration.
func (r Runsc) writeBundle(dir string, c Command) error {
	b := bundle{Version: "1.0.2", Hostname: "sandbox", Root: bundleRoot{Path: "root", ReadOnly: true}}
	b.Process = bundleProcess{User: bundleUser{uint32(os.Getuid()), uint32(os.Getgid())}, Args: c.Args, Env: c.Env, Dir: c.Dir, NoNewPrivileges: true}
	if c.User != nil {
		b.Process.User = bundleUser{c.User.UID, c.User.GID}
	}
	for _, name := range []string{"pid", "ipc", "uts", "mount", "network"} {
		if name != "network" || !r.Network {
			b.Linux.Namespaces = append(b.Linux.Namespaces, namespace{name})
		}
	}
	root := filepath.Join(dir, "root")
	b.Mounts = []mount{{"/proc", "proc", "proc", nil}, {"/dev", "tmpfs", "tmpfs", nil}, {"/tmp", "tmpfs", "tmpfs", nil}, {"/var/tmp", "tmpfs", "tmpfs", nil}}
	for _, path := range append(readable[:len(readable):len(readable)], r.Read...) {
		info, err := os.Lstat(path)
		switch {
		case err != nil:
			continue
		case info.Mode()&os.ModeSymlink != 0 && filepath.Dir(path) == "/":
			target, err := os.Readlink(path)
			if err == nil {
				err = os.MkdirAll(root, 0o755)
			}
			if err == nil {
				err = os.Symlink(target, filepath.Join(root, path))
			}
			if err != nil {
				return err
			}
			continue
		}
		b.Mounts = append(b.Mounts, mount{path, "bind", path, []string{"ro", "rbind"}})
	}
	b.Mounts = append(b.Mounts, mount{c.Dir, "bind", c.Dir, []string{"rw", "rbind"}})
	data, err := json.Marshal(b)
	if err == nil {
		err = os.MkdirAll(root, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600)
	}
	return err
}
