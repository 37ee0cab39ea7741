package serverrig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/dalsegno/segno/internal/testing/debian"
)

func postgresProgram() debian.Program {
	return debian.Program{
		Package:   "postgresql",
		Installed: []string{"postgres", "/usr/lib/postgresql/*/bin/postgres"},
		Inside:    "usr/lib/postgresql/*/bin/postgres",
	}
}

// PostgresNoSync returns settings for [Postgres] with which the server does not wait for the disk, or none if benchmarks run. A
// server that is killed loses nothing, and no test cuts the power.
func PostgresNoSync() []string {
	if runsBenchmarks() {
		return nil
	}
	return []string{"fsync=off"}
}

// Postgres starts a PostgreSQL server with the defaults of a new cluster, so that a commit is durable
// when the server replies, and the given settings. Its directory is dir, or a new one that Stop removes if dir is empty. The
// server refuses to run as root, so a test that runs as root starts it as the user postgres, or as
// the system's unprivileged user. That user must be able to enter dir, which is impossible below
// testing.T.TempDir. ctx bounds only the start.
func Postgres(ctx context.Context, dir string, settings ...string) (*Server, error) {
	prog, err := debian.Find(ctx, postgresProgram())
	if err != nil {
		return nil, err
	}
	dir, ownsDir, err := prepareDir(dir)
	if err != nil {
		return nil, fmt.Errorf("serverrig: making a directory for postgres: %w", err)
	}
	owner, err := initCluster(ctx, prog, dir)
	if err != nil {
		if ownsDir {
			os.RemoveAll(dir)
		}
		return nil, fmt.Errorf("serverrig: making a postgres cluster: %w", err)
	}
	command := func(dir string, port int) *exec.Cmd {
		args := []string{"-D", filepath.Join(dir, "data"), "-p", strconv.Itoa(port)}
		for _, setting := range append([]string{"listen_addresses=127.0.0.1", "unix_socket_directories="}, settings...) {
			args = append(args, "-c", setting)
		}
		cmd := prog.Command(context.WithoutCancel(ctx), args...)
		cmd.Dir = dir
		cmd.SysProcAttr = owner.attr()
		return cmd
	}
	return launch(ctx, kind{
		name:    "postgres",
		command: command,
		url: func(addr string) string {
			return "postgres://postgres@" + addr + "/postgres?sslmode=disable"
		},
		ready:  postgresReady,
		stop:   syscall.SIGINT,
		orphan: syscall.SIGQUIT,
	}, dir, ownsDir)
}

// initCluster creates dir/data unless it exists, and returns the user to run the server as.
func initCluster(ctx context.Context, prog debian.Executable, dir string) (*account, error) {
	owner, err := serverAccount()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err == nil {
		return owner, nil
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	if owner != nil {
		if err := os.Chown(data, int(owner.uid), int(owner.gid)); err != nil {
			return nil, err
		}
		if err := debian.Reachable(data); err != nil {
			return nil, fmt.Errorf("user %s: %w", owner.name, err)
		}
	}
	initdb := prog
	initdb.File = filepath.Join(filepath.Dir(prog.File), "initdb")
	// The server's first checkpoint syncs the cluster. A crash before it costs only a test run.
	cmd := initdb.Command(ctx, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8",
		"--locale=C", "--no-sync", "--no-instructions")
	cmd.Dir = dir
	cmd.SysProcAttr = owner.attr()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("running initdb: %w: %s", err, debian.ErrorLine(out))
	}
	return owner, nil
}

// postgresReady reads the server's lock file, which contains its process id and its status. An open
// port is not enough, because it can belong to another server.
func postgresReady(ctx context.Context, dir, addr string, pid int) error {
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 8 || lines[0] != strconv.Itoa(pid) || strings.TrimSpace(lines[7]) != "ready" {
		return errors.New("the server is not ready yet")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// account is the user as which a server runs; nil means the user of this process.
type account struct {
	name     string
	uid, gid uint32
}

func (a *account) attr() *syscall.SysProcAttr {
	if a == nil {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.uid, Gid: a.gid}}
}

// serverAccount returns the user for a server that refuses to run as root.
func serverAccount() (*account, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("no user postgres or nobody to run the server as")
}
