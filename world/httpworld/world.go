package httpworld

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world"
)

// Options change how a world is started. The zero value is usable.
type Options struct {
	// Resume is the document to begin with; nil begins at time 0.
	Resume []byte
	// ResumePath is the file from which the command reads Resume. Start replaces it, and removes it once the world
	// answers. It remains if this process is killed before that. "" is a new file in the temporary directory.
	ResumePath string
	// Port is tried first, so that agents find a restarted world at the same address; 0 is
	// any port.
	Port int
	// Env are further variables for the command, such as "WORLD_SEED=7".
	Env []string
	// Log receives the output of the command; nil discards it. Errors quote its last line. The world continues if a write to
	// Log fails.
	Log io.Writer
	// Hold, if not nil, stays open until the process of the world has ended, even if this process is
	// killed. A lock on it is therefore held until then.
	Hold *os.File
	// HealthTimeout is how long the world may take to answer for the first time; 0 is 30 seconds.
	HealthTimeout time.Duration
}

// World is a [segno.World] in another process. The caller closes it.
type World struct {
	dir     string
	config  Config
	options Options
	info    segno.WorldInfo

	mu      sync.RWMutex // Load replaces process
	process *process
	loaded  bool
}

// Start runs the world in a directory.
func Start(ctx context.Context, dir string, o Options) (*World, error) {
	c, err := ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	return StartConfig(ctx, dir, c, o)
}

// StartConfig is Start for a directory without a world.toml.
func StartConfig(ctx context.Context, dir string, c Config, o Options) (*World, error) {
	if o.HealthTimeout == 0 {
		o.HealthTimeout = 30 * time.Second
	}
	w := &World{dir: dir, config: c, options: o, loaded: o.Resume != nil}
	p, s, err := w.start(ctx, o.Resume)
	if err != nil {
		return nil, err
	}
	h, err := world.ReadHeader(s.Document)
	if err != nil {
		p.Kill()
		return nil, err
	}
	manual, err := p.client.get(ctx, "/api.md")
	if err != nil {
		p.Kill()
		return nil, segno.NewError(segno.KindIO, "start world", c.Name, err)
	}
	w.process = p
	w.info = segno.WorldInfo{Name: c.Name, Format: h.Format, Content: h.Content, Tick: c.tick(), Manual: string(manual)}
	return w, nil
}

// start launches the world and reads its state. The state must be the document, if there is one.
func (w *World) start(ctx context.Context, document []byte) (*process, segno.WorldSnapshot, error) {
	p, s, err := w.launch(ctx, document)
	if err != nil || document == nil {
		return p, s, err
	}
	if err := w.checkResumed(document, s); err != nil {
		p.Kill()
		return nil, s, err
	}
	return p, s, nil
}

// checkResumed returns an error if a world began with another state than the document. In a realtime world,
// time may have passed.
func (w *World) checkResumed(document []byte, now segno.WorldSnapshot) error {
	saved, err := world.ReadHeader(document)
	if err != nil {
		return err
	}
	h, err := world.ReadHeader(now.Document)
	if err != nil {
		return err
	}
	isSame := bytes.Equal(document, now.Document)
	if w.config.Runtime.Mode == modeRealtime {
		isSame = h.Format == saved.Format && h.Content == saved.Content && h.Seq >= saved.Seq && h.Time >= saved.Time
	}
	if !isSame {
		return segno.Errorf(segno.KindCorrupt, "resume world", w.config.Name, "the world did not begin with the document").
			WithHint("the command must load the file WORLD_RESUME_PATH, or exit")
	}
	return nil
}

// Close ends the process of the world.
func (w *World) Close() error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	w.process.Stop(stopGrace)
	return nil
}

// PID returns the process id of the world, which is also the id of its process group.
func (w *World) PID() int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.process.PID()
}

// Port returns the port of the API.
func (w *World) Port() int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.process.port
}

