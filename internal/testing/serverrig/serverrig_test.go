package serverrig

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dalsegno/segno/internal/testing/debian"
	"github.com/dalsegno/segno/internal/testing/soak"
)

const childEnv = "SEGNO_TEST_SERVER"

// TestMain starts a server and prints its process id if childEnv is set; the parent test then kills it.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		s, err := Redis(context.Background(), "")
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(s.PID, s.dir)
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	flag.Parse()
	if testing.Short() {
		fmt.Println("no test runs with -short: servers are installed from the network")
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func withDeadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// waitForExit waits until no process has the id pid.
func waitForExit(t *testing.T, pid int) {
	t.Helper()
	ctx := withDeadline(t)
	for {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if errors.Is(err, os.ErrNotExist) || strings.Contains(string(stat), ") Z ") {
			return
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			t.Fatalf("process %d still runs: %s", pid, stat)
		}
	}
}

func ask(t *testing.T, s *Server, command string) string {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, command+"\r\nQUIT\r\n"); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(strings.TrimSuffix(string(all), "+OK\r\n"), "\r\n", " ")
}

func TestRedisKeepsDataAfterACrash(t *testing.T) {
	s, err := Redis(withDeadline(t), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if got := ask(t, s, "SET k v"); got != "+OK " {
		t.Fatalf("SET returned %q", got)
	}
	first, addr := s.PID, s.Addr
	s.Kill()
	waitForExit(t, first)
	if err := s.Restart(withDeadline(t)); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, s, "GET k"); got != "$1 v " {
		t.Errorf("after a crash GET returned %q", got)
	}
	if s.PID == first || s.Addr != addr {
		t.Errorf("restarted as process %d at %s, was %d at %s", s.PID, s.Addr, first, addr)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	waitForExit(t, s.PID)
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Stop the directory: %v", err)
	}
	if err := s.Restart(withDeadline(t)); err == nil {
		t.Error("a stopped server can be restarted")
	}
}

func TestRedisWithArgumentsAndDirectory(t *testing.T) {
	dir := t.TempDir()
	s, err := Redis(withDeadline(t), dir, "--maxmemory", "77mb")
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, s, "CONFIG GET maxmemory"); !strings.Contains(got, strconv.Itoa(77<<20)) {
		t.Errorf("maxmemory is %q", got)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "appendonlydir")); err != nil {
		t.Errorf("the caller's directory after Stop: %v", err)
	}
}

func TestPostgresStartsAgainAfterACrash(t *testing.T) {
	s, err := Postgres(withDeadline(t), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if got := startupReply(t, s); got != 'R' {
		t.Errorf("the reply to the startup message is %q", got)
	}
	first := s.PID
	workers := children(first)
	s.Kill()
	for _, pid := range append(workers, first) {
		waitForExit(t, pid)
	}
	if err := s.Restart(withDeadline(t)); err != nil {
		t.Fatal(err)
	}
	if got := startupReply(t, s); got != 'R' {
		t.Errorf("after a crash the reply to the startup message is %q", got)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	waitForExit(t, s.PID)
}

// startupReply sends a startup message of PostgreSQL's protocol and returns the type of the reply: R for
// authentication, E for an error.
func startupReply(t *testing.T, s *Server) byte {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := "\x00\x03\x00\x00user\x00postgres\x00database\x00postgres\x00\x00"
	if _, err := fmt.Fprintf(conn, "\x00\x00\x00%c%s", len(body)+4, body); err != nil {
		t.Fatal(err)
	}
	answer, err := bufio.NewReader(conn).ReadByte()
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestServerEndsWithItsKilledParent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir string
	_, err = fmt.Fscan(out, &pid, &dir)
	cmd.Process.Signal(syscall.SIGKILL)
	cmd.Wait()
	if err != nil {
		t.Fatalf("the child printed no server: %v", err)
	}
	defer os.RemoveAll(dir)
	waitForExit(t, pid)
}

func TestMissingPackageErrorHasOneLine(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := debian.Find(withDeadline(t), debian.Program{Package: "no-such-server", Installed: []string{"no-such-server"}, Inside: "usr/bin/no-such-server"})
	if err == nil || !strings.Contains(err.Error(), "no-such-server") || strings.Contains(err.Error(), "\n") {
		t.Errorf("the error is %v", err)
	}
}

func TestBadArgumentError(t *testing.T) {
	_, err := Redis(withDeadline(t), "", "--no-such-setting", "1")
	text := fmt.Sprint(err)
	if !strings.Contains(text, "starting redis") || !strings.Contains(text, "directive") || strings.Contains(text, "\n") {
		t.Errorf("the error is %v", err)
	}
}

func TestAGatewayStartsAgainAfterACrash(t *testing.T) {
	if !soak.IsWhole() {
		return // the gateway is built from the network, which takes minutes
	}
	s, err := S3(withDeadline(t), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	first, url := s.PID, s.URL
	s.Kill()
	waitForExit(t, first)
	if err := s.Restart(withDeadline(t)); err != nil {
		t.Fatal(err)
	}
	if s.PID == first || s.URL != url {
		t.Errorf("restarted as process %d at %s, was %d at %s", s.PID, s.URL, first, url)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	waitForExit(t, s.PID)
}

func TestMissingModuleErrorHasOneLine(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOMODCACHE", t.TempDir())
	_, err := S3(withDeadline(t), "")
	if err == nil || !strings.Contains(err.Error(), gatewayModule+"@"+gatewayVersion) || strings.Contains(err.Error(), "\n") {
		t.Errorf("the error is %v", err)
	}
}
