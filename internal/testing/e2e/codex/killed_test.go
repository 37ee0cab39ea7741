package codex_test

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

// TestKilledCodex kills Codex in the middle of a turn, while the model answers. segno records the
// turn as interrupted, without the user's later changes. After an undo of that turn, the
// conversation continues from the previous one.
func TestKilledCodex(t *testing.T) {
	withHooks(t, newest(t), map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		term := open(s, agent)
		term.send("alpha", "echo 1 > a.txt")
		waitForTurns(s, 1)
		s.Poll("the end of the first turn", func() bool { return strings.Contains(rolloutText(s, agent), `"task_complete"`) })
		first := s.Tree()
		term.submit(e2erig.Prompt("beta", shell("echo 2 > b.txt; echo 2 > a.txt"), map[string]any{"text": "done beta", "delay": 100}))
		s.Poll("the record of the call's result", func() bool {
			return strings.Contains(readAll(s, filepath.Join(s.Store, "turns", "*")), `"kind":"result"`)
		})
		if err := term.tui.Kill(); err != nil {
			s.Fatal(err)
		}
		<-term.tui.Exited()
		s.Write("mine.txt", "mine\n")
		beta := s.CallFor("beta").Messages()
		var moved struct{ Session string }
		s.JSON(&moved, "undo", "-y")
		turns := s.Turns()
		if got, want := e2erig.Prompts(turns), []string{"alpha", "beta"}; !slices.Equal(got, want) {
			s.Fatalf("turns %q, want %q", got, want)
		}
		if c := turns[1]; !c.Interrupted || c.Partial || c.Files.Added != 1 || c.Files.Modified != 1 {
			s.Errorf("the killed turn is %+v", c)
		}
		if err := os.Remove(s.Path("mine.txt")); err != nil {
			s.Errorf("undo changed the user's file: %v", err)
		}
		if diff := cmp.Diff(first, s.Tree()); diff != "" {
			s.Errorf("files after undo (-want +got):\n%s", diff)
		}
		execTurn(s, agent, "gamma", "echo 3 > c.txt", "resume", moved.Session)
		got := s.CallFor("gamma").Messages()
		if diff := cmp.Diff(beta[:len(beta)-1], got[:len(got)-1]); diff != "" {
			s.Errorf("the conversation before the new prompt (-want +got):\n%s", diff)
		}
		turns = s.Turns()
		if last := turns[len(turns)-1]; last.Session != moved.Session || last.Interrupted || last.Files.Added != 1 {
			s.Errorf("the new turn is %+v", last)
		}
	})
}
