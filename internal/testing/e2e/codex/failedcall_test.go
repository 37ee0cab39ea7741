package codex_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

// TestUserWorksAfterAFailedPatch lets a patch fail, after which Codex runs no hook. What the user does after that, while the model
// answers, is not the turn's.
func TestUserWorksAfterAFailedPatch(t *testing.T) {
	withHooks(t, drawn(t), map[string]string{"a.txt": "0\n", "b.txt": "0\n", "yours.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		const failure = "apply_patch verification failed"
		patch := shell("apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: b.txt\n@@\n-7\n+8\n*** End Patch\nEOF\n")
		written := filepath.Join(agent.Home, "written")
		term := open(s, agent)
		term.submit(e2erig.Prompt("alpha", shell("echo 1 > a.txt"), patch, map[string]any{"text": "done alpha", "until": written}))
		hasFailure := func(r fakemodel.Request) bool {
			return slices.ContainsFunc(r.Results(), func(b fakemodel.Block) bool { return strings.Contains(b.Text, failure) })
		}
		s.Poll("the model to receive the failure", func() bool { return slices.ContainsFunc(s.Model.Calls(), hasFailure) })
		s.Write("yours.txt", "mine\n")
		s.Write("new.txt", "mine\n")
		if err := os.WriteFile(written, nil, 0o600); err != nil {
			s.Fatal(err)
		}
		waitForTurns(s, 1)
		show := s.Segno("show", "t1")
		s.Segno("undo", "-y")
		if !s.Exists("new.txt") {
			s.Fatalf("undo deleted the user's file:\n%s", show)
		}
		if got := s.Read("a.txt") + s.Read("yours.txt") + s.Read("new.txt"); got != "0\nmine\nmine\n" {
			s.Errorf("undo left %q\n%s", got, show)
		}
	})
}
