package codex_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// withoutHooks runs a scenario on some versions of Codex, without hooks: in the newest version because
// the user trusts none, in the oldest one as in a version without hooks. Codex also notifies a
// program of the user, which appends to the file notified.
func withoutHooks(t *testing.T, versions []agentrig.CodexVersion, do func(s *e2erig.Stage, agent *agentrig.Codex, config, notified string)) {
	t.Helper()
	withHooks(t, versions, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		s.Segno("disable", "codex")
		config, notified := filepath.Join(agent.CodexHome(), "config.toml"), filepath.Join(agent.Home, "notified")
		data, err := os.ReadFile(config)
		if err != nil {
			s.Fatal(err)
		}
		own := "# mine\nnotify = [ 'sh', '-c',\n  'echo \"$1\" >> \"$0\"', \"" + notified + "\" ]\n" + string(data)
		if err := os.WriteFile(config, []byte(own), 0o600); err != nil {
			s.Fatal(err)
		}
		s.Segno("enable", "codex")
		if agent.Version == agentrig.CodexOldest {
			if err := os.Remove(filepath.Join(agent.CodexHome(), "hooks.json")); err != nil {
				s.Fatal(err)
			}
		}
		agent.Flags = slices.DeleteFunc(agent.Flags, func(f string) bool { return f == "--dangerously-bypass-hook-trust" })
		do(s, agent, config, notified)
		s.Segno("disable", "codex")
		data, err = os.ReadFile(config)
		if rest, _, _ := strings.Cut(string(data), "\n[hooks."); err != nil || !strings.HasPrefix(own, rest) || len(rest) < len(own)-1 {
			s.Errorf("disable left %q, %v; before it was %q", data, err, own)
		}
	})
}

// TestNotify drives codex exec through three turns. The notification of its end makes each turn a
// checkpoint, and undo goes back to the files and the conversation of the first one.
func TestNotify(t *testing.T) {
	withoutHooks(t, soak.Versions(t, agentrig.CodexVersions()), func(s *e2erig.Stage, agent *agentrig.Codex, _, notified string) {
		session := execTurn(s, agent, "alpha", "echo 1 > a.txt")
		waitForTurns(s, 1)
		first := s.Tree()
		execTurn(s, agent, "beta", "echo 2 > b.txt; echo 2 > a.txt", "resume", session)
		waitForTurns(s, 2)
		execTurn(s, agent, "gamma", "true", "resume", session)
		waitForTurns(s, 3)
		turns := s.Turns()
		if got, want := e2erig.Prompts(turns), []string{"alpha", "beta", "gamma"}; !slices.Equal(got, want) {
			s.Fatalf("turns %q, want %q", got, want)
		}
		for i, want := range []int{1, 2, 0} { // the first turn begins with the snapshot of enable
			if c := turns[i]; c.Session != session || c.Agent != "codex" || c.Interrupted || c.Partial || c.Thread != turns[0].Thread || c.Files.Added+c.Files.Modified != want {
				s.Errorf("turn %d is %+v, want %d files", i+1, c, want)
			}
		}
		if all := s.Checkpoints(); len(all) != 4 {
			s.Errorf("checkpoints %+v, want the beginning and three turns", all)
		}
		var own []string
		s.Poll("three notifications of the user's command", func() bool {
			data, err := os.ReadFile(notified)
			own = strings.Split(strings.TrimSpace(string(data)), "\n")
			return err == nil && len(own) == 3
		})
		for _, text := range own {
			var n struct{ Type string }
			if json.Unmarshal([]byte(text), &n) != nil || n.Type != "agent-turn-complete" {
				s.Errorf("the user's command got %q", text)
			}
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
		waitForTurns(s, 4)
		turns = s.Turns()
		if last := turns[len(turns)-1]; last.Session != moved.Session || last.Parent == nil || *last.Parent != turns[0].ID {
			s.Errorf("the new turn is %+v, want one on %s", last, turns[0].ID)
		}
	})
}

// TestFirstTurnWithoutHooks undoes the first turn after enable, which deletes a file.
func TestFirstTurnWithoutHooks(t *testing.T) {
	withoutHooks(t, newest(t), func(s *e2erig.Stage, agent *agentrig.Codex, _, _ string) {
		execTurn(s, agent, "alpha", "rm a.txt")
		waitForTurns(s, 1)
		s.Segno("undo", "-y")
		if s.Read("a.txt") != "0\n" {
			s.Errorf("undo left\n%s", s.Tree())
		}
	})
}

// TestNotifyLate reports the ends of two turns after both are over, as if Codex had begun the second
// one at once. Each turn ends at its own position in the conversation. Repeated notifications, and
// those without a turn, record nothing.
func TestNotifyLate(t *testing.T) {
	withoutHooks(t, newest(t), func(s *e2erig.Stage, agent *agentrig.Codex, config, notified string) {
		s.Segno("disable", "codex")
		session := execTurn(s, agent, "alpha", "echo 1 > a.txt")
		execTurn(s, agent, "beta", "echo 2 > b.txt", "resume", session)
		beta := s.CallFor("beta").Messages()
		var all []string
		s.Poll("the notifications", func() bool {
			data, err := os.ReadFile(notified)
			all = strings.Split(strings.TrimSpace(string(data)), "\n")
			return err == nil && len(all) == 2
		})
		other := strings.ReplaceAll(all[0], session, "01a20633-0000-7000-8000-000000000000")
		for _, text := range slices.Concat(all, all, []string{other}) {
			if out := s.Segno("hook", "codex-notify", text); out != "" {
				s.Errorf("it printed %q", out)
			}
		}
		turns := s.Turns()
		if got, want := e2erig.Prompts(turns), []string{"alpha", "beta"}; !slices.Equal(got, want) || len(s.Checkpoints()) != 3 {
			s.Fatalf("turns %q, want %q; checkpoints %+v", got, want, s.Checkpoints())
		}
		var moved struct{ Session string }
		s.JSON(&moved, "undo", "-y")
		execTurn(s, agent, "gamma", "true", "resume", moved.Session)
		got := s.CallFor("gamma").Messages()
		if diff := cmp.Diff(beta[:len(beta)-1], got[:len(got)-1]); diff != "" {
			s.Errorf("the conversation before the new prompt (-want +got):\n%s", diff)
		}
	})
}
