// Package serverrig starts real database servers and an S3 gateway for tests. It uses installed servers, or else
// Debian's packages, which it unpacks into a cache without a change to the system. It builds the gateway there.
//
// Every server is a separate process with a free loopback port and a separate directory. [Server.Stop]
// ends it. On Linux it also ends when the process that started it ends or is killed.
package serverrig

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/dalsegno/segno/internal/testing/debian"
)

// Server is one running server.
type Server struct {
	Addr string // host:port
	URL  string // the URL for clients
	PID  int    // of the server's first process; Restart changes it

	kind    kind
	dir     string
	ownsDir bool // Stop removes dir
	port    int
	stopped bool
	proc    *process
}

// kind describes a kind of server. start polls ready until it returns nil; ready must not accept another
// server on the same port.
type kind struct {
	name    string
	command func(dir string, port int) *exec.Cmd
	url     func(addr string) string
	ready   func(ctx context.Context, dir, addr string, pid int) error
	stop    syscall.Signal // ends the server cleanly
	orphan  syscall.Signal // sent to the server when the process that started it ends
}

// prepareDir creates dir, or a new directory if dir is empty. Every user can enter the new one, because
// a server may run as another user than the test.
func prepareDir(dir string) (string, bool, error) {
	if dir != "" {
		return dir, false, os.MkdirAll(dir, 0o755)
	}
	dir, err := os.MkdirTemp("", "segno-server-*")
	if err != nil {
		return "", false, err
	}
	return dir, true, os.Chmod(dir, 0o755)
}

func launch(ctx context.Context, k kind, dir string, ownsDir bool) (*Server, error) {
	s := &Server{kind: k, dir: dir, ownsDir: ownsDir}
	err := s.start(ctx)
	if err != nil {
		return nil, fmt.Errorf("serverrig: starting %s: %w", k.name, errors.Join(err, s.remove()))
	}
	return s, nil
}

// errInUse is the error of a start if a port or the memory of a killed server is not free yet.
var errInUse = errors.New("in use")

// start runs the server on its earlier port, or on a free one. It retries if another process took the
// free port first.
func (s *Server) start(ctx context.Context) error {
	for try := 1; ; try++ {
		port := s.port
		if port == 0 {
			var err error
			if port, err = freePort(ctx); err != nil {
				return err
			}
		}
		err := s.try(ctx, port)
		if !errors.Is(err, errInUse) || try == 50 {
			return err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func (s *Server) try(ctx context.Context, port int) error {
	logName := filepath.Join(s.dir, "log")
	log, err := os.Create(logName)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := s.kind.command(s.dir, port)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := run(cmd, s.kind.orphan)
	if err != nil {
		return err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	var notYet error
	for {
		if notYet = s.kind.ready(ctx, s.dir, addr, p.pid); notYet == nil {
			s.Addr, s.URL, s.PID, s.port, s.proc = addr, s.kind.url(addr), p.pid, port, p
			return nil
		}
		select {
		case <-p.ended:
			return startError(logName, p.err)
		case <-ctx.Done():
			p.end(syscall.SIGKILL)
			return fmt.Errorf("%w: %w", ctx.Err(), notYet)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// startError returns the reason why a server ended during its start, from its log.
func startError(logName string, err error) error {
	out, readErr := os.ReadFile(logName)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	if strings.Contains(string(out), "in use") {
		return errInUse
	}
	if err == nil {
		err = errors.New("the server ended during its start")
	}
	return fmt.Errorf("%w: %s", err, debian.ErrorLine(out))
}

// Stop ends the server cleanly, waits for its end, and removes the directory that serverrig
// created. A second call does nothing.
func (s *Server) Stop() error {
	if s.stopped {
		return nil
	}
	s.stopped = true
	s.proc.end(s.kind.stop)
	return s.remove()
}

// Kill ends the server's processes like a crash, and waits for the end of the first one. The data stay
// for [Server.Restart].
func (s *Server) Kill() {
	for _, pid := range children(s.PID) {
		defer syscall.Kill(pid, syscall.SIGKILL)
	}
	s.proc.end(syscall.SIGKILL)
}

// Restart stops the server if it runs, and starts it with the same port and data.
func (s *Server) Restart(ctx context.Context) error {
	if s.stopped {
		return fmt.Errorf("serverrig: restarting %s: it was stopped", s.kind.name)
	}
	s.proc.end(s.kind.stop)
	if err := s.start(ctx); err != nil {
		return fmt.Errorf("serverrig: restarting %s: %w", s.kind.name, err)
	}
	return nil
}

func (s *Server) remove() error {
	if !s.ownsDir {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// process is a child process. err is valid once ended is closed.
type process struct {
	pid   int
	ended chan struct{}
	err   error
}

// run starts cmd on a thread that exists as long as the command: Linux sends the signal for orphans when
// the thread that started them ends, not the process.
func run(cmd *exec.Cmd, orphan syscall.Signal) (*process, error) {
	p := &process{ended: make(chan struct{})}
	started := make(chan error)
	dieWithParent(cmd, orphan)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		p.err = cmd.Wait()
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// end sends sig unless the process has ended, waits for its end, and kills it if
// that takes too long.
func (p *process) end(sig syscall.Signal) {
	select {
	case <-p.ended:
		return
	default:
	}
	syscall.Kill(p.pid, sig)
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		syscall.Kill(p.pid, syscall.SIGKILL)
		<-p.ended
	}
}

// runsBenchmarks reports whether this process runs benchmarks, which measure servers with the usual settings.
func runsBenchmarks() bool {
	f := flag.Lookup("test.bench")
	return f != nil && f.Value.String() != ""
}

func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
