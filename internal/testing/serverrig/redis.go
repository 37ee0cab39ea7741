package serverrig

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dalsegno/segno/internal/testing/debian"
)

// Redis starts a Redis or Valkey server that syncs each write before it replies. Its directory is dir, or
// a new one that Stop removes if dir is empty. args are further arguments of redis-server, which override
// the default ones. ctx bounds only the start.
func Redis(ctx context.Context, dir string, args ...string) (*Server, error) {
	prog, err := debian.Find(ctx, debian.Program{
		Package:   "redis-server",
		Installed: []string{"redis-server", "valkey-server"},
		Inside:    "usr/bin/redis-server",
	})
	if err != nil {
		return nil, err
	}
	dir, ownsDir, err := prepareDir(dir)
	if err != nil {
		return nil, fmt.Errorf("serverrig: making a directory for redis: %w", err)
	}
	command := func(dir string, port int) *exec.Cmd {
		cmd := prog.Command(context.WithoutCancel(ctx), append([]string{
			"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
			"--appendonly", "yes", "--appendfsync", "always", "--save", "",
			"--logfile", "", "--daemonize", "no",
		}, args...)...)
		cmd.Dir = dir
		return cmd
	}
	return launch(ctx, kind{
		name:    "redis",
		command: command,
		url:     func(addr string) string { return "redis://" + addr + "/0" },
		ready:   redisReady,
		stop:    syscall.SIGTERM,
		orphan:  syscall.SIGKILL,
	}, dir, ownsDir)
}

// RedisNoSync returns arguments for [Redis], in the same way as [PostgresNoSync].
func RedisNoSync() []string {
	if runsBenchmarks() {
		return nil
	}
	return []string{"--appendfsync", "no"}
}

// redisReady queries the server's process id, which the server returns once it has loaded its data.
func redisReady(ctx context.Context, _, addr string, pid int) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "PING\r\nINFO server\r\nQUIT\r\n"); err != nil {
		return err
	}
	lines := bufio.NewScanner(conn)
	pong := false
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		pong = pong || line == "+PONG"
		if n, ok := strings.CutPrefix(line, "process_id:"); ok && pong {
			if n == strconv.Itoa(pid) {
				return nil
			}
			return fmt.Errorf("port of process %s: %w", n, errInUse)
		}
	}
	return fmt.Errorf("no answer from redis at %s yet", addr)
}
