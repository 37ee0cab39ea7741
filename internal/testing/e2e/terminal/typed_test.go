package terminal_test

import (
	"os"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestACommandThatTheUserTypes runs a command of the user in the terminal of the agent, which sends the output to the model. What the user
// changed before the command does not belong to this turn, and the turn has the command as its prompt. The oldest version does not
// send the output until the next prompt, so segno records no turn for the command there.
func TestACommandThatTheUserTypes(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n", "yours.txt": "0\n"}, func(s *e2erig.Stage) {
		tui := s.TUI()
		s.Type(tui, e2erig.Prompt("alpha", s.Writes("b.txt", "1\n"), "answer one"), "answer one")
		s.Write("yours.txt", "mine\n")
		s.Write("new.txt", "mine\n")
		s.WaitForClock()
		const command = "echo 1 > a.txt"
		typeCommand(s, tui, command)
		if s.Version == agentrig.ClaudeOldest {
			s.Poll("the command", func() bool { return s.Read("a.txt") == "1\n" })
			s.Type(tui, e2erig.Prompt("beta", "answer two"), "answer two")
			if turns := s.Turns(); len(turns) != 2 || turns[1].Files.Modified+turns[1].Files.Added != 0 {
				s.Errorf("the turns are %+v", turns)
			}
			return
		}
		s.Poll("the turn of the command", func() bool { return len(s.Turns()) == 2 })
		if turn := s.Turns()[1]; turn.Prompt != "! "+command || turn.Files.Modified != 1 || turn.Files.Added != 0 {
			s.Errorf("the turn is %+v\n%s", turn, s.Segno("show", "t2"))
		}
		undoes(s, "1")
		wantFiles(s, map[string]string{"a.txt": "0\n", "b.txt": "1\n", "yours.txt": "mine\n", "new.txt": "mine\n"})
	})
}

// typeCommand runs a command of the user in the terminal of the agent.
func typeCommand(s *e2erig.Stage, tui *agentrig.TUI, command string) {
	s.Helper()
	for _, keys := range []string{"!", command} {
		if err := tui.Press(agentrig.Key(keys)); err != nil {
			s.Fatal(err)
		}
		inBashMode := func(screen string) bool {
			for line := range strings.Lines(screen) {
				if strings.HasPrefix(strings.TrimSpace(line), "!") && strings.Contains(line, strings.TrimPrefix(keys, "!")) {
					return true
				}
			}
			return false
		}
		if _, err := tui.WaitFor(s.Ctx, inBashMode); err != nil {
			s.Fatal(err)
		}
	}
	if err := tui.Press(agentrig.Enter); err != nil {
		s.Fatal(err)
	}
}

// TestTheAgentWorksAfterACommandThatTheUserTypes lets the agent make calls after it received the output of a command of the user. No hook
// reports the beginning of this turn. From the first call on, a move is refused, and the turn has the changes of the command and of the
// calls, and not those of the user: also if the user then kills the agent. If the user makes a move before the first call, the turn
// begins at the move.
func TestTheAgentWorksAfterACommandThatTheUserTypes(t *testing.T) {
	for _, then := range []string{"ends", "killed", "moved"} {
		t.Run(then, func(t *testing.T) { worksAfterATypedCommand(t, then) })
	}
}

func worksAfterATypedCommand(t *testing.T, then string) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n", "yours.txt": "0\n"}, func(s *e2erig.Stage) {
		if s.Version == agentrig.ClaudeOldest {
			return // it does not send the output to the model
		}
		tui := s.TUI()
		s.Type(tui, e2erig.Prompt("alpha", "answer one"), "answer one")
		s.Write("yours.txt", "mine\n")
		s.WaitForClock()
		first, last := s.Writes("b.txt", "1\n"), e2erig.Bash("echo 1 > c.txt")
		first["until"], last["until"] = signal(s, "begin"), signal(s, "go")
		if err := os.WriteFile(signal(s, "script"), []byte(e2erig.Prompt("", first, last, "answer two")), 0o600); err != nil {
			s.Fatal(err)
		}
		calls := len(s.Model.Calls())
		typeCommand(s, tui, "echo 1 > a.txt; cat ../home/script")
		s.Poll("the output to reach the model", func() bool { return len(s.Model.Calls()) > calls })
		of := map[string]string{"a.txt": "0\n", "b.txt": "", "c.txt": "", "yours.txt": "mine\n", "mine.txt": "mine\n"}
		if then == "moved" {
			undoes(s, "1")
			of["a.txt"] = "1\n"
		}
		s.Write("../home/begin", "")
		s.WaitFor("b.txt")
		s.Write("mine.txt", "mine\n")
		if out, code := s.Try("undo", "-y"); code == 0 || !strings.Contains(out, "is open") {
			s.Errorf("an undo while the agent works: exit %d\n%s", code, out)
		}
		if then == "killed" {
			if err := tui.Kill(); err != nil {
				s.Fatal(err)
			}
		} else {
			s.Write("../home/go", "")
			s.Poll("the turn of the command", func() bool { return len(s.Turns()) == 2 })
		}
		undoes(s, "1")
		wantFiles(s, of)
		if turns := s.Turns(); len(turns) != 2 || !strings.HasPrefix(turns[1].Prompt, "! echo 1") {
			s.Errorf("the turns are %+v", turns)
		}
	})
}

// TestAQueuedSlashCommand types a slash command while a turn runs. The agent runs it after the turn, so it begins another turn, which has what
// the commands in its text changed.
func TestAQueuedSlashCommand(t *testing.T) {
	const text = "---\ndescription: d\nallowed-tools: Bash(*)\n---\nThe result: !`echo 1 > a.txt; echo 1 > command.txt`\n\n$ARGUMENTS\n"
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n", ".claude/commands/go.md": text}, func(s *e2erig.Stage) {
		tui := s.TUI()
		begin(s, tui, e2erig.Prompt("alpha", e2erig.Bash("echo 1 > begun; "+wait(signal(s, "go"))), "answer one"), "begun")
		if err := tui.Prompt(s.Ctx, "/go "+e2erig.Prompt("beta", s.Writes("b.txt", "1\n"), "answer two")); err != nil {
			s.Fatal(err)
		}
		s.Write("../home/go", "")
		s.WaitFor("b.txt")
		s.Poll("the turn of the slash command", func() bool { return len(s.Turns()) == 2 })
		undoes(s, "1")
		want := map[string]string{"a.txt": "0\n", "command.txt": "", "b.txt": "", "begun": "1\n"}
		if s.Version == agentrig.ClaudeOldest { // it runs the commands before the hook of the prompt
			want["a.txt"], want["command.txt"] = "1\n", "1\n"
		}
		wantFiles(s, want)
	})
}
