package codex_test

import (
	"encoding/json"
	"fmt"
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

// withHooks runs a scenario on some versions of Codex, with segno's hooks.
func withHooks(t *testing.T, versions []agentrig.CodexVersion, files map[string]string, do func(*e2erig.Stage, *agentrig.Codex)) {
	t.Helper()
	t.Parallel()
	for _, v := range versions {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			s, agent := e2erig.Codex(t, v, files)
			do(s, agent)
		})
	}
}

// execTurn runs one turn in which Codex runs a shell command, and returns its session.
func execTurn(s *e2erig.Stage, agent *agentrig.Codex, word, command string, resume ...string) string {
	s.Helper()
	res, err := agent.Exec(s.Ctx, e2erig.Prompt(word, shell(command), "done "+word), resume...)
	if err != nil {
		s.Fatal(err)
	}
	return res.Thread
}

// waitForTurns waits until n turns are recorded.
func waitForTurns(s *e2erig.Stage, n int) {
	s.Helper()
	s.Poll(fmt.Sprintf("turn %d", n), func() bool {
		_, code := s.Try("show", fmt.Sprintf("t%d", n)) // before the first turn there is no thread
		return code == 0
	})
}

// TestEveryTurnIsACheckpoint drives codex exec through three turns that change files, and undoes
// the last two: the files and the conversation are those of the first turn.
func TestEveryTurnIsACheckpoint(t *testing.T) {
	withHooks(t, soak.Versions(t, agentrig.CodexVersions()), map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		session := execTurn(s, agent, "alpha", "echo 1 > a.txt")
		first := s.Tree()
		execTurn(s, agent, "beta", "rm a.txt; echo 2 > b.txt; "+s.PinCommand(), "resume", session)
		s.WantPinBy("codex")
		second := s.Tree()
		execTurn(s, agent, "gamma", "echo 3 > b.txt; false", "resume", session)

		turns := s.Turns()
		if got, want := e2erig.Prompts(turns), []string{"alpha", "beta", "gamma"}; !slices.Equal(got, want) {
			s.Fatalf("turns %q, want %q", got, want)
		}
		for i, c := range turns {
			if c.Turn != i+1 || c.Session != session || c.Agent != "codex" || c.Interrupted || c.Partial || c.Thread != turns[0].Thread || c.Shell != 1 {
				s.Errorf("turn %d is %+v", i+1, c)
			}
		}

		var newest struct{ Session string }
		if s.JSON(&newest, "resume", "--print"); newest.Session != session {
			s.Errorf("resume goes on in %s, not in the agent's own session %s", newest.Session, session)
		}

		beta := s.CallFor("beta").Messages()
		undo := func(want string) (moved struct {
			Session string
			Command []string
		}) {
			s.Helper()
			s.JSON(&moved, "undo", "-y")
			if diff := cmp.Diff(want, s.Tree()); diff != "" {
				s.Errorf("files after undo (-want +got):\n%s", diff)
			}
			if moved.Session == "" || moved.Session == session || len(moved.Command) < 3 || moved.Command[1] != "resume" {
				s.Fatalf("undo goes on in %+v", moved)
			}
			return moved
		}
		undo(second)
		if s.JSON(&newest, "redo", "-y"); newest.Session != session {
			s.Errorf("redo goes on in %s, not in the agent's own session %s", newest.Session, session)
		}
		undo(second)
		moved := undo(first)

		if got := execTurn(s, agent, "delta", "echo 4 > c.txt", "resume", moved.Session); got != moved.Session {
			s.Fatalf("Codex resumed %s as %s", moved.Session, got)
		}
		got := s.CallFor("delta").Messages()
		if diff := cmp.Diff(beta[:len(beta)-1], got[:len(got)-1]); diff != "" {
			s.Errorf("the conversation before the new prompt (-want +got):\n%s", diff)
		}
		turns = s.Turns()
		if last := turns[len(turns)-1]; last.Session != moved.Session || last.Parent == nil || *last.Parent != turns[0].ID || last.Thread != turns[0].Thread {
			s.Errorf("the new turn is %+v, want one on %s", last, turns[0].ID)
		}
	})
}

