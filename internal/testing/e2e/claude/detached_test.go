package claude_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestACommandDetachesAProcess lets commands detach a process that goes on after the turn, and one that ends during it. The turn names the
// first one, and an undo leaves what that process changes later.
func TestACommandDetachesAProcess(t *testing.T) {
	e2erig.ScenarioIfDrawn(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		signal := filepath.Join(t.TempDir(), "signal")
		s.Cleanup(func() { _ = os.WriteFile(signal, nil, 0o600) }) // ends the process if the test fails
		detach := "echo 1 > a.txt; (while [ ! -e " + signal + " ]; do sleep 0.1; done; echo late > late.txt) > /dev/null 2>&1 & disown"
		session := s.Say(e2erig.Prompt("work", e2erig.Bash(detach), e2erig.Bash("(true) > /dev/null 2>&1 & wait"), "done"))
		if show := s.Segno("show", "t1"); strings.Count(show, "(pid ") != 1 || !strings.Contains(show, "left processes running: bash (pid ") {
			s.Errorf("the turn does not name the process that it left behind, and no other one:\n%s", show)
		}
		s.Say(e2erig.Prompt("next", e2erig.Bash("echo 2 > b.txt"), "done"), "--resume", session)
		if show := s.Segno("show", "t2"); strings.Contains(show, "(pid ") {
			s.Errorf("a turn names a process of an earlier one:\n%s", show)
		}
		if err := os.WriteFile(signal, nil, 0o600); err != nil {
			s.Fatal(err)
		}
		s.WaitFor("late.txt")
		s.Segno("undo", "2", "-y")
		if got := s.Read("a.txt"); got != "0\n" || !s.Exists("late.txt") || s.Exists("b.txt") {
			s.Errorf("files after the undo:\n%s", s.Tree())
		}
	})
}
