package generation_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/world/company"
	"github.com/dalsegno/segno/world/httpworld"
)

func TestMain(m *testing.M) {
	soak.DrawIfShort()
	memdir.Use()
	os.Exit(m.Run())
}

// rig is an experiment whose world runs in this process and whose agents are shell commands.
type rig struct {
	*testing.T
	dir    string
	store  *local.Store
	kind   *shellAgent
	events []generation.Event
	// on, if not nil, is called at each event.
	on func(generation.Event)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, dir: dir, kind: &shellAgent{}}
	place := local.Place{Store: filepath.Join(dir, "store"), UserHome: filepath.Join(dir, "user"), Now: time.Now}
	if r.store, err = place.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.store.Close() })
	return r
}

// shellAgent writes one line for each turn, and then runs more.
type shellAgent struct {
	mu    sync.Mutex
	turns []string
	// more, if not nil, returns a command that follows in turn n, counted from 1.
	more func(n int) string
	// session, if not nil, is [generation.Kind.Session].
	session func(p generation.Place) (segno.Transcript, segno.Source, error)
}

func (*shellAgent) Prepare(context.Context, generation.Place) error { return nil }

func (a *shellAgent) Turn(p generation.Place, t generation.Turn) generation.Command {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turns = append(a.turns, t.Prompt)
	script := "echo turn >> notes"
	if a.more != nil {
		script += "; " + a.more(len(a.turns))
	}
	return generation.Command{Args: []string{"sh", "-c", script}}
}

func (a *shellAgent) Session(_ context.Context, p generation.Place) (segno.Transcript, segno.Source, error) {
	if a.session == nil {
		return nil, segno.Source{}, nil
	}
	return a.session(p)
}

// localWorld is a company in this process, served to agents.
type localWorld struct {
	segno.World
	*httptest.Server
}

func (w localWorld) URL() string { return w.Server.URL }

func (localWorld) PID() int { return os.Getpid() }

func (w localWorld) Close() error {
	w.Server.Close()
	return nil
}

func (w localWorld) Port() int {
	if a, ok := w.Listener.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

func startLocal(ctx context.Context, s generation.WorldStart) (generation.World, error) {
	w := company.New(7)
	if s.Document != nil {
		if err := w.Load(ctx, s.Document); err != nil {
			return nil, err
		}
	}
	return localWorld{w, httptest.NewServer(httpworld.NewHandler(w, "token"))}, nil
}

// config returns the configuration of an experiment with one agent.
func (r *rig) config(generations, ticks int) generation.Config {
	r.Helper()
	file := filepath.Join(r.dir, "village.toml")
	text := fmt.Sprintf("world = \"company\"\ngenerations = %d\nticks = %d\n[[agents]]\nname = \"Ada\"\n", generations, ticks)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
	e, err := generation.ReadExperiment(file)
	if err != nil {
		r.Fatal(err)
	}
	return generation.Config{
		Experiment: e, Out: filepath.Join(r.dir, "runs"), Start: startLocal, Kinds: map[string]generation.Kind{generation.KindOffline: r.kind},
		Store: r.store.Store, Temp: r.dir, Every: time.Nanosecond, Keep: 8, Ours: func(string) bool { return true }, FS: vfs.OS,
		Open: func(ctx context.Context, dir string) (*timeline.Timeline, error) {
			rec, err := r.store.Register(ctx, dir)
			if err != nil {
				return nil, err
			}
			return r.store.Timeline(rec, nil)
		},
		OpenHome: func(ctx context.Context, dir string, exclude []string) (*timeline.Timeline, error) {
			rec, err := r.store.Register(ctx, dir)
			if err != nil {
				return nil, err
			}
			return r.store.TimelineWithout(rec, exclude)
		},
		Report: func(e generation.Event) {
			r.events = append(r.events, e)
			if r.on != nil {
				r.on(e)
			}
		},
	}
}

func (r *rig) find(kind generation.EventKind) (found []generation.Event) {
	for _, e := range r.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// path returns a path below the directory of the runs.
func (r *rig) path(elements ...string) string {
	return filepath.Join(append([]string{r.dir, "runs"}, elements...)...)
}

// checkNotes checks the number of an agent's turns in all generations up to the one of a run.
func (r *rig) checkNotes(run string, turns int) {
	r.Helper()
	data, err := os.ReadFile(r.path(run, "agents/Ada/workspace/notes"))
	if got := strings.Count(string(data), "turn\n"); got != turns || err != nil {
		r.Errorf("%s has %d turns, want %d: %v", run, got, turns, err)
	}
}

func (r *rig) archives(run string) (names []string) {
	r.Helper()
	entries, err := os.ReadDir(r.path(run, "checkpoints"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (r *rig) manifest(elements ...string) *archive.Manifest {
	r.Helper()
	reader, err := archive.Open(r.path(elements...))
	if err != nil {
		r.Fatal(err)
	}
	defer reader.Close()
	return reader.Manifest()
}
