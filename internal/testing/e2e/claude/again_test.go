package claude_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestAStopHookContinuesTheTurn lets a hook of the user continue a turn after its end, as hooks do that run tests. The user works during
// both parts, and no move is made. There is one turn, it has the changes of both parts, and an undo reverts these alone.
func TestAStopHookContinuesTheTurn(t *testing.T) {
	files := map[string]string{"a.txt": "0\n", "b.txt": "0\n", "yours.txt": "0\n"}
	e2erig.ScenarioOnNewest(t, files, func(s *e2erig.Stage) {
		segno, err := exec.LookPath("segno")
		if err != nil {
			s.Fatal(err)
		}
		dir := t.TempDir()
		hook, first, second := filepath.Join(dir, "hook"), filepath.Join(dir, "first"), filepath.Join(dir, "second")
		// The hook continues the turn once, after segno has recorded the end of the first part.
		script := "#!/bin/sh\nif mkdir " + dir + "/continued 2> /dev/null; then\n  until " + segno + " --store '" + s.Store + "' -C '" + s.Rig.Project +
			"' show t1 > /dev/null 2>&1; do sleep 0.1; done\n  printf '{\"decision\":\"block\",\"reason\":\"write more\"}'\nfi\n"
		s.Write(".claude/settings.local.json", `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"`+hook+`"}]}]}}`)
		if err := os.WriteFile(hook, []byte(script), 0o700); err != nil {
			s.Fatal(err)
		}
		before := s.Tree()
		agent, err := s.Rig.StartPrint(s.Ctx, e2erig.Prompt("work", s.Writes("a.txt", "1\n"), map[string]any{"text": "the first part", "until": first},
			s.Writes("b.txt", "1\n"), s.Writes("made.txt", "1\n"), map[string]any{"text": "the second part", "until": second}))
		if err != nil {
			s.Fatal(err)
		}
		works := func(file, content string, calls int, signal string) {
			s.Helper()
			s.Poll("the call of the model", func() bool { return len(s.Model.Calls()) == calls })
			if out, code := s.Try("undo", "-y"); code != 5 || !strings.Contains(out, "is open") {
				s.Errorf("undo while the agent works: exit %d\n%s", code, out)
			}
			s.Write(file, content)
			if err := os.WriteFile(signal, nil, 0o600); err != nil {
				s.Fatal(err)
			}
		}
		works("yours.txt", "mine\n", 2, first)
		works("new.txt", "mine\n", 5, second)
		res, err := agent.Result(s.Ctx)
		if err != nil {
			s.Fatal(err)
		}
		if _, err := res.Must(); err != nil {
			s.Fatal(err)
		}
		turns := s.Turns()
		show := s.Segno("show", "t1")
		if len(turns) != 1 || strings.Contains(show, "not reported") || !strings.Contains(show, "the second part") || !strings.Contains(show, "+ made.txt") ||
			strings.Contains(show, "~ yours.txt") || strings.Contains(show, "+ new.txt") {
			s.Errorf("the turns are %+v\n%s", turns, show)
		}
		s.Segno("undo", "-y")
		want := strings.Replace(before, `yours.txt -rw-r--r-- "0\n"`, `yours.txt -rw-r--r-- "mine\n"`, 1)
		if got := s.Tree(); strings.Replace(got, "new.txt -rw-r--r-- \"mine\\n\"\n", "", 1) != want || !s.Exists("new.txt") {
			s.Errorf("files after the undo:\n%s\nwant new.txt and\n%s\n%s", got, want, s.Segno("log"))
		}
		var moved struct{ Session string }
		s.JSON(&moved, "redo", "-y")
		s.Say(e2erig.Prompt("next", "done"), "--resume", moved.Session)
		if !e2erig.Said(s.LastCall(), "the second part") {
			s.Error("the conversation after a redo lacks the second part of the turn")
		}
	})
}

// TestTwoSubagentsInTheBackground starts two subagents at once. The agent reports the end of each with a prompt of its own, and
// these belong to the turn of the user's prompt.
func TestTwoSubagentsInTheBackground(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n", "b.txt": "0\n"}, func(s *e2erig.Stage) {
		subagent := func(steps ...any) map[string]any {
			return map[string]any{"tool": "Agent", "input": map[string]any{"description": "bg", "subagent_type": "general-purpose",
				"run_in_background": true, "prompt": e2erig.Prompt("sub", steps...)}}
		}
		before := s.Tree()
		s.Say(e2erig.Prompt("work", map[string]any{"tools": []any{
			subagent(e2erig.Bash("echo 1 > a.txt"), s.Writes("one.txt", "1\n"), "the first is done"),
			subagent(e2erig.Bash("rm b.txt"), s.Writes("two.txt", "2\n"), "the second is done")}}, "started"))
		if turns := s.Turns(); len(turns) != 1 || turns[0].Files.Added != 2 || turns[0].Files.Modified != 1 || turns[0].Files.Deleted != 1 {
			s.Errorf("the turns are %+v", turns)
		}
		s.Segno("undo", "-y")
		if got := s.Tree(); got != before {
			s.Errorf("files after the undo:\n%s\nwant\n%s", got, before)
		}
	})
}

// TestTheUserChangesAFileWhileASubagentWorks lets the user change a file that the turn wrote as its last call, after the turn stopped and
// before its subagent makes a call. An undo keeps the user's file, and reverts the work of the subagent.
func TestTheUserChangesAFileWhileASubagentWorks(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		goOn := filepath.Join(t.TempDir(), "go on")
		call := s.Writes("sub.txt", "1\n")
		call["until"] = goOn
		agent, err := s.Rig.StartPrint(s.Ctx, e2erig.Prompt("work", map[string]any{"tool": "Agent", "input": map[string]any{"description": "bg",
			"subagent_type": "general-purpose", "run_in_background": true, "prompt": e2erig.Prompt("sub", call, "done")}},
			s.Writes("made.txt", "1\n"), "started"))
		if err != nil {
			s.Fatal(err)
		}
		s.Poll("the checkpoint of the turn", func() bool { _, code := s.Try("show", "t1"); return code == 0 })
		s.WaitForClock()
		s.Write("made.txt", "mine\n")
		s.WaitForClock()
		finish(s, agent, goOn)
		if !s.Exists("sub.txt") {
			s.Fatal("the subagent did not write")
		}
		out, _ := s.Try("undo", "-y")
		if !strings.Contains(out, "made.txt") || s.Read("made.txt") != "mine\n" || s.Exists("sub.txt") {
			s.Errorf("files after the undo:\n%s\n%s", s.Tree(), out)
		}
	})
}
