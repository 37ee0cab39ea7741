package workspace_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/workspace"
)

// serveWatch watches the directory root, serves other processes and prints a line when it is ready.
func serveWatch(root string) error {
	ctx := context.Background()
	w, err := workspace.NewWatch(ctx, root, filepath.Dir(root), nil)
	if err != nil {
		return err
	}
	w.Share()
	l, err := listenWatch(root)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	return w.Serve(ctx, func() (workspace.WatchConn, error) { return l.AcceptUnix() })
}

// watchAddr returns the address of a socket without a file, because TMPDIR may be too long for the path of a socket.
func watchAddr(root string) *net.UnixAddr {
	return &net.UnixAddr{Name: "@" + segno.DerivedID("test watch", root), Net: "unix"}
}

func listenWatch(root string) (*net.UnixListener, error) {
	return net.ListenUnix("unix", watchAddr(root))
}

// newServedRig returns a rig whose snapshots ask another process, or another goroutine, that the caller starts.
func newServedRig(t *testing.T) *watchRig {
	p := newFixture(t)
	p.open(workspace.Options{Index: p.index, DialWatch: func() (workspace.WatchConn, error) { return net.DialUnix("unix", nil, watchAddr(p.root)) }})
	return &watchRig{fixture: p, model: p.other(workspace.Options{})}
}

// serve serves the tree until the end of the test.
func (p *watchRig) serve(t *testing.T) {
	w, err := workspace.NewWatch(t.Context(), p.root, filepath.Dir(p.root), nil)
	must(t, err)
	w.CompareOnlyWhenAsked()
	w.Share()
	l, err := listenWatch(p.root)
	must(t, err)
	done := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	context.AfterFunc(ctx, func() { _ = l.Close() })
	go func() { done <- w.Serve(ctx, func() (workspace.WatchConn, error) { return l.AcceptUnix() }) }()
	p.watch = w
	t.Cleanup(func() {
		stop()
		must(t, <-done)
		must(t, w.Close())
	})
}

// missesHiddenChange reports whether a snapshot leaves out a directory without events. It tries often: an answer may be late on
// a busy machine, and on an older kernel the file must first be older than a tick. The next full snapshot must find the change.
func (p *watchRig) missesHiddenChange() bool {
	p.write("hidden/a", "one")
	outside := filepath.Join(filepath.Dir(p.root), "outside")
	for n := range 2000 {
		p.watched()
		must(p.t, os.Link(p.path("hidden/a"), outside))
		must(p.t, os.WriteFile(outside, fmt.Append(nil, n), 0o644))
		before, after := p.watched(), p.save()
		must(p.t, os.Remove(outside))
		if before.Tree == after.Tree {
			continue
		}
		if want := p.saveBy(p.model); after.Tree != want.Tree {
			p.t.Error("a full snapshot relied on the watcher")
		}
		return true
	}
	return false
}

func TestServedScanEqualsFullScan(t *testing.T) {
	for _, seed := range soak.Seeds(t, 1, 200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { compareServedScans(t, seed) }) // it closes its watcher
	}
}

func compareServedScans(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 29))
	p := newServedRig(t)
	p.serve(t)
	m := &mutator{root: p.root, r: r, scan: func() { p.watched() }}
	p.fill(m, 100)
	p.agrees("at first")
	for n := range 30 {
		m.log = nil
		for range 1 + r.IntN(4) {
			m.change()
		}
		p.agrees(fmt.Sprintf("seed %d, series %d, %s", seed, n, strings.Join(m.log, "; ")))
	}
	if n := p.watch.Stats().Served; n < 30 {
		t.Errorf("seed %d: %d scans asked", seed, n)
	}
	if !p.missesHiddenChange() {
		t.Errorf("seed %d: the scan read every directory", seed)
	}
	removeAll(t, p.root)
}

// TestServedScanOutlivesItsWatcher kills the process that watches while scans ask it, and starts it again.
func TestServedScanOutlivesItsWatcher(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	p := newServedRig(t)
	for _, seed := range soak.Seeds(t, 2, 60) {
		r := rand.New(rand.NewPCG(seed, 30))
		m := &mutator{root: p.root, r: r, scan: func() { p.watched() }}
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), watchProcess+"="+p.root), os.Stderr
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		_, err = bufio.NewReader(out).ReadString('\n')
		must(t, err)
		killAt := r.IntN(8)
		for n := range 12 {
			if n == killAt { // at any moment of the following scans
				time.AfterFunc(time.Duration(r.IntN(3000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
			}
			m.log = nil
			m.change()
			p.agrees(fmt.Sprintf("seed %d, series %d, %s", seed, n, strings.Join(m.log, "; ")))
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// TestServedMarkAfterAChange watches a directory that changed after a scan began. The client may have listed the directory
// before the change, because it does not wait long for the mark. The next scan must read it.
func TestServedMarkAfterAChange(t *testing.T) {
	p := newServedRig(t)
	p.serve(t)
	ask := func(conn net.Conn, request []byte, size int) []byte {
		answer := make([]byte, size)
		_, err := conn.Write(request)
		must(t, err)
		_, err = io.ReadFull(conn, answer)
		must(t, err)
		return answer
	}
	var token []byte
	for n, request := range [][]byte{append([]byte{'S'}, make([]byte, 24)...), {'S'}} {
		conn, err := net.DialUnix("unix", nil, watchAddr(p.root))
		must(t, err)
		defer conn.Close()
		head := ask(conn, append(request, token...), 24+1+8+4)
		token = head[:24]
		if n == 0 {
			p.write("new/a", "one")
			fi, err := os.Stat(p.path("new"))
			must(t, err)
			mark := binary.LittleEndian.AppendUint64([]byte{'M'}, fi.Sys().(*syscall.Stat_t).Ino)
			if answer := ask(conn, append(mark, "\x03\x00new"...), 1); answer[0] != 1 {
				t.Fatal("the directory is not watched")
			}
		} else if dir := ask(conn, nil, 9); head[33] != 1 || dir[8] != 0 {
			t.Errorf("%d directories, and new/ counts as unchanged", head[33])
		}
	}
}

// TestServedScanOfHostileAnswers answers scans with nonsense. They must read everything, and must not wait.
func TestServedScanOfHostileAnswers(t *testing.T) {
	head := func(count uint32) []byte {
		return binary.LittleEndian.AppendUint32(make([]byte, 24+1+8), count)
	}
	for name, answer := range map[string][]byte{
		"nothing":              nil,
		"a part":               make([]byte, 20),
		"too many directories": head(1 << 31),
		"missing directories":  head(1 << 20),
		"noise":                []byte(strings.Repeat("\xff", 4096)),
		"no directories":       head(0),
	} {
		t.Run(name, func(t *testing.T) {
			p := newServedRig(t)
			l, err := listenWatch(p.root)
			must(t, err)
			done := make(chan struct{})
			go func() {
				defer close(done)
				var open []net.Conn // a silent process keeps the connection open
				for {
					conn, err := l.Accept()
					if err != nil {
						break
					}
					_, _ = conn.Write(answer)
					open = append(open, conn)
				}
				for _, c := range open {
					c.Close()
				}
			}()
			for n := range 5 {
				p.write(fmt.Sprintf("dir%d/a", n), "one")
				p.agrees("with hostile answers")
			}
			l.Close()
			<-done
		})
	}
}
