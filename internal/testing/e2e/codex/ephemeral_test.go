package codex_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestEphemeral runs a turn that leaves no session. The moves write its files, and say that the agent left no session.
func TestEphemeral(t *testing.T) {
	withHooks(t, drawn(t), map[string]string{"a.txt": "0\n", "yours.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		const why = "the agent left no session"
		execTurn(s, agent, "alpha", "echo 1 > a.txt; echo 1 > b.txt", "--ephemeral")
		s.Write("yours.txt", "mine\n")
		if out := s.Segno("undo", "-y"); !strings.Contains(out, "had not begun yet") || s.Exists("b.txt") || s.Read("a.txt")+s.Read("yours.txt") != "0\nmine\n" {
			s.Errorf("%s\n%s", out, s.Tree())
		}
		if out := s.Segno("redo", "-y"); !strings.Contains(out, why) || !s.Exists("b.txt") || s.Read("a.txt")+s.Read("yours.txt") != "1\nmine\n" {
			s.Errorf("%s\n%s", out, s.Tree())
		}
		if out, code := s.Try("resume", "--print"); code != 3 || !strings.Contains(out, why) {
			s.Errorf("resume: exit %d\n%s", code, out)
		}
		if out := s.Segno("fork", "t1", "--to", filepath.Join(filepath.Dir(s.Rig.Project), "fork")); !strings.Contains(out, why) {
			s.Errorf("fork:\n%s", out)
		}
	})
}
