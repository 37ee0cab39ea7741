package export_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web/export"
	"github.com/dalsegno/segno/secret"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/workspace"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixture is a store with a thread, and a directory.
type fixture struct {
	testing.TB
	store  segno.Store
	dir    string
	thread segno.ThreadID
	turns  int
	clock  time.Time
}

func newFixture(t testing.TB) *fixture {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	f := &fixture{TB: t, store: memory.New(nil), dir: dir, thread: "thread", clock: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	f.commit(segno.CheckpointBase, "", nil)
	return f
}

func (f *fixture) now() time.Time {
	f.clock = f.clock.Add(time.Second)
	return f.clock
}

func (f *fixture) write(name, content string) {
	f.Helper()
	file := filepath.Join(f.dir, name)
	must(f, os.MkdirAll(filepath.Dir(file), 0o755))
	must(f, os.WriteFile(file, []byte(content), 0o644))
}

// commit adds a checkpoint with the present files.
func (f *fixture) commit(kind segno.CheckpointKind, prompt string, entries []segno.Entry) segno.CommitID {
	f.Helper()
	ctx := f.Context()
	ws, err := workspace.Open(f.dir, workspace.Options{ID: "w", Objects: f.store.Objects()})
	must(f, err)
	b := f.store.Objects().Batch()
	defer b.Close()
	snapshot, err := ws.Snapshot(ctx, b)
	must(f, err)
	staged, err := b.Stage(ctx)
	must(f, err)
	c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: f.thread, Staged: staged, Entries: entries,
		Checkpoint: &segno.Checkpoint{Kind: kind, Turn: f.turns, Prompt: prompt, Agent: "claude", Workspace: &snapshot, Time: f.now()}}
	f.put(c)
	return c.ID
}

// put commits onto the head of the commit's thread, unless the commit has a parent.
func (f *fixture) put(c segno.Commit) {
	f.Helper()
	if head, err := f.store.Head(f.Context(), c.Thread); err == nil {
		c.Expect, c.Epoch = head.Head, head.Epoch
		if c.Parent == "" {
			c.Parent = head.Head
		}
	} else if c.Create == nil {
		c.Create = &segno.Thread{ID: c.Thread, Title: "a thread", Agent: "claude", Created: f.now()}
	}
	_, err := f.store.Commit(f.Context(), c)
	must(f, err)
}

func (f *fixture) turn(prompt string, entries ...segno.Entry) segno.CommitID {
	f.Helper()
	f.turns++
	all := append([]segno.Entry{f.message("user", prompt)}, entries...)
	return f.commit(segno.CheckpointTurn, prompt, all)
}

func (f *fixture) message(author, text string) segno.Entry {
	return segno.Entry{Kind: segno.EntryMessage, Name: author, Body: encoded(f, text), Time: f.now()}
}

func (f *fixture) note(text string) segno.Entry {
	return segno.Entry{Kind: segno.EntryNote, Name: "segno", Body: encoded(f, text), Time: f.now()}
}

// call returns the two entries of a call.
func (f *fixture) call(id, tool string, input, result any) []segno.Entry {
	return []segno.Entry{
		{Kind: segno.EntryIntent, ID: id, Name: tool, Body: encoded(f, input), Time: f.now()},
		{Kind: segno.EntryResult, ID: id, Name: tool, Body: encoded(f, result), Time: f.now()},
	}
}

func encoded(t testing.TB, v any) json.RawMessage {
	t.Helper()
	if raw, ok := v.(json.RawMessage); ok {
		return raw
	}
	data, err := json.Marshal(v)
	must(t, err)
	return data
}

// filter returns a filter that allows nothing.
func filter(t testing.TB) *export.Filter {
	t.Helper()
	scanner, err := secret.New(secret.Options{Key: []byte("key")})
	must(t, err)
	return &export.Filter{Scanner: scanner, Allowed: func(string) bool { return false }}
}

