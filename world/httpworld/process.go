package httpworld

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/internal/worlds/supervise"
)

const (
	host       = "127.0.0.1"
	stopGrace  = 2 * time.Second // from SIGTERM to SIGKILL
	healthPoll = 10 * time.Millisecond
)

// process is one start of a world's command.
type process struct {
	*supervise.Group
	port   int
	client *client
	output *tail
	ready  func() // removes the document that the world began with
}

// launch starts the command and waits until the world is ready. The world begins with document, unless it is nil.
func (w *World) launch(ctx context.Context, document []byte) (p *process, s segno.WorldSnapshot, err error) {
	for try := range 3 {
		port := w.options.Port
		if try > 0 || port == 0 || isListening(ctx, port) {
			if port, err = freePort(ctx); err != nil {
				return nil, s, segno.NewError(segno.KindIO, "start world", w.config.Name, err)
			}
		}
		if p, err = w.launchAt(ctx, port, document); err != nil {
			return nil, s, err
		}
		if err = w.awaitHealth(ctx, p, document != nil); err == nil {
			s, err = p.client.snapshot(ctx)
		}
		if err == nil {
			return p, s, nil
		}
		p.Kill()
		// A world without SO_REUSEADDR cannot listen on a port where connections to the previous world ended a moment
		// ago. In any other case another process took the port before the world did.
		if port != w.options.Port && !isListening(ctx, port) {
			break
		}
	}
	return nil, s, err
}

// launchAt starts the command for a port.
func (w *World) launchAt(ctx context.Context, port int, document []byte) (*process, error) {
	token := segno.NewID()
	env := append(environment(w.options.Env), "WORLD_HOST="+host, "WORLD_PORT="+strconv.Itoa(port), "WORLD_BASE_PATH=", "WORLD_OPERATOR_TOKEN="+token)
	remove := func() {}
	if document != nil {
		path, removeFile, err := w.writeDocument(document)
		if err != nil {
			return nil, err
		}
		env, remove = append(env, "WORLD_RESUME_PATH="+path), removeFile
	}
	p := &process{port: port, output: &tail{to: w.options.Log}, ready: remove,
		client: newClient("http://"+net.JoinHostPort(host, strconv.Itoa(port)), token)}
	var err error
	if p.Group, err = supervise.Start(ctx, w.config.Run.Command, supervise.Options{Dir: w.dir, Env: env, Output: p.output, Hold: w.options.Hold}); err != nil {
		remove()
		return nil, segno.NewError(segno.KindIO, "start world", w.config.Name, err)
	}
	return p, nil
}

// isListening reports whether a process listens on a port.
func isListening(ctx context.Context, port int) bool {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// awaitHealth waits until the world answers. It checks that only the operator can read the state of the world.
func (w *World) awaitHealth(ctx context.Context, p *process, resumes bool) error {
	defer p.ready()
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, w.options.HealthTimeout)
	defer cancel()
	poll := time.NewTicker(healthPoll)
	defer poll.Stop()
	for {
		if _, err := p.client.get(ctx, "/api.md"); err == nil {
			break
		}
		select {
		case <-p.Gone:
			kind := segno.KindIO
			if resumes { // the start without a document succeeded
				kind = segno.KindCorrupt
			}
			return segno.Errorf(kind, "start world", w.config.Name, "the command ended: %s", p.outcome())
		case <-ctx.Done():
			if err := outer.Err(); err != nil {
				return err
			}
			return segno.Errorf(segno.KindIO, "start world", w.config.Name, "GET /api.md did not succeed: %s", cmp.Or(p.output.last(), ctx.Err().Error())).
				WithHint("the command must serve on WORLD_HOST and WORLD_PORT")
		case <-poll.C:
		}
	}
	anonymous := *p.client
	anonymous.token = ""
	if _, err := anonymous.get(ctx, "/snapshot"); statusOf(err) != 401 {
		return segno.Errorf(segno.KindRefused, "start world", w.config.Name, "it does not answer 401 to GET /snapshot without the operator's token").
			WithHint("compare the header X-Operator-Token with WORLD_OPERATOR_TOKEN")
	}
	return nil
}

// outcome returns the last line that the command wrote, or its exit status if it wrote none.
func (p *process) outcome() string {
	return cmp.Or(p.output.last(), p.State().String())
}

// environment returns the environment of a world. The world's code is of unknown origin, so it gets no keys from
// segno's environment. A command such as "go run ." finds the modules and the cache of the user. GOPROXY is left out,
// because it may contain a password.
func environment(more []string) (env []string) {
	for _, name := range []string{"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "XDG_CACHE_HOME", "GOPATH", "GOMODCACHE", "GOCACHE", "GOFLAGS"} {
		if value, has := os.LookupEnv(name); has {
			env = append(env, name+"="+value)
		}
	}
	return append(env, more...)
}

// freePort returns a port that no process uses now. If another process takes it before the world does, the
// world cannot listen and ends.
func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.New("the listener has no port")
	}
	return addr.Port, nil
}

// writeDocument writes a document to a file that only this user can read.
func (w *World) writeDocument(document []byte) (path string, remove func(), err error) {
	path = cmp.Or(w.options.ResumePath, filepath.Join(os.TempDir(), "world-"+segno.NewID()))
	remove = func() { _ = vfs.OS.Remove(path) }
	remove() // a file that a killed process left
	f, err := vfs.OS.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.Write(document)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		remove()
		return "", nil, segno.NewError(segno.KindIO, "resume world", path, err).WithHint("make its directory writable")
	}
	return path, remove, nil
}

// tail forwards the output of a world and keeps its end for errors.
type tail struct {
	to  io.Writer // may be nil
	mu  sync.Mutex
	end []byte
}

func (t *tail) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const most = 4096
	t.end = append(t.end, data...)
	t.end = t.end[max(0, len(t.end)-most):]
	if t.to != nil {
		_, _ = t.to.Write(data) // an error would close the pipe, and the next line would kill the world
	}
	return len(data), nil
}

// last returns the last line that is not empty.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.end), "\uFFFD"))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
