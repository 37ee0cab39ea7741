package terminal_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

// signal returns the path of a file outside of the project, for which a command can wait.
func signal(s *e2erig.Stage, name string) string { return filepath.Join(s.Rig.Home, name) }

// wait returns a shell command that waits for a signal.
func wait(file string) string {
	return fmt.Sprintf("while [ ! -e %s ]; do sleep 0.05; done", file)
}

// begin starts a turn in the terminal and waits for a file that the turn makes.
func begin(s *e2erig.Stage, tui *agentrig.TUI, prompt, made string) {
	s.Helper()
	if err := tui.Prompt(s.Ctx, prompt); err != nil {
		s.Fatal(err)
	}
	s.WaitFor(made)
}

// undoes undoes turns and checks that there is no conflict.
func undoes(s *e2erig.Stage, turns string) {
	s.Helper()
	if out, code := s.Try("undo", turns, "-y"); code != 0 {
		s.Errorf("undo %s: exit %d\n%s", turns, code, out)
	}
}

func wantFiles(s *e2erig.Stage, want map[string]string) {
	s.Helper()
	for name, content := range want {
		switch {
		case content == "" && s.Exists(name):
			s.Errorf("%s is there, with %q", name, s.Read(name))
		case content != "" && (!s.Exists(name) || s.Read(name) != content):
			s.Errorf("%s is not %q", name, content)
		}
	}
}

// TestAQueuedMessage types a message while a turn runs that has deleted a file. The message is
// part of the turn, and undo restores the file.
func TestAQueuedMessage(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"doomed": "precious\n"}, func(s *e2erig.Stage) {
		tui := s.TUI()
		begin(s, tui, e2erig.Prompt("alpha", e2erig.Bash("rm doomed; echo 1 > begun; "+wait(signal(s, "go"))), e2erig.Bash("echo 2 > more"), "answer one"), "begun")
		if err := tui.Prompt(s.Ctx, "and hurry up"); err != nil {
			s.Fatal(err)
		}
		s.Poll("the message is queued", func() bool { return strings.Contains(allOf(s.Transcripts()), "and hurry up") })
		s.Write("../home/go", "")
		s.WaitFor("more")
		if err := tui.WaitText(s.Ctx, "answer one"); err != nil {
			s.Fatal(err)
		}
		s.Quiet()
		s.OnOneLine("alpha")
		undoes(s, "1")
		wantFiles(s, map[string]string{"doomed": "precious\n", "begun": "", "more": ""})
	})
}

func allOf(files map[string]string) string {
	var all strings.Builder
	for _, content := range files {
		all.WriteString(content)
	}
	return all.String()
}

// TestEditsAfterEsc checks that edits after Esc count as the user's: undo keeps them, and the
// log lists them separately.
func TestEditsAfterEsc(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a": "0\n", "notes": "0\n"}, func(s *e2erig.Stage) {
		tui := s.TUI()
		begin(s, tui, e2erig.Prompt("alpha", e2erig.Bash("echo 1 > a; echo 1 > made; sleep 60"), "answer one"), "made")
		s.Interrupt(tui)
		s.Write("notes", "mine\n")
		s.Write("mine", "mine\n")
		undoes(s, "1")
		wantFiles(s, map[string]string{"a": "0\n", "made": "", "notes": "mine\n", "mine": "mine\n"})
	})
}

// TestEditsAfterAKill checks that edits after a kill count as the user's, even if the session
// continues first. The files of the killed agent's command are in doubt, because the command
// may have continued.
func TestEditsAfterAKill(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a": "0\n", "notes": "0\n"}, func(s *e2erig.Stage) {
		session := s.Say(e2erig.Prompt("alpha", "one"))
		p, err := s.Rig.StartPrint(s.Ctx, e2erig.Prompt("beta", s.Writes("a", "1\n"), e2erig.Bash("echo half > half; "+wait(signal(s, "go"))), "two"), "--resume", session)
		if err != nil {
			s.Fatal(err)
		}
		s.WaitFor("half")
		if err := p.Kill(); err != nil {
			s.Fatal(err)
		}
		s.Write("../home/go", "") // the command outlives its agent
		s.Write("notes", "mine\n")
		s.Say(e2erig.Prompt("gamma", "three"), "--resume", session)
		out, code := s.Try("undo", "2", "-y")
		if code != 4 || !strings.Contains(out, "half") {
			s.Errorf("undo: exit %d\n%s", code, out)
		}
		wantFiles(s, map[string]string{"a": "0\n", "notes": "mine\n"})
	})
}

