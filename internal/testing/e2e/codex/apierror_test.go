package codex_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// ends returns how many ends of turns Codex has recorded.
func ends(s *e2erig.Stage, agent *agentrig.Codex) int {
	s.Helper()
	text := rolloutText(s, agent)
	return strings.Count(text, `"task_complete"`) + strings.Count(text, `"turn_aborted"`)
}

// waitForEnd waits until Codex has recorded the ends of n turns.
func waitForEnd(s *e2erig.Stage, agent *agentrig.Codex, n int) {
	s.Helper()
	s.Poll("the record of the end of a turn", func() bool { return ends(s, agent) >= n })
}

// TestUndoAfterAnAPIError undoes a turn that an error of the model ended. Codex runs no Stop hook for it, and its terminal
// stays open. The turn's changes are undone, and those of the user after it stay.
func TestUndoAfterAnAPIError(t *testing.T) {
	withHooks(t, drawn(t), map[string]string{"a.txt": "0\n", "yours.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		term := open(s, agent)
		term.send("alpha", "echo 1 > z.txt")
		waitForTurns(s, 1)
		waitForEnd(s, agent, 1)
		term.submit(e2erig.Prompt("beta", shell("echo 2 > a.txt; echo 2 > b.txt"), map[string]any{"error": 400}))
		waitForEnd(s, agent, 2)
		s.Write("yours.txt", "mine\n")
		s.Write("new.txt", "mine\n")
		s.Segno("undo", "-y")
		if s.Exists("b.txt") || !s.Exists("new.txt") || !s.Exists("z.txt") {
			s.Fatalf("files after undo:\n%s", s.Tree())
		}
		if got := s.Read("a.txt") + s.Read("yours.txt"); got != "0\nmine\n" {
			s.Errorf("undo left %q", got)
		}
		if c := s.Turns()[1]; !c.Interrupted || c.Partial || c.Files.Added != 1 || c.Files.Modified != 1 {
			s.Errorf("the failed turn is %+v", c)
		}
	})
}

// TestEditAfterAnAPIError works after an error of the model that ended a turn before it made a call. The next prompt records
// the failed turn without the user's work.
func TestEditAfterAnAPIError(t *testing.T) {
	withHooks(t, drawn(t), map[string]string{"yours.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		term := open(s, agent)
		term.submit(e2erig.Prompt("alpha", map[string]any{"error": 429}))
		waitForEnd(s, agent, 1)
		s.Write("yours.txt", "mine\n")
		s.Write("new.txt", "mine\n")
		term.send("beta", "echo 2 > b.txt")
		waitForTurns(s, 2)
		if got, want := e2erig.Prompts(s.Turns()), []string{"alpha", "beta"}; !slices.Equal(got, want) {
			s.Fatalf("turns %q, want %q", got, want)
		}
		s.Segno("undo", "2", "-y")
		if s.Exists("b.txt") || !s.Exists("new.txt") || s.Read("yours.txt") != "mine\n" {
			s.Errorf("files after undo:\n%s", s.Tree())
		}
	})
}
