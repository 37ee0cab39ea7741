package claude_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestAUserWorksWhileTheAgentDoes lets a user save, make and delete files while a turn reads, edits and
// writes other files. None of the three belongs to the turn, and an undo does not change them.
func TestAUserWorksWhileTheAgentDoes(t *testing.T) {
	files := map[string]string{"a.txt": "zero\n", "mine.txt": "0\n", "doomed.txt": "0\n"}
	e2erig.ScenarioOnNewest(t, files, func(s *e2erig.Stage) {
		written := filepath.Join(t.TempDir(), "written")
		last := s.Writes("made.txt", "by the agent\n")
		last["until"] = written
		prompt := e2erig.Prompt("work", map[string]any{"tool": "Read", "input": map[string]string{"file_path": s.Path("a.txt")}},
			map[string]any{"tool": "Edit", "input": map[string]string{"file_path": s.Path("a.txt"), "old_string": "zero", "new_string": "one"}},
			last, "done")
		agent, err := s.Rig.StartPrint(s.Ctx, prompt)
		if err != nil {
			s.Fatal(err)
		}
		s.Poll("the model to be called after the edit", func() bool { return len(s.Model.Calls()) == 3 })
		s.Write("mine.txt", "mine\n")
		s.Write("new.txt", "mine\n")
		if err := os.Remove(s.Path("doomed.txt")); err != nil {
			s.Fatal(err)
		}
		finish(s, agent, written)
		show := s.Segno("show", "t1")
		for name, isTurns := range map[string]bool{"~ a.txt": true, "+ made.txt": true, "mine.txt": false, "new.txt": false, "doomed.txt": false} {
			if strings.Contains(show, name) != isTurns {
				s.Errorf("%s: %v in\n%s", name, !isTurns, show)
			}
		}
		s.Segno("undo", "-y")
		if s.Read("a.txt") != "zero\n" || s.Exists("made.txt") {
			s.Errorf("undo left of the turn:\n%s", s.Tree())
		}
		if s.Read("mine.txt") != "mine\n" || s.Read("new.txt") != "mine\n" || s.Exists("doomed.txt") {
			s.Errorf("undo left of the user:\n%s", s.Tree())
		}
	})
}

// TestAUserEditsAFileThatTheAgentEdits lets a user change a line of a file after a command of a turn, before the turn
// edits another line of it. An undo reverts the line of the turn.
func TestAUserEditsAFileThatTheAgentEdits(t *testing.T) {
	both := func(first, last string) string { return first + "\n2\n3\n4\n5\n" + last + "\n" }
	e2erig.ScenarioOnNewest(t, map[string]string{"doc.txt": both("one", "six")}, func(s *e2erig.Stage) {
		saved := filepath.Join(t.TempDir(), "saved")
		doc := s.Path("doc.txt")
		prompt := e2erig.Prompt("work", map[string]any{"tool": "Bash", "input": map[string]string{"command": "cat doc.txt; ls"}},
			map[string]any{"tool": "Read", "input": map[string]string{"file_path": doc}, "until": saved},
			map[string]any{"tool": "Edit", "input": map[string]string{"file_path": doc, "old_string": "six", "new_string": "SIX"}},
			"done")
		agent, err := s.Rig.StartPrint(s.Ctx, prompt)
		if err != nil {
			s.Fatal(err)
		}
		s.Poll("the model to be called after the command", func() bool { return len(s.Model.Calls()) == 2 })
		s.Write("doc.txt", both("mine", "six"))
		finish(s, agent, saved)
		if got := s.Read("doc.txt"); got != both("mine", "SIX") {
			s.Fatalf("the file is %q after the turn", got)
		}
		s.Segno("undo", "-y")
		if got := s.Read("doc.txt"); got != both("mine", "six") {
			s.Errorf("undo left %q", got)
		}
	})
}

// finish makes the file for which the model waits, and waits for the agent to end.
func finish(s *e2erig.Stage, agent *agentrig.Printing, awaited string) {
	s.Helper()
	if err := os.WriteFile(awaited, nil, 0o600); err != nil {
		s.Fatal(err)
	}
	res, err := agent.Result(s.Ctx)
	if err != nil {
		s.Fatal(err)
	}
	if _, err := res.Must(); err != nil {
		s.Fatal(err)
	}
}