// launches sends a prompt that starts background work, and waits until its turn is over while
// the work continues.
func launches(s *e2erig.Stage, tui *agentrig.TUI, prompt string) {
	s.Helper()
	if err := tui.Prompt(s.Ctx, prompt); err != nil {
		s.Fatal(err)
	}
	s.Poll("the turn to be in the background", func() bool { return strings.Contains(s.Segno("status"), "background claude") })
}

// reported waits until the agent has received the end of the background work and the turn that
// reports it is over.
func reported(s *e2erig.Stage) {
	s.Helper()
	s.Poll("the report to reach the model", func() bool {
		return slices.ContainsFunc(s.Model.Calls(), func(r fakemodel.Request) bool { return r.HasText("<task-notification>") })
	})
	s.Quiet()
}

// subagent returns a call of the tool that starts a subagent in the background, with its
// script.
func subagent(steps ...any) map[string]any {
	return map[string]any{"tool": "Agent", "input": map[string]any{"description": "bg", "subagent_type": "general-purpose",
		"run_in_background": true, "prompt": e2erig.Prompt("sub", steps...)}}
}

// TestBackgroundSubagent runs a subagent that writes after its turn is over. segno refuses
// moves until the subagent ends. Then undo reverts the subagent's files, and keeps the user's
// changes since.
func TestBackgroundSubagent(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a": "0\n", "notes": "0\n"}, func(s *e2erig.Stage) {
		tui := s.TUI()
		sub := subagent(e2erig.Bash(wait(signal(s, "go"))+"; echo 1 > sub"), s.Writes("written", "1\n"), "sub done")
		launches(s, tui, e2erig.Prompt("alpha", s.Writes("a", "1\n"), sub, "launched"))
		if log := s.Segno("log"); !strings.Contains(log, "running in the background") {
			s.Errorf("log says\n%s", log)
		}
		if out, code := s.Try("undo", "-y"); code != 5 || !strings.Contains(out, "background work") {
			s.Errorf("undo while a subagent works: exit %d\n%s", code, out)
		}
		s.Write("notes", "mine\n")
		s.Write("../home/go", "")
		s.WaitFor("written")
		reported(s)
		if ts := s.Turns(); len(ts) != 1 {
			s.Errorf("the turns are %+v", ts)
		}
		// The subagent's command might also have written notes, so undo keeps and lists that
		// file.
		if out, code := s.Try("undo", "-y"); code != 4 || strings.Count(out, "! ") != 1 || !strings.Contains(out, "! notes") {
			s.Errorf("undo: exit %d\n%s", code, out)
		}
		wantFiles(s, map[string]string{"a": "0\n", "sub": "", "written": "", "notes": "mine\n"})
	})
}

// TestBackgroundSubagentBesideATurn runs a subagent that writes during the next turn. Each
// undo reverts the changes of its own turn.
func TestBackgroundSubagentBesideATurn(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a": "0\n"}, func(s *e2erig.Stage) {
		tui := s.TUI()
		sub := subagent(e2erig.Bash(wait(signal(s, "go"))+"; echo 1 > sub"), s.Writes("written", "1\n"), "sub done")
		launches(s, tui, e2erig.Prompt("alpha", sub, "launched"))
		begin(s, tui, e2erig.Prompt("beta", s.Writes("a", "1\n"), e2erig.Bash("echo 2 > second; "+wait(signal(s, "end"))), "answer two"), "second")
		s.Write("../home/go", "")
		s.WaitFor("written")
		s.Write("../home/end", "")
		if err := tui.WaitText(s.Ctx, "answer two"); err != nil {
			s.Fatal(err)
		}
		reported(s)
		undoes(s, "1")
		wantFiles(s, map[string]string{"a": "0\n", "second": "", "sub": "1\n", "written": "1\n"})
		undoes(s, "1")
		wantFiles(s, map[string]string{"a": "0\n", "sub": "", "written": ""})
	})
}

// TestBackgroundCommand does the same with a shell command.
func TestBackgroundCommand(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a": "0\n", "notes": "0\n"}, func(s *e2erig.Stage) {
		tui := s.TUI()
		command := e2erig.Bash(wait(signal(s, "go")) + "; echo 1 > made")
		command["input"] = map[string]any{"command": wait(signal(s, "go")) + "; echo 1 > made", "description": "d", "run_in_background": true}
		launches(s, tui, e2erig.Prompt("alpha", command, "launched"))
		if out, code := s.Try("undo", "-y"); code != 5 {
			s.Errorf("undo while a command runs: exit %d\n%s", code, out)
		}
		s.Write("../home/go", "")
		s.WaitFor("made")
		reported(s)
		undoes(s, "1")
		wantFiles(s, map[string]string{"made": ""})
	})
}
