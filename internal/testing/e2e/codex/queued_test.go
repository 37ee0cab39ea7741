package codex_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestPromptDuringTheStopHooks sends a message while a Stop hook other than segno's still runs.
// Codex continues with that message under the id of the turn that segno has already recorded.
// Each message is a turn, and an undo of the second turn keeps the first one, in the files and
// for the model.
func TestPromptDuringTheStopHooks(t *testing.T) {
	withHooks(t, newest(t), map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		s.Segno("disable", "codex")
		hooks, release := filepath.Join(agent.CodexHome(), "hooks.json"), filepath.Join(agent.Home, "release")
		own := `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"until [ -e ` + release + ` ]; do sleep 0.05; done"}]}]}}`
		if err := os.WriteFile(hooks, []byte(own), 0o600); err != nil {
			s.Fatal(err)
		}
		s.Segno("enable", "codex")

		term := open(s, agent)
		term.send("alpha", "echo 1 > a.txt")
		waitForTurns(s, 1)
		first := s.Tree()
		term.send("beta", "echo 2 > b.txt; echo 2 > a.txt")
		if err := os.WriteFile(release, nil, 0o600); err != nil {
			s.Fatal(err)
		}
		waitForTurns(s, 2)
		term.send("gamma", "echo 3 > c.txt")
		waitForTurns(s, 3)
		turns := s.Turns()
		if got, want := e2erig.Prompts(turns), []string{"alpha", "beta", "gamma"}; !slices.Equal(got, want) {
			s.Errorf("turns %q, want %q", got, want)
		}
		for i, c := range turns {
			if want := []int{1, 2, 1}[i]; c.Interrupted || c.Partial || c.Shell != 1 || c.Files.Added+c.Files.Modified != want {
				s.Errorf("turn %d is %+v", i+1, c)
			}
		}
		if len(s.Checkpoints()) != 4 {
			s.Errorf("checkpoints %+v, want the beginning and three turns", s.Checkpoints())
		}

		beta := s.CallFor("beta").Messages()
		var moved struct{ Session string }
		s.JSON(&moved, "undo", "2", "-y")
		if diff := cmp.Diff(first, s.Tree()); diff != "" {
			s.Errorf("files after undo (-want +got):\n%s", diff)
		}
		execTurn(s, agent, "delta", "echo 4 > d.txt", "resume", moved.Session)
		got := s.CallFor("delta").Messages()
		if diff := cmp.Diff(beta[:len(beta)-1], got[:len(got)-1]); diff != "" {
			s.Errorf("the conversation before the new prompt (-want +got):\n%s", diff)
		}
	})
}
