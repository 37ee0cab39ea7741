package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/web"
	"github.com/dalsegno/segno/timeline"
)

// moveRig is a server for a store of this machine with one thread of three turns. Turn n writes "n" into the
// file a.txt, and the line n of lines.txt.
type moveRig struct {
	*testing.T
	dir, project string
	store        *local.Store
	rec          segno.WorkspaceRecord
	timeline     *timeline.Timeline
	thread       segno.ThreadID
	turns        []*segno.Checkpoint
	now          time.Time
	actor        string // of the moves; "" sends none

	server         *web.Server
	address, token string
	stop           func()
}

func newMoveRig(t *testing.T) *moveRig {
	r := &moveRig{T: t, dir: t.TempDir(), now: time.Now(), token: web.NewToken()}
	r.project = filepath.Join(r.dir, "project")
	if err := os.MkdirAll(r.project, 0o755); err != nil {
		t.Fatal(err)
	}
	r.openStore()
	for n := 1; n <= 3; n++ {
		r.turn(n)
	}
	r.serve()
	return r
}

// openStore opens the store and the workspace.
func (r *moveRig) openStore() {
	r.Helper()
	place := local.Place{Store: filepath.Join(r.dir, "store"), UserHome: filepath.Join(r.dir, "home"), Now: time.Now}
	var err error
	if r.store, err = place.Open(r.Context()); err == nil {
		r.rec, err = r.store.Register(r.Context(), r.project)
	}
	if err == nil {
		r.timeline, err = r.store.Timeline(r.rec, nil)
	}
	if err != nil {
		r.Fatal(err)
	}
	store := r.store
	r.Cleanup(func() { store.Close() })
}

// begin begins turn n.
func (r *moveRig) begin(n int) segno.TurnKey {
	r.Helper()
	key := segno.TurnKey(fmt.Sprintf("key-%d", n))
	_, err := r.timeline.BeginTurn(r.Context(), timeline.Prompt{Key: key, Agent: "robot", Source: segno.Source{Session: "session", Dir: r.project},
		Text: fmt.Sprintf("prompt %d", n), Process: timeline.Process{PID: os.Getpid()}})
	if err != nil {
		r.Fatal(err)
	}
	return key
}

// turn makes turn n.
func (r *moveRig) turn(n int) {
	r.Helper()
	key := r.begin(n)
	r.write("a.txt", fmt.Sprint(n))
	lines := ""
	for i := range n {
		lines += fmt.Sprintf("line %d\n", i+1)
	}
	r.write("lines.txt", lines)
	r.end(key)
}

// endOf returns the end of a turn.
func endOf(r *moveRig, key segno.TurnKey) timeline.TurnEnd {
	return timeline.TurnEnd{Key: key, Agent: "robot", Source: segno.Source{Session: "session", Dir: r.project}}
}

// end ends a turn.
func (r *moveRig) end(key segno.TurnKey) *segno.Checkpoint {
	r.Helper()
	c, err := r.timeline.EndTurn(r.Context(), endOf(r, key))
	if err != nil {
		r.Fatal(err)
	}
	r.thread, r.turns = c.Thread, append(r.turns, c)
	return c
}

func (r *moveRig) write(name, content string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.project, name), []byte(content), 0o644); err != nil {
		r.Fatal(err)
	}
}

// file checks the content of a file of the project.
func (r *moveRig) file(name, want string) {
	r.Helper()
	if data, err := os.ReadFile(filepath.Join(r.project, name)); err != nil || string(data) != want {
		r.Errorf("%s has %q (%v), not %q", name, data, err, want)
	}
}

func (r *moveRig) serve() { r.serveConfig(web.Config{Store: r.store, Local: r.store, Kind: "sqlite"}) }

