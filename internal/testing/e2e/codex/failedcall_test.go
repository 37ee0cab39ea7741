package codex_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

// TestUserWorksAfterAFailedPatch applies a patch in a command, and lets another one fail. Codex runs no hook after either. What the user
// does after that, while the model answers, is not the turn's.
func TestUserWorksAfterAFailedPatch(t *testing.T) {
	withHooks(t, drawn(t), map[string]string{"a.txt": "0\n", "b.txt": "0\n", "yours.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		const failure = "apply_patch verification failed"
		patch := func(name, lines string) map[string]any {
			return shell("apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: " + name + "\n@@\n" + lines + "\n*** End Patch\nEOF\n")
		}
		written := filepath.Join(agent.Home, "written")
		term := open(s, agent)
		term.submit(e2erig.Prompt("alpha", patch("a.txt", "-0\n+1"), patch("b.txt", "-7\n+8"), map[string]any{"text": "done alpha", "until": written}))
		hasFailure := func(r fakemodel.Request) bool {
			return slices.ContainsFunc(r.Results(), func(b fakemodel.Block) bool { return strings.Contains(b.Text, failure) })
		}
		s.Poll("the model to receive the failure", func() bool { return slices.ContainsFunc(s.Model.Calls(), hasFailure) })
		userWorks(s, written)
		show := s.Segno("show", "t1")
		var turn struct {
			Calls []struct{ Result map[string]any }
		}
		s.JSON(&turn, "show", "t1")
		for i, c := range turn.Calls {
			if _, failed := c.Result["error"]; failed != (i == 1) {
				s.Errorf("call %d has the result %v", i+1, c.Result)
			}
		}
		s.Segno("undo", "-y")
		if !s.Exists("new.txt") {
			s.Fatalf("undo deleted the user's file:\n%s", show)
		}
		if got := s.Read("a.txt") + s.Read("yours.txt") + s.Read("new.txt"); got != "0\nmine\nmine\n" {
			s.Errorf("undo left %q\n%s", got, show)
		}
	})
}
