package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/dalsegno/segno/timeline"
)

var errKilled = errors.New("killed")

// crashingStore is a store whose process is killed after some commits.
type crashingStore struct {
	*sqlite.Store
	left int
}

func (m *crashingStore) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	if m.left == 0 {
		return segno.Head{}, errKilled
	}
	m.left--
	return m.Store.Commit(ctx, c)
}

// forEver is the life of a process that is not killed.
const forEver = -1

// hookRig is a project and an agent's home, with sessions older than segno's hooks.
type hookRig struct {
	*testing.T
	project string
	place   local.Place
}

func newBench(t *testing.T) *hookRig {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "home")
	d := &hookRig{T: t, project: filepath.Join(dir, "project"), place: local.Place{Store: filepath.Join(dir, "store"),
		UserHome: home, Homes: local.Homes{"claude": filepath.Join(home, ".claude")}, Now: time.Now}}
	if err := os.Mkdir(d.project, 0o755); err != nil {
		t.Fatal(err)
	}
	return d
}

// session is the transcript of one session of the project.
func (d *hookRig) session(id string) *transcriptWriter {
	r := &transcriptWriter{session: id, cwd: d.project}
	r.open(d.place.Homes["claude"], d.project, id)
	return r
}

// say adds a prompt and its answer.
func (d *hookRig) say(r *transcriptWriter, prompt string) {
	d.Helper()
	r.promptID = prompt
	r.user(prompt)
	r.assistant("answer to " + prompt)
	if err := r.flush(); err != nil {
		d.Fatal(err)
	}
}

func (d *hookRig) write(content string) {
	d.Helper()
	if err := os.WriteFile(filepath.Join(d.project, "f"), []byte(content), 0o644); err != nil {
		d.Fatal(err)
	}
}

// command writes the file with a command in an open turn.
func (d *hookRig) command(key, content string) {
	d.Helper()
	call := func(kind segno.EntryKind, body string) {
		err := d.hook(forEver, func(rec *timeline.Timeline) error {
			return rec.Spool.AppendEntry(d.Context(), segno.TurnKey(key),
				segno.Entry{Kind: kind, ID: "call of " + key, Name: "Bash", Time: time.Now(), Body: json.RawMessage(body)})
		})
		if err != nil {
			d.Error(err)
		}
	}
	call(segno.EntryIntent, `{"command":"make"}`)
	d.write(content)
	call(segno.EntryResult, `{"response":"ok"}`)
}

// hook runs do as a hook whose process is killed after life commits.
func (d *hookRig) hook(life int, do func(r *timeline.Timeline) error) error {
	d.Helper()
	s, err := d.place.Open(d.Context())
	if err != nil {
		d.Fatal(err)
	}
	defer s.Close()
	rec, err := s.Register(d.Context(), d.project)
	if err != nil {
		d.Fatal(err)
	}
	tl, err := s.Timeline(rec, nil)
	if err != nil {
		d.Fatal(err)
	}
	if life != forEver {
		tl.Store = &crashingStore{s.Store, life}
	}
	return do(tl)
}

func (d *hookRig) source(r *transcriptWriter) segno.Source {
	return segno.Source{Session: segno.SessionID(r.session), Path: r.file, Dir: d.project}
}

func (d *hookRig) begin(r *transcriptWriter, key string) {
	d.Helper()
	err := d.hook(forEver, func(rec *timeline.Timeline) error {
		_, err := rec.BeginTurn(d.Context(), timeline.Prompt{Key: segno.TurnKey(key), Agent: "claude", Source: d.source(r), Text: key})
		return err
	})
	if err != nil {
		d.Errorf("begin %s: %v", key, err)
	}
}

func (d *hookRig) end(life int, r *transcriptWriter, key string) error {
	d.Helper()
	return d.hook(life, func(rec *timeline.Timeline) error {
		_, err := rec.EndTurn(d.Context(), timeline.TurnEnd{Key: segno.TurnKey(key), Agent: "claude", Source: d.source(r)})
		return err
	})
}

// turn plays a whole turn of a session.
func (d *hookRig) turn(r *transcriptWriter, key, content string) {
	d.Helper()
	d.begin(r, key)
	d.say(r, key)
	d.command(key, content)
	if err := d.end(forEver, r, key); err != nil {
		d.Errorf("end %s: %v", key, err)
	}
}

