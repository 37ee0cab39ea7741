package codex_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

func rolloutOf(s *e2erig.Stage, agent *agentrig.Codex, session string) string {
	s.Helper()
	found, err := filepath.Glob(filepath.Join(agent.CodexHome(), "sessions", "*", "*", "*", "rollout-*-"+session+".jsonl"))
	if err != nil || len(found) != 1 {
		s.Fatalf("the rollouts of %s are %q: %v", session, found, err)
	}
	return found[0]
}

// endsTurn reports whether the last line of a rollout is the end of a turn.
func endsTurn(s *e2erig.Stage, path string) bool {
	s.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return bytes.Contains(lines[len(lines)-1], []byte(`"task_complete"`))
}

// TestTheEndOfATurnIsRecorded runs turns with hooks. Codex writes the end of a turn after the hook that records
// the turn. A session that undo or redo writes still has that end, the list of sessions shows the session as
// kept, and a deleted session comes back with all of its bytes.
func TestTheEndOfATurnIsRecorded(t *testing.T) {
	withHooks(t, newest(t), map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		session := execTurn(s, agent, "alpha", "echo 1 > a.txt")
		waitForTurns(s, 1)
		isKept := func() bool {
			var list []struct {
				Session string
				Kept    bool
			}
			s.JSON(&list, "sessions")
			for _, x := range list {
				if x.Session == session {
					return x.Kept
				}
			}
			s.Fatalf("session %s is not in the list %v", session, list)
			return false
		}
		if !isKept() {
			s.Error("after the first turn the session does not count as kept")
		}
		execTurn(s, agent, "beta", "echo 2 > a.txt", "resume", session)
		execTurn(s, agent, "gamma", "echo 3 > a.txt", "resume", session)
		waitForTurns(s, 3)

		var moved struct{ Session string }
		s.JSON(&moved, "undo", "-y")
		if path := rolloutOf(s, agent, moved.Session); !endsTurn(s, path) {
			s.Errorf("the session of the undo lacks the end of its last turn")
		}
		s.JSON(&moved, "redo", "-y")
		path := rolloutOf(s, agent, session)
		whole, err := os.ReadFile(path)
		if err != nil {
			s.Fatal(err)
		}
		if !isKept() {
			s.Error("the whole session does not count as kept")
		}
		if err := os.Remove(path); err != nil {
			s.Fatal(err)
		}
		s.JSON(&moved, "resume", "--print")
		back, err := os.ReadFile(rolloutOf(s, agent, moved.Session))
		if err != nil {
			s.Fatal(err)
		}
		if got := strings.ReplaceAll(string(back), moved.Session, session); got != string(whole) {
			s.Errorf("the deleted session came back with %d bytes of %d", len(back), len(whole))
		}
	})
}
