package opencode_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

func TestMain(m *testing.M) { e2erig.Main(m) }

// turn runs one turn in which OpenCode runs a shell command, and returns its session.
func turn(s *e2erig.Stage, agent *agentrig.ACP, word, command string, args ...string) string {
	s.Helper()
	session, err := agent.RunOpenCode(s.Ctx, e2erig.Prompt(word+"\n", agent.Shell(command), "done "+word), args...)
	if err != nil {
		s.Fatal(err)
	}
	return session
}

// TestEveryTurnIsACheckpoint runs three turns that change files, undoes the last two and disables
// the plugin. OpenCode's conversation goes on, and its model is told that files were restored.
func TestEveryTurnIsACheckpoint(t *testing.T) {
	t.Parallel()
	s, agent := e2erig.OpenCode(t, map[string]string{"a.txt": "0\n"})
	session := turn(s, agent, "alpha", "echo 1 > a.txt")
	first := s.Tree()
	turn(s, agent, "beta", "rm a.txt; echo 2 > b.txt", "--session", session)
	turn(s, agent, "gamma", "echo 3 > b.txt; false", "--session", session)

	turns := s.Turns()
	if got, want := e2erig.Prompts(turns), []string{"alpha\n", "beta\n", "gamma\n"}; !slices.Equal(got, want) {
		s.Fatalf("turns %q, want %q", got, want)
	}
	for i, c := range turns {
		if c.Turn != i+1 || c.Session != session || c.Agent != "opencode" || c.Interrupted || c.Partial || c.Thread != turns[0].Thread || c.Shell != 1 {
			s.Errorf("turn %d is %+v", i+1, c)
		}
	}
	s.Segno("undo", "2", "-y")
	if diff := cmp.Diff(first, s.Tree()); diff != "" {
		s.Errorf("files after undo (-want +got):\n%s", diff)
	}
	turn(s, agent, "delta", "echo 4 > c.txt", "--session", session)
	if said := s.CallFor("delta"); !said.HasText("the user undid turn 3 (“gamma”) and turn 2 (“beta”) with segno") {
		s.Errorf("the model is not told of the undo: %+v", said.Messages())
	}

	plugin := filepath.Join(agent.OpenCodeConfig(), "plugins", "segno.js")
	s.Segno("enable", "opencode")
	if out, _ := s.Try("doctor"); !strings.Contains(out, plugin) {
		s.Errorf("doctor does not name %s:\n%s", plugin, out)
	}
	s.Segno("disable", "opencode")
	if _, err := os.Stat(plugin); !os.IsNotExist(err) {
		s.Errorf("disable left %s: %v", plugin, err)
	}
	turn(s, agent, "epsilon", "echo 5 > c.txt", "--session", session)
	if got := s.Turns(); len(got) != 4 {
		s.Errorf("%d turns with the plugin removed", len(got))
	}
}
