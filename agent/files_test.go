package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/store/file"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/dalsegno/segno/timeline"
)

// project is an agent that works in a directory.
type project struct {
	*testing.T
	*agent.Agent
	dir string
}

func newProject(t *testing.T, approve agent.Approver) *project {
	t.Helper()
	p := &project{T: t, dir: t.TempDir()}
	p.write("mine.txt", "mine")
	store := memory.New(time.Now)
	site, err := agent.OpenTimeline(t.Context(), store, p.dir, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	p.Agent = agent.New(agent.Config{Model: offline.New(), Store: store, Timeline: site, Tools: tool.Deep(p.dir, root), Approve: approve})
	return p
}

func (p *project) write(name, text string) {
	p.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
		p.Fatal(err)
	}
}

// holds checks that the directory contains these files and no others.
func (p *project) holds(want map[string]string) {
	p.Helper()
	got, err := os.ReadDir(p.dir)
	if err != nil {
		p.Fatal(err)
	}
	for _, e := range got {
		text, err := os.ReadFile(filepath.Join(p.dir, e.Name()))
		if err != nil {
			p.Fatal(err)
		}
		if w, ok := want[e.Name()]; !ok || w != string(text) {
			p.Errorf("%s holds %q; want %q", e.Name(), text, w)
		}
	}
	if len(got) != len(want) {
		p.Errorf("%d files; want %d", len(got), len(want))
	}
}

func (p *project) prompt(text string) agent.Outcome {
	p.Helper()
	o, err := p.Agent.Run(p.Context(), agent.Input{Thread: "t", Prompt: text})
	if err != nil {
		p.Fatal(err)
	}
	return o
}

func (p *project) moved(w agent.Status, err error) agent.Status {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
	return w
}

func TestUndoMovesTheFilesOfATurn(t *testing.T) {
	p := newProject(t, nil)
	p.prompt("write a.txt: one\nrun echo shell > b.txt")
	p.write("between.txt", "a person's")
	p.prompt("write a.txt: two\nrun rm b.txt mine.txt")
	p.holds(map[string]string{"a.txt": "two", "between.txt": "a person's"})

	if w := p.moved(p.Undo(t.Context(), "t", 1)); w.Turn != 1 || w.Messages != 6 {
		t.Errorf("after the undo: %+v", w)
	}
	p.holds(map[string]string{"a.txt": "one", "b.txt": "shell\n", "mine.txt": "mine", "between.txt": "a person's"})
	p.moved(p.Undo(t.Context(), "t", 1))
	p.holds(map[string]string{"mine.txt": "mine", "between.txt": "a person's"})
	p.moved(p.Redo(t.Context(), "t", 2))
	p.holds(map[string]string{"a.txt": "two", "between.txt": "a person's"})

	p.moved(p.Undo(t.Context(), "t", 1))
	if o := p.prompt("read a.txt"); o.Text == "" {
		t.Error("no answer after an undo")
	}
}

func TestUndoTakesBackATurnThatWaits(t *testing.T) {
	p := newProject(t, agent.RequireApproval("execute"))
	p.prompt("say hello")
	o := p.prompt("write a.txt: one\nrun echo 1 >> a.txt")
	if len(o.Interrupts) != 1 {
		t.Fatalf("it waits for %d decisions", len(o.Interrupts))
	}
	p.holds(map[string]string{"a.txt": "one", "mine.txt": "mine"})
	if w := p.moved(p.Undo(t.Context(), "t", 1)); w.Turn != 1 || len(w.Interrupts) != 0 {
		t.Errorf("after the undo: %+v", w)
	}
	p.holds(map[string]string{"mine.txt": "mine"})
	w := p.moved(p.Redo(t.Context(), "t", 1))
	p.holds(map[string]string{"a.txt": "one", "mine.txt": "mine"})
	if len(w.Interrupts) != 1 || w.Interrupts[0].ID == "" {
		t.Fatalf("after the redo it waits for %d decisions", len(w.Interrupts))
	}
	if _, err := p.Agent.Run(t.Context(), agent.Input{Thread: "t", Decide: []segno.Decision{{Interrupt: w.Interrupts[0].ID, Kind: segno.Approve}}}); err != nil {
		t.Fatal(err)
	}
	p.holds(map[string]string{"a.txt": "one1\n", "mine.txt": "mine"})
}

func TestAPersonsEditAfterATurnIsKept(t *testing.T) {
	p := newProject(t, nil)
	p.prompt("write a.txt: one")
	p.write("a.txt", "edited")
	w := p.moved(p.Undo(t.Context(), "t", 1))
	if len(w.Conflicts) != 1 || w.Conflicts[0].Path != "a.txt" {
		t.Errorf("conflicts: %v", w.Conflicts)
	}
	p.holds(map[string]string{"a.txt": "edited", "mine.txt": "mine"})
}

// TestATurnBesideTheOpenTurnOfADeadAgent has an agent with sessions that was killed in the middle of its turn, before the turn of a
// Go agent begins in the directory.
func TestATurnBesideTheOpenTurnOfADeadAgent(t *testing.T) {
	p := newProject(t, nil)
	dead := exec.Command("sleep", "1000")
	if err := dead.Start(); err != nil {
		t.Fatal(err)
	}
	_, err := p.Timeline.BeginTurn(t.Context(), timeline.Prompt{Key: "k", Agent: "test", Text: "go", Source: segno.Source{Session: "s", Dir: p.dir},
		Process: spool.TurnProcess(dead.Process.Pid)})
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = dead.Wait() // it was killed
	p.prompt("run for f in *; do echo changed > $f; done")
	if w := p.moved(p.Undo(t.Context(), "t", 1)); len(w.Conflicts) > 0 {
		t.Errorf("conflicts: %v", w.Conflicts)
	}
	p.holds(map[string]string{"mine.txt": "mine"})
}

// TestAStoreIsNotKeptAmongTheFilesItSaves checks that a directory that contains the store is refused. If
// the store were saved in itself, an undo would replace it by an older one.
func TestAStoreIsNotKeptAmongTheFilesItSaves(t *testing.T) {
	dir := t.TempDir()
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "agent.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	logs, err := file.Open(t.Context(), filepath.Join(dir, "threads"), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	linked, err := file.Open(t.Context(), filepath.Join(link, "to come"), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer linked.Close()
	for name, store := range map[string]segno.Store{"sqlite": db, "file": logs, "file, by a link": linked} {
		if _, err := agent.OpenTimeline(t.Context(), store, dir, t.TempDir()); segno.KindOf(err) != segno.KindRefused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestASiteOfAnotherStoreIsRefused(t *testing.T) {
	store, other := memory.New(nil), memory.New(nil)
	site, err := agent.OpenTimeline(t.Context(), other, t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_, err = agent.New(agent.Config{Model: offline.New(), Store: store, Timeline: site}).Run(t.Context(), agent.Input{Thread: "t", Prompt: "say hi"})
	if segno.KindOf(err) != segno.KindInvalid || !strings.Contains(err.Error(), "another store") {
		t.Errorf("%v", err)
	}
	if _, err := other.Head(t.Context(), "t"); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("the thread is in the site's store: %v", err)
	}
}
