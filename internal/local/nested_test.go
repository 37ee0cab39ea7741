package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// TestUndoBesideAnAgentInANestedWorktree runs a command in a turn of a project, while another agent works in a git worktree inside the
// project, which is another workspace. An undo of the turn does not change the files of the other agent. It does
// change a file of the worktree that a tool of the turn named, and one that only its command changed.
func TestUndoBesideAnAgentInANestedWorktree(t *testing.T) {
	for _, isOpen := range []bool{false, true} {
		g := newFixture(t)
		inner := *g
		inner.project = filepath.Join(g.project, ".claude/worktrees/feature")
		g.write("main", "0")
		inner.write(".git", "gitdir: elsewhere\n")
		for _, name := range []string{"theirs", "named", "made"} {
			inner.write(name, "0")
		}
		if err := inner.withTimeline(nil, func(context.Context, *local.Store, *timeline.Timeline) error { return nil }); err != nil {
			t.Fatal(err)
		}
		g.beginAs("one", "k1", 0, nil)
		command := func(kind segno.EntryKind, body string) {
			e := segno.Entry{Kind: kind, ID: "command", Name: "Bash", Time: g.place.Now(), Body: json.RawMessage(body)}
			if err := g.place.Spool().AppendEntry(t.Context(), "k1", e); err != nil {
				t.Fatal(err)
			}
		}
		command(segno.EntryIntent, `{"command":"make test"}`)
		inner.beginAs("two", "k2", 0, nil)
		inner.tool("k2", "theirs", "of the other agent")
		if !isOpen {
			inner.endAs("two", "k2", nil)
		}
		g.write("main", "1")
		inner.write("made", "1")
		command(segno.EntryResult, `{"response":"ok"}`)
		inner.tool("k1", "named", "1")
		g.endAs("one", "k1", nil)
		moved := g.undo(timeline.MoveRequest{WhileRunning: isOpen})
		want := map[string]string{g.project + "/main": "0", inner.project + "/theirs": "of the other agent", inner.project + "/named": "0",
			inner.project + "/made": "0"}
		if isOpen {
			want[inner.project+"/made"] = "1" // either agent may have changed it
		}
		for name, content := range want {
			if got, err := os.ReadFile(name); err != nil || string(got) != content {
				t.Errorf("with an open turn: %v; %s is %q instead of %q, %v", isOpen, name, got, content, err)
			}
		}
		if !slices.ContainsFunc(moved.Plan.Conflicts, func(c segno.Conflict) bool { return c.Path == ".claude/worktrees/feature/theirs" }) {
			t.Errorf("with an open turn: %v; the conflicts are %+v", isOpen, moved.Plan.Conflicts)
		}
	}
}

// TestUndoInAWorktreeBesideAnAgentOfTheProject runs a command in a turn in a git worktree, while an agent of the project, which is
// another workspace, writes a file of the worktree. An undo of the turn does not change that file. It does change the files that a
// tool of the turn named, and those that only its command changed.
func TestUndoInAWorktreeBesideAnAgentOfTheProject(t *testing.T) {
	for _, isOpen := range []bool{false, true} {
		g := newFixture(t)
		inner := *g
		inner.project = filepath.Join(g.project, "worktrees/feature")
		g.write("main", "0")
		inner.write(".git", "gitdir: elsewhere\n")
		for _, name := range []string{"theirs", "before", "named", "made"} {
			inner.write(name, "0")
		}
		if err := inner.withTimeline(nil, func(context.Context, *local.Store, *timeline.Timeline) error { return nil }); err != nil {
			t.Fatal(err)
		}
		g.beginAs("one", "k1", 0, nil)
		g.tool("k1", "worktrees/feature/before", "1")
		inner.beginAs("two", "k2", 0, nil)
		inner.note("k2", segno.Entry{Kind: segno.EntryIntent, ID: "command", Name: "Bash", Time: g.place.Now(), Body: json.RawMessage(`{"command":"make test"}`)})
		g.tool("k1", "worktrees/feature/theirs", "of the agent of the project")
		inner.write("made", "1")
		inner.write("before", "2")
		inner.note("k2", segno.Entry{Kind: segno.EntryResult, ID: "command", Name: "Bash", Time: g.place.Now(), Body: json.RawMessage(`{"response":"ok"}`)})
		inner.tool("k2", "named", "1")
		inner.endAs("two", "k2", nil)
		if !isOpen {
			g.endAs("one", "k1", nil)
		}
		moved := inner.undo(timeline.MoveRequest{})
		for name, content := range map[string]string{"theirs": "of the agent of the project", "before": "1", "named": "0", "made": "0"} {
			if got, err := os.ReadFile(filepath.Join(inner.project, name)); err != nil || string(got) != content {
				t.Errorf("open %v: %s is %q instead of %q, %v", isOpen, name, got, content, err)
			}
		}
		if c := moved.Plan.Conflicts; len(c) != 1 || c[0].Path != "theirs" {
			t.Errorf("open %v: the conflicts are %+v", isOpen, c)
		}
	}
}

// TestMovesOverAnAgentInANestedWorktree makes moves in a project while an agent works in a git worktree inside the project. A move
// that writes files of the worktree is refused, like one in the workspace of the agent.
func TestMovesOverAnAgentInANestedWorktree(t *testing.T) {
	g := newFixture(t)
	inner := *g
	inner.project = filepath.Join(g.project, "worktrees/feature")
	g.write("main", "0")
	inner.write(".git", "gitdir: elsewhere\n")
	inner.write("theirs", "0")
	if err := inner.withTimeline(nil, func(context.Context, *local.Store, *timeline.Timeline) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := g.turn("A", func() { g.write("main", "1") }); err != nil {
		t.Fatal(err)
	}
	cs, head := g.checkpoints()
	inner.beginAs("two", "k2", 0, nil)
	inner.tool("k2", "theirs", "of the agent")
	restore := timeline.MoveRequest{Verb: segno.VerbRestore, To: head.Head, Scope: timeline.ScopeFiles, Thread: cs[0].Thread}
	_, err := g.move(nil, restore)
	var open *timeline.TurnOpenError
	if segno.KindOf(err) != segno.KindRefused || !errors.As(err, &open) || open.Turn.Key != "k2" {
		t.Errorf("the restore ended with %v", err)
	}
	if got, err := os.ReadFile(filepath.Join(inner.project, "theirs")); err != nil || string(got) != "of the agent" {
		t.Errorf("the file of the agent is %q, %v", got, err)
	}
	g.undo(timeline.MoveRequest{}) // it writes no file of the worktree
	restore.WhileRunning = true
	if _, err := g.move(nil, restore); err != nil {
		t.Error(err)
	}
}
