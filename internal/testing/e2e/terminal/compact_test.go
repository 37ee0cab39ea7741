package terminal_test

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestCompactFirstInTheTerminal resumes a session in the terminal with /compact as
// its first prompt, and compacts again later, between two turns.
func TestCompactFirstInTheTerminal(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		session := s.Say(e2erig.Prompt("alpha", s.Writes("a.txt", "1\n"), "one"))
		s.Say(e2erig.Prompt("beta", e2erig.Bash("echo 2 > a.txt"), "two"), "--resume", session)
		tui := s.TUI("--resume", session)
		if err := tui.Compact(s.Ctx); err != nil {
			s.Fatal(err)
		}
		s.Type(tui, e2erig.Prompt("gamma", e2erig.Bash("echo 3 > a.txt"), "answer three"), "answer three")
		if e2erig.Said(s.CallFor("gamma"), "alpha") {
			s.Fatal("the agent did not compact")
		}
		if err := tui.Compact(s.Ctx); err != nil {
			s.Fatal(err)
		}
		s.Type(tui, e2erig.Prompt("delta", e2erig.Bash("echo 4 > a.txt"), "answer four"), "answer four")
		s.OnOneLine("alpha", "beta", "gamma", "delta")
		s.Segno("undo", "2", "-y")
		if got := s.Read("a.txt"); got != "2\n" || s.Head().Turn != 2 {
			s.Errorf("undo of the turns since the compaction left %q at t%d", got, s.Head().Turn)
		}
	})
}