func (r *moveRig) serveConfig(c web.Config) {
	r.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	c.Token, c.Now = r.token, func() time.Time { return r.now }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	r.server = web.New(c.Patient(), l)
	go func() { ended <- r.server.Serve(ctx) }()
	r.address = "http://" + l.Addr().String() + "/api/v1"
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			r.Errorf("the server ended with %v", err)
		}
	}
	r.Cleanup(r.stop)
}

// answer is the body of any answer to a move.
type answer struct {
	ID       string   `json:"id"`
	Summary  []string `json:"summary"`
	Title    string   `json:"title"`
	Sentence string   `json:"sentence"`
	Steps    []struct{ Path, Sign string }
	Forced   []struct{ Path string }
	Dir      string `json:"dir"`
	Final    bool   `json:"final"`

	Conflicts  []struct{ Path, Why, Diff string }
	Totals     struct{ Conflicts int }
	Files      int
	NeedsForce bool            `json:"needs_force"`
	Operation  string          `json:"operation"`
	Head       segno.CommitID  `json:"head"`
	Tip        segno.CommitID  `json:"tip"`
	Run        []string        `json:"run"`
	Undo       json.RawMessage `json:"undo"`
	Notice     string          `json:"notice"`
	Fork       *struct {
		Thread segno.ThreadID
		Dir    string
	}
	Kind, Detail, Hint string

	status int
	raw    string
}

// post sends a request with a body and reads the answer.
func (r *moveRig) post(path, key, body string) (a answer) {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, r.address+path, bytes.NewReader([]byte(body)))
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if r.actor != "" && key != "" {
		req.Header.Set("Segno-Actor", r.actor)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err == nil {
		err = json.Unmarshal(data, &a)
	}
	if err != nil {
		r.Fatalf("%s: %s: %v", path, data, err)
	}
	a.status, a.raw = res.StatusCode, string(data)
	return a
}

// decode decodes the body of an answer.
func (r *moveRig) decode(a answer, v any) {
	r.Helper()
	if err := json.Unmarshal([]byte(a.raw), v); err != nil {
		r.Fatalf("%s: %v", a.raw, err)
	}
}

// preview previews a move. fields are the fields of the request without the thread.
func (r *moveRig) preview(fields string) answer {
	r.Helper()
	a := r.post("/previews", "", `{"thread":"`+string(r.thread)+`",`+fields+`}`)
	if a.status != http.StatusCreated {
		r.Fatalf("the preview of %s returns %d %s", fields, a.status, a.raw)
	}
	return a
}

// apply makes a previewed move with a new key.
func (r *moveRig) apply(p answer, more string) answer {
	r.Helper()
	return r.applyAs(segno.NewID(), p, more)
}

func (r *moveRig) applyAs(key string, p answer, more string) answer {
	r.Helper()
	return r.post("/moves", key, `{"preview":"`+p.ID+`"`+more+`}`)
}

// move previews and makes a move.
func (r *moveRig) move(fields string) answer {
	r.Helper()
	a := r.apply(r.preview(fields), "")
	if a.status != http.StatusOK {
		r.Fatalf("the move %s returns %d %s", fields, a.status, a.raw)
	}
	return a
}

// undo makes the move that undoes another one.
func (r *moveRig) undo(a answer) answer {
	r.Helper()
	p := r.post("/previews", "", string(a.Undo))
	if p.status != http.StatusCreated {
		r.Fatalf("the preview of %s returns %d %s", a.Undo, p.status, p.raw)
	}
	back := r.apply(p, "")
	if back.status != http.StatusOK {
		r.Fatalf("the undo %s returns %d %s", a.Undo, back.status, back.raw)
	}
	return back
}

// refused checks the status, the kind and a part of the text of an error.
func (r *moveRig) refused(a answer, status int, kind, detail string) {
	r.Helper()
	if a.status != status || a.Kind != kind || !bytes.Contains([]byte(a.raw), []byte(detail)) {
		r.Errorf("the answer is %d %s, not %d with kind %s and %q", a.status, a.raw, status, kind, detail)
	}
}