// source opens turns of the fixture's thread.
func (f *fixture) source(s export.Selection, by *export.Filter) export.Source {
	f.Helper()
	if s.Thread == "" {
		s.Thread = f.thread
	}
	src, err := (&export.Reader{Store: f.store, Diffs: true, Ranges: true}).Source(f.Context(), s, by, "1.2.3")
	must(f, err)
	return src
}

// written returns a source in a format.
func written(t testing.TB, format string, s export.Source) string {
	t.Helper()
	var b bytes.Buffer
	must(t, export.Write(&b, format, s))
	return b.String()
}

// turnsOf returns the names of the turns of a source.
func turnsOf(t testing.TB, s export.Source) (names []string) {
	t.Helper()
	for turn, err := range s.Turns() {
		must(t, err)
		name := turn.Name
		if turn.Checkpoint.Kind != segno.CheckpointTurn {
			name = string(turn.Checkpoint.Kind)
		}
		if turn.Undone {
			name += " undone"
		}
		if turn.Inherited {
			name += " inherited"
		}
		names = append(names, name)
	}
	return names
}

// sample returns a thread in which a turn has every kind of content.
func sample(t testing.TB) *fixture {
	f := newFixture(t)
	f.write("main.go", "package main\n\nfunc main() {}\n")
	f.write("picture.png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
	exit := 1
	f.turn("write a program", slices.Concat(
		f.call("c1", "Write", map[string]string{"file_path": "main.go"}, map[string]any{"response": map[string]string{"filePath": "main.go"}}),
		[]segno.Entry{f.message("agent", "I wrote **main.go**.")},
		f.call("c2", "Bash", map[string]string{"command": "go vet"}, map[string]any{"error": "Exit code 1", "exit": exit, "duration_ms": 12.5}),
		f.call("c3", "Bash", map[string]string{"command": "sleep 1"}, map[string]any{"response": "ok"})[:1],
		f.call("task", "Task", map[string]string{"description": "look"}, map[string]any{"response": "agent a1 found it"}),
		f.call("s1", "Grep", map[string]string{"pattern": "x"}, map[string]any{"response": "main.go:1", "agent": "a1"}),
		[]segno.Entry{f.note("the transcript could not be read in full: line 3: not JSON"), f.message("agent", "Done.")})...)
	f.write("main.go", "package main\n\nfunc main() { run() }\n")
	f.commit(segno.CheckpointExternal, "", nil)
	f.turn("say hello", f.message("agent", "Hello."))
	return f
}

// faulty fails reads of one commit or of one object.
type faulty struct {
	segno.Store
	commit segno.CommitID
	object segno.Hash
}

func (s faulty) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	if at == s.commit && w.Entries {
		return nil, segno.Errorf(segno.KindCorrupt, "load", string(at), "its checksum is wrong")
	}
	return s.Store.Load(ctx, at, w)
}

func (s faulty) Objects() segno.Objects { return faultyObjects{s.Store.Objects(), s.object} }

type faultyObjects struct {
	segno.Objects
	object segno.Hash
}

func (o faultyObjects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	if name == o.object {
		return nil, segno.NewError(segno.KindNotFound, "get object", name.String(), nil)
	}
	return o.Objects.Get(ctx, name)
}

// made returns a source of n turns that turn makes.
func made(n int, turn func(i int) *export.Turn) export.Source {
	return export.Source{Header: export.Header{Thread: "t", Title: "made", Agent: "claude", Count: n}, Turns: func() iter.Seq2[*export.Turn, error] {
		return func(yield func(*export.Turn, error) bool) {
			for i := range n {
				t := turn(i)
				t.Name = fmt.Sprintf("t%d", i+1)
				t.Checkpoint.Kind, t.Checkpoint.ID, t.Checkpoint.Agent = segno.CheckpointTurn, segno.CommitID(t.Name), "claude"
				if !yield(t, nil) {
					return
				}
			}
		}
	}}
}
