package terminal_test

import (
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestACommandThatTheUserTypes runs a command of the user in the terminal of the agent, which sends the output to the model. What the user
// changed before the command does not belong to this turn, and the turn has the command as its prompt. The oldest version does not
// send the output until the next prompt, so segno records no turn for the command there.
func TestACommandThatTheUserTypes(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n", "yours.txt": "0\n"}, func(s *e2erig.Stage) {
		tui := s.TUI()
		s.Type(tui, e2erig.Prompt("alpha", s.Writes("b.txt", "1\n"), "answer one"), "answer one")
		s.Write("yours.txt", "mine\n")
		s.Write("new.txt", "mine\n")
		s.WaitForClock()
		const command = "echo 1 > a.txt; sleep 0.2"
		for _, keys := range []string{"!", command} {
			if err := tui.Press(agentrig.Key(keys)); err != nil {
				s.Fatal(err)
			}
			inBashMode := func(screen string) bool {
				for line := range strings.Lines(screen) {
					if strings.HasPrefix(strings.TrimSpace(line), "!") && strings.Contains(line, strings.TrimPrefix(keys, "!")) {
						return true
					}
				}
				return false
			}
			if _, err := tui.WaitFor(s.Ctx, inBashMode); err != nil {
				s.Fatal(err)
			}
		}
		if err := tui.Press(agentrig.Enter); err != nil {
			s.Fatal(err)
		}
		if s.Version == agentrig.ClaudeOldest {
			s.Poll("the command", func() bool { return s.Read("a.txt") == "1\n" })
			s.Type(tui, e2erig.Prompt("beta", "answer two"), "answer two")
			if turns := s.Turns(); len(turns) != 2 || turns[1].Files.Modified+turns[1].Files.Added != 0 {
				s.Errorf("the turns are %+v", turns)
			}
			return
		}
		s.Poll("the turn of the command", func() bool { return len(s.Turns()) == 2 })
		if turn := s.Turns()[1]; turn.Prompt != "! "+command || turn.Files.Modified != 1 || turn.Files.Added != 0 {
			s.Errorf("the turn is %+v\n%s", turn, s.Segno("show", "t2"))
		}
		undoes(s, "1")
		wantFiles(s, map[string]string{"a.txt": "0\n", "b.txt": "1\n", "yours.txt": "mine\n", "new.txt": "mine\n"})
	})
}
