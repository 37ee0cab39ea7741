package terminal_test

import (
	"os"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestTerminal drives the terminal program: a turn, an undo while the program is idle, a prompt in
// the old session, and /clear.
func TestTerminal(t *testing.T) {
	e2erig.Scenario(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		tui := s.TUI()
		for _, turn := range [][2]string{{e2erig.Prompt("alpha", s.Writes("a.txt", "1\n"), "answer one"), "answer one"}, {e2erig.Prompt("beta", e2erig.Bash("rm a.txt"), "answer two"), "answer two"}} {
			if err := tui.Turn(s.Ctx, turn[0], turn[1]); err != nil {
				s.Fatal(err)
			}
		}
		s.Quiet()
		if ts := s.Turns(); len(ts) != 2 {
			s.Fatalf("the turns are %+v", ts)
		}
		out := s.Segno("undo", "-y")
		if !strings.Contains(out, "end the running one (pid ") {
			s.Errorf("undo under a live session says\n%s", out)
		}
		if err := tui.Turn(s.Ctx, e2erig.Prompt("gamma", "answer three"), "answer three"); err != nil {
			s.Fatal(err)
		}
		if !s.CallFor("gamma").HasText("Note from segno") {
			s.Error("the live session was not told")
		}
		s.Quiet()
		first := s.Turns()
		if err := tui.Prompt(s.Ctx, "/clear"); err != nil {
			s.Fatal(err)
		}
		cleared := func(screen string) bool {
			return !strings.Contains(screen, "answer three") && strings.Contains(screen, "❯ /clear")
		}
		if screen, err := tui.WaitFor(s.Ctx, cleared); err != nil {
			s.Fatal(err, screen)
		}
		if err := tui.Ready(s.Ctx); err != nil {
			s.Fatal(err)
		}
		if err := tui.Turn(s.Ctx, e2erig.Prompt("delta", "answer four"), "answer four"); err != nil {
			s.Fatal(err)
		}
		s.Quiet()
		if ts := s.Turns(); len(ts) != 1 || ts[0].Thread == first[0].Thread || ts[0].Turn != 1 {
			s.Errorf("after /clear the turns are %+v", ts)
		}
	})
}

// TestASessionWithoutATurn copies the conversation with /branch and empties it with /clear. Claude Code writes a session for each, in
// which no turn has begun, so 'segno doctor' misses none.
func TestASessionWithoutATurn(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		tui := s.TUI()
		if err := tui.Turn(s.Ctx, e2erig.Prompt("alpha", "answer one"), "answer one"); err != nil {
			s.Fatal(err)
		}
		s.Quiet()
		commands := []string{"/branch", "/clear"}
		if s.Version == agentrig.ClaudeOldest {
			commands = commands[:1] // it writes no session for /clear
		}
		for i, command := range commands {
			if err := tui.Prompt(s.Ctx, command); err != nil {
				s.Fatal(err)
			}
			s.Poll("the session of "+command, func() bool { return len(s.Transcripts()) == i+2 })
			s.Quiet()
			if out, code := s.Try("doctor"); code != 0 {
				s.Errorf("after %s doctor exits with %d:\n%s", command, code, out)
			}
		}
	})
}

// TestRewindIsALine goes back inside the agent with /rewind and prompts again.
func TestRewindIsALine(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		tui := s.TUI()
		for _, name := range []string{"alpha", "beta"} {
			if err := tui.Turn(s.Ctx, e2erig.Prompt(name, "answer "+name), "answer "+name); err != nil {
				s.Fatal(err)
			}
		}
		if err := tui.Rewind(s.Ctx, 1, agentrig.RestoreConversation); err != nil {
			s.Fatal(err)
		}
		if err := tui.Turn(s.Ctx, e2erig.Prompt("gamma", "answer gamma"), "answer gamma"); err != nil {
			s.Fatal(err)
		}
		if e2erig.Said(s.CallFor("gamma"), "beta") {
			s.Fatal("the agent did not go back")
		}
		s.Quiet()
		ts := s.Turns()
		if len(ts) != 3 || ts[2].Turn != 3 || *ts[2].Parent != ts[0].ID || ts[2].Thread != ts[0].Thread {
			s.Errorf("the turns are %+v", ts)
		}
	})
}

// TestEscThenUndo interrupts a turn in the terminal and undoes it at once, although the agent fired
// no event and is still running.
func TestEscThenUndo(t *testing.T) {
	e2erig.ScenarioIfDrawn(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		tui := s.TUI()
		if err := tui.Turn(s.Ctx, e2erig.Prompt("alpha", "answer one"), "answer one"); err != nil {
			s.Fatal(err)
		}
		if err := tui.Prompt(s.Ctx, e2erig.Prompt("beta", e2erig.Bash("rm a.txt; echo gone > gone.txt; sleep 5"), "answer two")); err != nil {
			s.Fatal(err)
		}
		s.WaitFor("gone.txt")
		s.Interrupt(tui)
		s.Segno("undo", "-y")
		if data, err := os.ReadFile(s.Path("a.txt")); err != nil || string(data) != "0\n" {
			s.Errorf("undo after Esc left %q, %v", data, err)
		}
		ts := s.Turns()
		if len(ts) != 2 || !ts[1].Interrupted || ts[0].Interrupted {
			s.Errorf("the turns are %+v", ts)
		}
	})
}