// TestDisableRestoresTheHooksFile enables and disables segno with and without hooks of the user.
func TestDisableRestoresTheHooksFile(t *testing.T) {
	withHooks(t, newest(t), nil, func(s *e2erig.Stage, agent *agentrig.Codex) {
		file := filepath.Join(agent.CodexHome(), "hooks.json")
		if data, err := os.ReadFile(file); err != nil || !json.Valid(data) {
			s.Fatalf("enable wrote %q, %v", data, err)
		}
		s.Segno("disable", "codex")
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			s.Errorf("disable left %s: %v", file, err)
		}
		const own = "{ \"hooks\": {\"Stop\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"true\"}]}] } }"
		if err := os.WriteFile(file, []byte(own), 0o600); err != nil {
			s.Fatal(err)
		}
		s.Segno("enable", "codex")
		s.Segno("enable", "codex")
		execTurn(s, agent, "alpha", "echo 1 > a.txt")
		if turns := s.Turns(); len(turns) != 1 {
			s.Errorf("turns %+v", turns)
		}
		s.Segno("disable", "codex")
		if data, err := os.ReadFile(file); err != nil || string(data) != own {
			s.Errorf("disable left %q, %v; before it was %q", data, err, own)
		}
	})
}

// TestTerminalAsksForTrust uses the terminal program. The user trusts the hooks when Codex asks, as
// doctor suggests, and interrupts the second of three turns.
func TestTerminalAsksForTrust(t *testing.T) {
	withHooks(t, drawn(t), map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		s.Rig.Path = append(s.Rig.Path, filepath.Dir(agent.Bin))
		asks := agent.Version != agentrig.CodexOldest
		switch out, code := s.Try("doctor"); {
		case asks && (code == 0 || !strings.Contains(out, "you have not reviewed") || !strings.Contains(out, "only the ends of turns") || !strings.Contains(out, "/hooks")):
			s.Errorf("doctor before the review: exit %d\n%s", code, out)
		case !asks && code != 0:
			s.Errorf("doctor: exit %d\n%s", code, out)
		}
		var t *terminal
		if asks {
			t = startAndTrustHooks(s, agent)
		} else {
			t = open(s, agent)
		}
		s.Segno("doctor")
		t.send("alpha", "echo 1 > a.txt")
		// A prompt before Codex recorded the end of the turn would join that turn.
		s.Poll("the end of the first turn", func() bool { return strings.Contains(rolloutText(s, agent), `"task_complete"`) })
		t.send("beta", "echo 2 > b.txt; sleep 100")
		s.WaitFor("b.txt")
		t.press(agentrig.Esc)
		t.see("interrupted")
		t.send("gamma", "echo 3 > c.txt")
		s.WaitFor("c.txt")
		waitForTurns(s, 3)
		for i, c := range s.Turns() {
			if c.Interrupted != (i == 1) || c.Agent != "codex" || c.Files.Added+c.Files.Modified != 1 {
				s.Errorf("turn %d is %+v", i+1, c)
			}
		}
	})
}

// TestResumedInAnotherDirectory continues a session in another directory. segno records the turns
// in the workspace of that directory.
func TestResumedInAnotherDirectory(t *testing.T) {
	withHooks(t, newest(t), map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		session := execTurn(s, agent, "alpha", "echo 1 > a.txt")
		other := filepath.Join(filepath.Dir(s.Rig.Project), "other")
		if err := os.Mkdir(other, 0o755); err != nil {
			s.Fatal(err)
		}
		rig, err := agent.In(other)
		if err != nil {
			s.Fatal(err)
		}
		execTurn(s, &agentrig.Codex{Rig: rig, Version: agent.Version}, "beta", "echo 2 > b.txt", "resume", session)
		turns := s.Turns("-C", other)
		if len(turns) == 0 {
			s.Fatal("no turn in the other directory")
		}
		newest := turns[len(turns)-1]
		if got := e2erig.Prompts(turns[len(turns)-1:]); got[0] != "beta" || newest.Partial {
			s.Errorf("the newest turn in the other directory is %+v", newest)
		}
		if diff := s.Segno("-C", other, "show", newest.ID); !strings.Contains(diff, "b.txt") {
			s.Errorf("the turn does not show the file that it made:\n%s", diff)
		}
	})
}

// rolloutText returns the content of the session files of Codex.
func rolloutText(s *e2erig.Stage, agent *agentrig.Codex) string {
	s.Helper()
	return readAll(s, filepath.Join(agent.CodexHome(), "sessions", "*", "*", "*", "*.jsonl"))
}

// readAll returns the content of the files that match a pattern. A file may disappear meanwhile.
func readAll(s *e2erig.Stage, pattern string) string {
	s.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		s.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			s.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}
