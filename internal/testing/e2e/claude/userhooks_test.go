package claude_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// userHook adds a hook of the user that runs a script on an event. It is for all tools if matcher is "".
func userHook(s *e2erig.Stage, event, matcher, script string) {
	s.Helper()
	hook := filepath.Join(s.TempDir(), "hook")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		s.Fatal(err)
	}
	s.Write(".claude/settings.local.json", fmt.Sprintf(`{"hooks":{%q:[{"matcher":%q,"hooks":[{"type":"command","command":%q}]}]}}`, event, matcher, hook))
}

// TestAHookOfTheUserChangesTheInputOfATool lets a hook redirect a write to another file. The user then saves the file that the agent had
// named. The turn has the file that the tool wrote, and not the user's.
func TestAHookOfTheUserChangesTheInputOfATool(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n", "b.txt": "0\n"}, func(s *e2erig.Stage) {
		userHook(s, "PreToolUse", "Write", "cat <<'EOF'\n"+`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow",`+
			`"updatedInput":{"file_path":"`+s.Path("b.txt")+`","content":"changed\n"}}}`+"\nEOF\n")
		saved := filepath.Join(t.TempDir(), "saved")
		reads := func(file string) map[string]any {
			return map[string]any{"tool": "Read", "input": map[string]string{"file_path": s.Path(file)}}
		}
		agent, err := s.Rig.StartPrint(s.Ctx, e2erig.Prompt("work", reads("a.txt"), reads("b.txt"),
			s.Writes("a.txt", "1\n"), map[string]any{"text": "done", "until": saved}))
		if err != nil {
			s.Fatal(err)
		}
		s.Poll("the model to be called after the write", func() bool { return len(s.Model.Calls()) == 4 })
		s.Write("a.txt", "mine\n")
		finish(s, agent, saved)
		if show := s.Segno("show", "t1"); !strings.Contains(show, "~ b.txt") || strings.Contains(show, "~ a.txt") {
			s.Errorf("the turn wrote b.txt, and segno shows\n%s", show)
		}
		var turn struct {
			Calls []struct {
				Tool  string
				Input struct {
					Path string `json:"file_path"`
				}
			}
		}
		if err := json.Unmarshal([]byte(s.Segno("show", "t1", "--json")), &turn); err != nil {
			s.Fatal(err)
		}
		if n := len(turn.Calls); n != 3 || turn.Calls[2].Tool != "Write" || turn.Calls[2].Input.Path != s.Path("b.txt") {
			s.Errorf("the calls of the turn are %+v", turn.Calls)
		}
		s.Segno("undo", "-y")
		if a, b := s.Read("a.txt"), s.Read("b.txt"); a != "mine\n" || b != "0\n" {
			s.Errorf("undo left %q in the user's file and %q in the turn's", a, b)
		}
	})
}

// TestTheCommandsOfASlashCommand runs a slash command and a skill with commands in their texts. The agent runs these without a hook, and their
// changes belong to the turn. The oldest version runs those of a slash command before the hook of the prompt, so they are not by a turn there.
func TestTheCommandsOfASlashCommand(t *testing.T) {
	const text = "---\ndescription: d\nallowed-tools: Bash(*)\n---\nThe result: !`%s`\n\n$ARGUMENTS\n"
	files := map[string]string{"a.txt": "0\n", "yours.txt": "0\n",
		".claude/commands/go.md":      fmt.Sprintf(text, "echo 1 > a.txt; echo 1 > command.txt"),
		".claude/skills/use/SKILL.md": fmt.Sprintf(text, "echo 2 > skill.txt")}
	e2erig.ScenarioOnNewest(t, files, func(s *e2erig.Stage) {
		saved := filepath.Join(t.TempDir(), "saved")
		before := s.Tree()
		agent, err := s.Rig.StartPrint(s.Ctx, "/go "+e2erig.Prompt("work", map[string]any{"tool": "Skill", "input": map[string]string{"skill": "use"}},
			map[string]any{"text": "done", "until": saved}))
		if err != nil {
			s.Fatal(err)
		}
		s.Poll("the model to be called after the skill", func() bool { return len(s.Model.Calls()) == 2 })
		s.WaitForClock()
		s.Write("yours.txt", "mine\n")
		finish(s, agent, saved)
		if !s.Exists("command.txt") || !s.Exists("skill.txt") {
			s.Fatalf("the agent did not run the commands:\n%s", s.Tree())
		}
		show := s.Segno("show", "t1")
		if out := s.Segno("undo", "-y"); !strings.Contains(out, "changed while a command ran") || !strings.Contains(out, "- skill.txt") {
			s.Errorf("undo does not list apart what the commands changed:\n%s", out)
		}
		want := strings.Replace(before, `yours.txt -rw-r--r-- "0\n"`, `yours.txt -rw-r--r-- "mine\n"`, 1)
		if s.Version == agentrig.ClaudeOldest {
			want = strings.Replace(want, `a.txt -rw-r--r-- "0\n"`, "a.txt -rw-r--r-- \"1\\n\"\ncommand.txt -rw-r--r-- \"1\\n\"", 1)
		}
		if s.Tree() != want {
			s.Errorf("files after the undo:\n%s\nwant\n%s\n%s", s.Tree(), want, show)
		}
	})
}

// TestAKillDuringTheCommandsOfASlashCommand kills the agent while it runs the commands in the text of a slash command. The commands may have
// made each change since, so these are conflicts. With the oldest version no turn has begun, and they stay without a conflict.
func TestAKillDuringTheCommandsOfASlashCommand(t *testing.T) {
	files := map[string]string{"a.txt": "0\n", ".claude/commands/go.md": "---\nallowed-tools: Bash(*)\n---\n!`echo 1 > a.txt; echo 1 > begun; until [ -e go ]; do sleep 0.05; done`\n"}
	e2erig.ScenarioOnNewest(t, files, func(s *e2erig.Stage) {
		session := s.Say(e2erig.Prompt("first", "done"))
		agent, err := s.Rig.StartPrint(s.Ctx, "/go", "--resume", session)
		if err != nil {
			s.Fatal(err)
		}
		s.WaitFor("begun")
		if err := agent.Kill(); err != nil {
			s.Fatal(err)
		}
		s.Write("go", "") // the command outlives its agent
		out, code := s.Try("undo", "-y")
		areConflicts := code == 4 && strings.Contains(out, "! a.txt") && strings.Contains(out, "! begun")
		if areConflicts == (s.Version == agentrig.ClaudeOldest) || s.Read("a.txt") != "1\n" {
			s.Errorf("undo: exit %d\n%s", code, out)
		}
	})
}
