package terminal_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestAPlanInAnEmptyContext accepts a plan and chooses to clear the context. Claude Code then begins another session with the plan, and calls
// no hook for its prompt. What the agent does there is a turn, and what the user saved while the agent asked is not a part of it.
func TestAPlanInAnEmptyContext(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n", "yours.txt": "0\n"}, func(s *e2erig.Stage) {
		s.Rig.Flags = nil // they would turn plan mode off
		tui := s.TUI("--permission-mode", "plan", "--allow-dangerously-skip-permissions", "--settings", `{"showClearContextOnPlanAccept":true}`)
		s.Type(tui, e2erig.Prompt("alpha", "answer one"), "answer one")
		plan := e2erig.Prompt("# The plan", e2erig.Bash("echo 1 > a.txt; echo 1 > made; "+wait(signal(s, "go"))), "answer two")
		if err := tui.Prompt(s.Ctx, e2erig.Prompt("beta", writesFile(planFile(s), plan), map[string]any{"tool": "ExitPlanMode", "input": map[string]any{}})); err != nil {
			s.Fatal(err)
		}
		chooses(s, tui, "Would you like to proceed", "1")
		s.WaitFor("made")
		if out, code := s.Try("undo", "-y"); code != 5 || !strings.Contains(out, "is open") {
			s.Errorf("undo while the agent works: exit %d\n%s", code, out)
		}
		s.Write("../home/go", "")
		if err := tui.WaitText(s.Ctx, "answer two"); err != nil {
			s.Fatal(err)
		}
		s.Quiet()
		if turns := s.Turns(); len(turns) != 1 || !strings.HasPrefix(turns[0].Prompt, "Implement the following plan") || turns[0].Shell != 1 {
			s.Errorf("the turns are %+v", turns)
		}
		undoes(s, "1")
		wantFiles(s, map[string]string{"a.txt": "0\n", "made": "", "yours.txt": "mine\n"})
		s.Segno("redo", "-y")
		wantFiles(s, map[string]string{"a.txt": "1\n", "made": "1\n", "yours.txt": "mine\n"})
	})
}

// planFile returns the path at which Claude Code wants the plan of the session.
func planFile(s *e2erig.Stage) string {
	s.Helper()
	path := regexp.MustCompile(`/[^ "\\]*/\.claude/plans/[a-z0-9-]+\.md`).Find(s.LastCall().Body)
	if path == nil {
		s.Fatal("the agent does not name the file of the plan")
	}
	return string(path)
}

// writesFile returns a step in which the agent writes a file outside the project.
func writesFile(path, content string) map[string]any {
	return map[string]any{"tool": "Write", "input": map[string]string{"file_path": path, "content": content}}
}

// chooses waits for a question of the agent, saves a file of the user and presses a key until the question is answered: the agent may not read
// the first one.
func chooses(s *e2erig.Stage, tui *agentrig.TUI, question string, key agentrig.Key) {
	s.Helper()
	asks := func(screen string) bool { return strings.Contains(screen, question) }
	if err := tui.WaitText(s.Ctx, question); err != nil {
		s.Fatal(err)
	}
	s.Write("yours.txt", "mine\n")
	s.WaitForClock()
	for asks(tui.Screen()) {
		if err := tui.Press(key); err != nil {
			s.Fatal(err)
		}
		short, cancel := context.WithTimeout(s.Ctx, 3*time.Second)
		_, _ = tui.WaitFor(short, func(screen string) bool { return !asks(screen) }) // if not, press again
		cancel()
	}
}
