package codex_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// spawn returns a model's call that starts a subagent with a prompt.
func spawn(s *e2erig.Stage, agent *agentrig.Codex, prompt string) map[string]any {
	s.Helper()
	input := map[string]any{"message": prompt}
	if agent.Version == agentrig.CodexOldest {
		return map[string]any{"tool": "spawn_agent", "input": input}
	}
	arguments, err := json.Marshal(input)
	if err != nil {
		s.Fatal(err)
	}
	return map[string]any{"raw": []any{map[string]any{"type": "function_call", "id": "fc_spawn", "call_id": "call_spawn",
		"namespace": "multi_agent_v1", "name": "spawn_agent", "arguments": string(arguments), "status": "completed"}}}
}

// TestSubagent runs a turn that applies a patch and starts a subagent that continues to work after
// the turn. All of it is one turn: the subagent's session has no turn, and the next turn has only
// its own changes.
func TestSubagent(t *testing.T) {
	withHooks(t, newest(t), map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		release, outside := filepath.Join(agent.Home, "release"), filepath.Join(filepath.Dir(s.Rig.Project), "outside.txt")
		patch := shell("apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.txt\n@@\n-0\n+1\n*** Add File: " + outside + "\n+x\n*** End Patch\nEOF\n")
		child := e2erig.Prompt("child", shell("echo c > early.txt"), shell("until [ -e "+release+" ]; do sleep 0.05; done; echo c > late.txt"), "done child")
		term := open(s, agent)
		term.submit(e2erig.Prompt("alpha", patch, spawn(s, agent, child), shell("until [ -e early.txt ]; do sleep 0.05; done"), "done alpha"))
		waitForTurns(s, 1)
		if out := s.Segno("show", "t1"); !strings.Contains(out, "outside.txt") {
			s.Errorf("show t1 does not name the file outside the workspace:\n%s", out)
		}
		if out, code := s.Try("undo", "-y"); code == 0 {
			s.Errorf("undo while the subagent works:\n%s", out)
		}
		if err := os.WriteFile(release, nil, 0o600); err != nil {
			s.Fatal(err)
		}
		s.WaitFor("late.txt")
		s.Poll("the end of the subagent", func() bool { return strings.Contains(rolloutText(s, agent), `done child"`) })
		term.send("beta", "echo 2 > b.txt")
		waitForTurns(s, 2)
		turns := s.Turns()
		if got, want := e2erig.Prompts(turns), []string{"alpha", "beta"}; !slices.Equal(got, want) {
			s.Fatalf("turns %q, want %q", got, want)
		}
		for i, want := range []int{3, 1} {
			if c := turns[i]; c.Interrupted || c.Shared || c.Thread != turns[0].Thread || c.Files.Added+c.Files.Modified != want {
				s.Errorf("turn %d is %+v, want %d files", i+1, c, want)
			}
		}
		if all := s.Checkpoints(); len(all) != 3 {
			s.Errorf("checkpoints %+v, want the beginning and two turns", all)
		}
		var threads []struct{ ID string }
		if s.JSON(&threads, "threads"); len(threads) != 1 {
			s.Errorf("threads %+v", threads)
		}
	})
}
