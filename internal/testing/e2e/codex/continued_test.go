package codex_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestAStopHookContinuesTheTurn lets a hook of the user continue a turn after its end. No move is made during the second part, the turn has
// the changes of both parts, and an undo reverts these alone.
func TestAStopHookContinuesTheTurn(t *testing.T) {
	withHooks(t, newest(t), map[string]string{"a.txt": "0\n", "b.txt": "0\n", "yours.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		s.Segno("disable", "codex")
		hook, second := filepath.Join(agent.Home, "hook"), filepath.Join(agent.Home, "second")
		script := "#!/bin/sh\nif mkdir " + agent.Home + "/continued 2> /dev/null; then\n  until [ -e " + agent.Home + "/recorded ]; do sleep 0.1; done\n" +
			"  printf '{\"decision\":\"block\",\"reason\":\"write more\"}'\nfi\n"
		if err := os.WriteFile(hook, []byte(script), 0o700); err != nil {
			s.Fatal(err)
		}
		own := `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"` + hook + `"}]}]}}`
		if err := os.WriteFile(filepath.Join(agent.CodexHome(), "hooks.json"), []byte(own), 0o600); err != nil {
			s.Fatal(err)
		}
		s.Segno("enable", "codex")
		before := s.Tree()
		ended := make(chan error, 1)
		go func() {
			_, err := agent.Exec(s.Ctx, e2erig.Prompt("work", shell("echo 1 > a.txt"), "the first part", shell("echo 1 > b.txt"),
				map[string]any{"text": "the second part", "until": second}))
			ended <- err
		}()
		waitForTurns(s, 1)
		if err := os.WriteFile(filepath.Join(agent.Home, "recorded"), nil, 0o600); err != nil {
			s.Fatal(err)
		}
		s.Poll("the second part", func() bool { return len(s.Model.Calls()) == 4 })
		if out, code := s.Try("undo", "-y"); code != 5 || !strings.Contains(out, "is open") {
			s.Errorf("undo while the agent works: exit %d\n%s", code, out)
		}
		s.Write("yours.txt", "mine\n")
		if err := os.WriteFile(second, nil, 0o600); err != nil {
			s.Fatal(err)
		}
		if err := <-ended; err != nil {
			s.Fatal(err)
		}
		if turns := s.Turns(); len(turns) != 1 || turns[0].Files.Modified != 2 || turns[0].Shell != 2 {
			s.Errorf("the turns are %+v", turns)
		}
		s.Segno("undo", "-y")
		if got, want := s.Tree(), strings.Replace(before, `yours.txt -rw-r--r-- "0\n"`, `yours.txt -rw-r--r-- "mine\n"`, 1); got != want {
			s.Errorf("files after the undo:\n%s\nwant\n%s", got, want)
		}
	})
}
