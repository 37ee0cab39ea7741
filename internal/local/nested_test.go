package local_test

import (
	"context"
	"encoding/json"
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
		moved := g.undo(timeline.MoveRequest{})
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
