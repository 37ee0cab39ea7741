package gemini_test

import (
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

func TestMain(m *testing.M) { e2erig.Main(m) }

// withHooks runs a scenario on each version of Gemini CLI, with segno's hooks.
func withHooks(t *testing.T, files map[string]string, do func(*e2erig.Stage, *agentrig.Gemini)) {
	t.Helper()
	t.Parallel()
	for _, v := range agentrig.GeminiVersions() {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			s, agent := e2erig.Gemini(t, v, files)
			do(s, agent)
		})
	}
}

// turn runs one turn in which Gemini CLI runs a shell command, and returns its session.
func turn(s *e2erig.Stage, agent *agentrig.Gemini, word, command string, args ...string) string {
	s.Helper()
	shell := map[string]any{"tool": "run_shell_command", "input": map[string]any{"command": command, "description": "d"}}
	res, err := agent.Prompt(s.Ctx, e2erig.Prompt(word, shell, "done "+word), args...)
	if err != nil {
		s.Fatal(err)
	}
	return res.Session
}

// TestEveryTurnIsACheckpoint runs three turns that change files, and undoes the last two.
func TestEveryTurnIsACheckpoint(t *testing.T) {
	withHooks(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Gemini) {
		session := turn(s, agent, "alpha", "echo 1 > a.txt")
		first := s.Tree()
		turn(s, agent, "beta", "rm a.txt; echo 2 > b.txt", "--resume", session)
		turn(s, agent, "gamma", "echo 3 > b.txt; false", "--resume", session)

		turns := s.Turns()
		if got, want := e2erig.Prompts(turns), []string{"alpha", "beta", "gamma"}; !slices.Equal(got, want) {
			s.Fatalf("turns %q, want %q", got, want)
		}
		for i, c := range turns {
			if c.Turn != i+1 || c.Session != session || c.Agent != "gemini" || c.Interrupted || c.Partial || c.Thread != turns[0].Thread || c.Shell != 1 {
				s.Errorf("turn %d is %+v", i+1, c)
			}
		}
		s.Segno("undo", "2", "-y")
		if diff := cmp.Diff(first, s.Tree()); diff != "" {
			s.Errorf("files after undo (-want +got):\n%s", diff)
		}
	})
}

// TestDisableRestoresTheSettings enables twice and disables: the file is byte for byte the same.
func TestDisableRestoresTheSettings(t *testing.T) {
	withHooks(t, nil, func(s *e2erig.Stage, agent *agentrig.Gemini) {
		s.Segno("disable", "gemini")
		before, err := os.ReadFile(agent.Settings())
		if err != nil {
			s.Fatal(err)
		}
		s.Segno("enable", "gemini")
		s.Segno("enable", "gemini")
		turn(s, agent, "alpha", "echo 1 > a.txt")
		if turns := s.Turns(); len(turns) != 1 {
			s.Errorf("turns %+v", turns)
		}
		s.Segno("disable", "gemini")
		if after, err := os.ReadFile(agent.Settings()); err != nil || string(after) != string(before) {
			s.Errorf("disable left %q, %v; before it was %q", after, err, before)
		}
	})
}
