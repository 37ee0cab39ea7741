package codex_test

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestPointsInsideATurn restores the files after the first patch of a turn with two patches and a command.
func TestPointsInsideATurn(t *testing.T) {
	withHooks(t, drawn(t), map[string]string{"a.txt": "0\n", "b.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		patch := func(text string) map[string]any {
			return map[string]any{"tool": "apply_patch", "input": "*** Begin Patch\n" + text + "*** End Patch"}
		}
		agent.Flags = append(agent.Flags, "-m", "gpt-5.5") // a model that Codex offers its tool for patches
		_, err := agent.Exec(s.Ctx, e2erig.Prompt("work", patch("*** Update File: a.txt\n@@\n-0\n+1\n*** Add File: new.txt\n+x\n"),
			shell("echo 1 > b.txt"), patch("*** Update File: a.txt\n@@\n-1\n+2\n*** Delete File: new.txt\n"), "done"))
		if err != nil {
			s.Fatal(err)
		}
		waitForTurns(s, 1)
		s.Segno("restore", "t1.1", "-y")
		if s.Read("a.txt") != "1\n" || s.Read("new.txt") != "x\n" || s.Read("b.txt") != "0\n" {
			s.Errorf("after the first patch:\n%s", s.Tree())
		}
		if got := s.Segno("cat", "t1.2:b.txt") + s.Segno("cat", "t1.3:a.txt"); got != "1\n2\n" {
			s.Errorf("the files are %q", got)
		}
	})
}
