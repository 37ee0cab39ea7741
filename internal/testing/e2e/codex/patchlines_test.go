package codex_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestUserEditsPatchedFiles edits files after Codex patched them and before the turn ends. An undo takes the lines of the patch
// back, and keeps those of the user. A redo brings the lines of the patch back.
func TestUserEditsPatchedFiles(t *testing.T) {
	const text = "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
	withHooks(t, drawn(t), map[string]string{"a.txt": text, "b.txt": text}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		written := filepath.Join(agent.Home, "written")
		agent.Flags = append(agent.Flags, "-m", "gpt-5.5") // a model that Codex offers its tool for patches
		patch := "*** Begin Patch\n*** Update File: a.txt\n@@\n-1\n+A\n 2\n*** Update File: b.txt\n@@\n 1\n-2\n+B\n*** Add File: new.txt\n+n\n*** End Patch"
		prompt := e2erig.Prompt("alpha", map[string]any{"tool": "apply_patch", "input": patch}, map[string]any{"text": "done alpha", "until": written})
		ended := make(chan error, 1)
		go func() {
			_, err := agent.Exec(s.Ctx, prompt)
			ended <- err
		}()
		s.Poll("the model to receive the result", func() bool { return len(s.Model.Calls()) > 1 })
		patched := s.Read("a.txt") + s.Read("b.txt")
		if want := strings.Replace(text, "1", "A", 1) + strings.Replace(text, "2", "B", 1); patched != want {
			s.Fatalf("Codex wrote %q", patched)
		}
		for _, name := range []string{"a.txt", "b.txt"} {
			s.Write(name, strings.Replace(s.Read(name), "9", "mine", 1))
		}
		if err := os.WriteFile(written, nil, 0o600); err != nil {
			s.Fatal(err)
		}
		if err := <-ended; err != nil {
			s.Fatal(err)
		}
		waitForTurns(s, 1)
		mine := strings.Replace(text, "9", "mine", 1)
		s.Segno("undo", "-y")
		if got := s.Read("a.txt") + s.Read("b.txt"); got != mine+mine || s.Exists("new.txt") {
			s.Errorf("files after undo:\n%s", s.Tree())
		}
		s.Segno("redo", "-y")
		if got, want := s.Read("a.txt")+s.Read("b.txt"), strings.ReplaceAll(patched, "9", "mine"); got != want || !s.Exists("new.txt") {
			s.Errorf("files after redo:\n%s", s.Tree())
		}
	})
}