// URL returns the address of the API, for agents.
func (w *World) URL() string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.process.client.url
}

// Info implements [segno.World].
func (w *World) Info() segno.WorldInfo { return w.info }

// Join implements [segno.World].
func (w *World) Join(ctx context.Context, session, name string) error {
	if err := segno.CheckID("join world", session); err != nil {
		return err
	}
	body, err := json.Marshal(joinRequest{Name: name})
	if err != nil {
		return err
	}
	_, err = w.call(ctx, "join world", http.MethodPost, "/join", session, body)
	return err
}

// Act implements [segno.World].
func (w *World) Act(ctx context.Context, session string, action json.RawMessage) (segno.Observation, error) {
	return w.call(ctx, "act", http.MethodPost, "/act", session, action)
}

// Observe implements [segno.World].
func (w *World) Observe(ctx context.Context, session string) (segno.Observation, error) {
	return w.call(ctx, "observe", http.MethodGet, "/observe", session, nil)
}

// Advance implements [segno.World]. A realtime world refuses.
func (w *World) Advance(ctx context.Context, d time.Duration) error {
	if w.info.Tick == 0 {
		return segno.Errorf(segno.KindRefused, "advance world", w.info.Name, "its time moves without segno")
	}
	if d <= 0 || d%w.info.Tick != 0 {
		return segno.Errorf(segno.KindInvalid, "advance world", d.String(), "the duration is not a positive multiple of %s", w.info.Tick)
	}
	body, err := json.Marshal(advanceRequest{Seconds: segno.SimTime(d)})
	if err != nil {
		return err
	}
	_, err = w.call(ctx, "advance world", http.MethodPost, "/advance", "", body)
	return err
}

// Snapshot implements [segno.World].
func (w *World) Snapshot(ctx context.Context) (segno.WorldSnapshot, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.process.client.snapshot(ctx)
}

func (c *client) snapshot(ctx context.Context) (segno.WorldSnapshot, error) {
	data, err := c.call(ctx, "save world", http.MethodGet, "/snapshot", "", nil)
	if err != nil {
		return segno.WorldSnapshot{}, err
	}
	h, err := world.ReadHeader(data)
	return segno.WorldSnapshot{Seq: h.Seq, Time: h.Time, Document: data}, err
}

// Load implements [segno.World]. It starts the command a second time with the document. It stops the
// first process once it has verified that the second one is the saved world.
func (w *World) Load(ctx context.Context, document []byte) error {
	h, err := world.ReadHeader(document)
	if err != nil {
		return err
	}
	if h.Format != w.info.Format || h.Content != w.info.Content {
		return segno.Errorf(segno.KindRefused, "load world", w.info.Name, "the document is of %q with another content", h.Format).
			WithHint("load it into the version of the world that wrote it")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now, err := w.process.client.snapshot(ctx)
	if err != nil {
		return err
	}
	if w.loaded || now.Seq != 0 {
		return segno.Errorf(segno.KindRefused, "load world", w.info.Name, "the world was used already").WithHint("load into a new world")
	}
	p, _, err := w.start(ctx, document)
	if err != nil {
		return err
	}
	w.process.Stop(stopGrace)
	w.process, w.loaded = p, true
	return nil
}

// call makes a request to the world and checks that the answer is JSON.
func (w *World) call(ctx context.Context, op, method, path, session string, body []byte) ([]byte, error) {
	if strings.TrimSpace(session) != session || strings.ContainsFunc(session, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, segno.Errorf(segno.KindInvalid, op, w.info.Name, "the session is not printable ASCII, which a header can have")
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	data, err := w.process.client.call(ctx, op, method, path, session, body)
	if err == nil && !json.Valid(data) {
		err = errors.New("the answer is not JSON")
	}
	if err != nil {
		return nil, segno.NewError(segno.KindOf(err), op, w.info.Name, err)
	}
	return data, nil
}
