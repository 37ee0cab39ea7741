package codex_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestEditDuringAnAnswer works while the model answers without a call. The turn has changed nothing.
func TestEditDuringAnAnswer(t *testing.T) {
	withHooks(t, drawn(t), map[string]string{"yours.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		written := filepath.Join(agent.Home, "written")
		term := open(s, agent)
		term.submit(e2erig.Prompt("alpha", map[string]any{"text": "done alpha", "until": written}))
		s.Poll("a model call", func() bool { return len(s.Model.Calls()) > 0 })
		userWorks(s, written)
		show := s.Segno("show", "t1")
		s.Segno("undo", "-y")
		if !s.Exists("new.txt") || s.Read("yours.txt") != "mine\n" {
			s.Errorf("files after undo:\n%s\n%s", s.Tree(), show)
		}
	})
}

// userWorks writes two files of the user while the model waits for the file written, and waits for the end of the turn then.
func userWorks(s *e2erig.Stage, written string) {
	s.Write("yours.txt", "mine\n")
	s.Write("new.txt", "mine\n")
	if err := os.WriteFile(written, nil, 0o600); err != nil {
		s.Fatal(err)
	}
	waitForTurns(s, 1)
}
