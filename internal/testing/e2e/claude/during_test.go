package claude_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestAUserWorksWhileTheAgentDoes lets a user save, make and delete files while a turn reads, edits and
// writes other files. None of the three belongs to the turn, and an undo does not change them.
func TestAUserWorksWhileTheAgentDoes(t *testing.T) {
	both := func(first, last string) string { return first + "\n2\n3\n4\n5\n" + last + "\n" }
	files := map[string]string{"a.txt": "zero\n", "mine.txt": "0\n", "doomed.txt": "0\n", "both.txt": both("one", "six")}
	e2erig.ScenarioOnNewest(t, files, func(s *e2erig.Stage) {
		written := filepath.Join(t.TempDir(), "written")
		step := func(tool string, input ...string) map[string]any {
			fields := map[string]string{}
			for i := 0; i < len(input); i += 2 {
				fields[input[i]] = input[i+1]
			}
			return map[string]any{"tool": tool, "input": fields}
		}
		second := step("Read", "file_path", s.Path("both.txt"))
		second["until"] = written
		prompt := e2erig.Prompt("work", step("Bash", "command", "cat both.txt; ls"), step("Read", "file_path", s.Path("a.txt")),
			step("Edit", "file_path", s.Path("a.txt"), "old_string", "zero", "new_string", "one"),
			second, step("Edit", "file_path", s.Path("both.txt"), "old_string", "six", "new_string", "SIX"),
			s.Writes("made.txt", "by the agent\n"), "done")
		agent, err := s.Rig.StartPrint(s.Ctx, prompt)
		if err != nil {
			s.Fatal(err)
		}
		s.Poll("the model to be called after the edit", func() bool { return len(s.Model.Calls()) == 4 })
		s.Write("mine.txt", "mine\n")
		s.Write("both.txt", both("mine", "six"))
		s.Write("new.txt", "mine\n")
		if err := os.Remove(s.Path("doomed.txt")); err != nil {
			s.Fatal(err)
		}
		if err := os.WriteFile(written, nil, 0o600); err != nil {
			s.Fatal(err)
		}
		res, err := agent.Result(s.Ctx)
		if err != nil {
			s.Fatal(err)
		}
		if _, err := res.Must(); err != nil {
			s.Fatal(err)
		}
		show := s.Segno("show", "t1")
		for name, isTurns := range map[string]bool{"~ a.txt": true, "+ made.txt": true, "~ both.txt": true, "mine.txt": false, "new.txt": false, "doomed.txt": false} {
			if strings.Contains(show, name) != isTurns {
				s.Errorf("%s: %v in\n%s", name, !isTurns, show)
			}
		}
		s.Segno("undo", "-y")
		if s.Read("a.txt") != "zero\n" || s.Exists("made.txt") {
			s.Errorf("undo left of the turn:\n%s", s.Tree())
		}
		if s.Read("both.txt") != both("mine", "six") {
			s.Errorf("undo left of both authors' file: %q", s.Read("both.txt"))
		}
		if s.Read("mine.txt") != "mine\n" || s.Read("new.txt") != "mine\n" || s.Exists("doomed.txt") {
			s.Errorf("undo left of the user:\n%s", s.Tree())
		}
	})
}