// line returns the turns of a session's thread, oldest first. For a fork, the turns of the source
// thread come before its own.
func (d *hookRig) line(r *transcriptWriter) (line []string) {
	d.Helper()
	s, err := d.place.Open(d.Context())
	if err != nil {
		d.Fatal(err)
	}
	defer s.Close()
	for th, err := range s.Threads(d.Context(), segno.ThreadQuery{}) {
		if err != nil {
			d.Fatal(err)
		}
		head, err := s.Head(d.Context(), th.ID)
		if err != nil {
			d.Fatal(err)
		}
		if head.Link.Session != segno.SessionID(r.session) {
			continue
		}
		if line != nil {
			d.Errorf("two threads stand on session %s", r.session)
		}
		loaded, err := s.Load(d.Context(), head.Head, segno.Window{})
		if err != nil {
			d.Fatal(err)
		}
		for _, c := range loaded.Commits {
			if cp := c.Checkpoint; cp != nil && cp.Kind == segno.CheckpointTurn {
				line = append(line, fmt.Sprintf("t%d %s", cp.Turn, cp.Prompt))
			}
		}
	}
	return line
}

// checkConsistent checks every hash and every reference.
func (d *hookRig) checkConsistent() {
	d.Helper()
	s, err := d.place.Open(d.Context())
	if err != nil {
		d.Fatal(err)
	}
	defer s.Close()
	_, err = s.Check(d.Context(), segno.CheckPolicy{Trace: s.NewTrace()}, func(err error) bool {
		d.Errorf("check: %v", err)
		return true
	})
	if err != nil {
		d.Fatal(err)
	}
}

// TestAnAdoptionKilledAnywhere adopts a session of two turns, and kills the end of its first hooked
// turn after each of its commits. Files and transcript change before the end is repeated. The turn
// is recorded once, with its files, and so is the next turn.
func TestAnAdoptionKilledAnywhere(t *testing.T) {
	const most = 5 // the base, two turns, the files that they left, the turn
	for life := range most {
		t.Run(fmt.Sprintf("after %d commits", life), func(t *testing.T) {
			d := newBench(t)
			d.write("1")
			r := d.session("11111111-0000-4000-8000-000000000001")
			d.say(r, "old1")
			d.say(r, "old2")
			d.begin(r, "new1")
			d.say(r, "new1")
			d.command("new1", "2")
			if err := d.end(life, r, "new1"); !errors.Is(err, errKilled) {
				t.Fatalf("the end was not killed: %v", err)
			}
			d.write("something new that no object holds")
			r.assistant("and a last word")
			if err := r.flush(); err != nil {
				t.Fatal(err)
			}
			if err := d.end(forEver, r, "new1"); err != nil {
				t.Errorf("the end again: %v", err)
			}
			d.turn(r, "new2", "3")
			if got, want := d.line(r), []string{"t1 old1", "t2 old2", "t3 new1", "t4 new2"}; !slices.Equal(got, want) {
				t.Errorf("the line is %q, want %q", got, want)
			}
			if err := d.hook(forEver, func(rec *timeline.Timeline) error {
				m := rec
				_, err := m.Move(t.Context(), timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}, nil)
				return err
			}); err != nil {
				t.Errorf("undo: %v", err)
			}
			if got, err := os.ReadFile(filepath.Join(d.project, "f")); err != nil || string(got) != "something new that no object holds" {
				t.Errorf("undo of the last turn left %q %v", got, err)
			}
			d.checkConsistent()
		})
	}
}

// TestTwoForksOfASession forks a session twice at the same turn. The end of the first fork's first
// turn may be killed. Both forks have the shared turn as their parent, and continue its turn
// numbers.
func TestTwoForksOfASession(t *testing.T) {
	for _, life := range []int{forEver, 0, 1} {
		t.Run(fmt.Sprintf("life %d", life), func(t *testing.T) {
			d := newBench(t)
			d.write("1")
			r := d.session("11111111-0000-4000-8000-000000000001")
			d.say(r, "old1")
			d.say(r, "old2")
			d.turn(r, "new1", "2")
			for i, id := range []string{"22222222-0000-4000-8000-000000000002", "33333333-0000-4000-8000-000000000003"} {
				f, key := d.session(id), fmt.Sprintf("fork%d", i+1)
				if err := f.copyFrom(r.session); err != nil {
					t.Fatal(err)
				}
				d.begin(f, key)
				d.say(f, key)
				if i == 0 && life != forEver {
					if err := d.end(life, f, key); !errors.Is(err, errKilled) {
						t.Fatalf("the end was not killed: %v", err)
					}
				}
				if err := d.end(forEver, f, key); err != nil {
					t.Errorf("end %s: %v", key, err)
				}
				if got, want := d.line(f), []string{"t1 old1", "t2 old2", "t3 new1", "t4 " + key}; !slices.Equal(got, want) {
					t.Errorf("the line of fork %d is %q, want %q", i+1, got, want)
				}
			}
			if got, want := d.line(r), []string{"t1 old1", "t2 old2", "t3 new1"}; !slices.Equal(got, want) {
				t.Errorf("the line they were forked from is %q, want %q", got, want)
			}
			d.checkConsistent()
		})
	}
}
