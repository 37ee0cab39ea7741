package claude_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestPointsInsideATurn restores the files after each call of a turn in which the agent writes, edits and runs a command.
func TestPointsInsideATurn(t *testing.T) {
	e2erig.ScenarioIfDrawn(t, map[string]string{"a.txt": "zero\n"}, func(s *e2erig.Stage) {
		edit := func(old, text string) map[string]any {
			return map[string]any{"tool": "Edit", "input": map[string]string{"file_path": s.Path("a.txt"), "old_string": old, "new_string": text}}
		}
		read := map[string]any{"tool": "Read", "input": map[string]string{"file_path": s.Path("a.txt")}}
		s.Say(e2erig.Prompt("work", read, edit("zero", "one"), s.Writes("src/new.txt", "1\n"), e2erig.Bash("echo x > made.txt"), edit("one", "two"), "done"))
		last := s.Tree()
		s.Segno("restore", "t1.3", "-y")
		if s.Read("a.txt") != "one\n" || s.Read("src/new.txt") != "1\n" || s.Exists("made.txt") {
			s.Errorf("after call 3:\n%s", s.Tree())
		}
		s.Segno("op", "undo", "-y")
		if diff := cmp.Diff(last, s.Tree()); diff != "" {
			s.Errorf("op undo (-want +got):\n%s", diff)
		}
		if got := s.Segno("cat", "t1.2:a.txt") + s.Segno("cat", "t1.4:made.txt") + s.Segno("cat", "t1.5:a.txt"); got != "one\nx\ntwo\n" {
			s.Errorf("the files are %q", got)
		}
	})
}
