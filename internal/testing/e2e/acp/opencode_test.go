package acp_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestACPOpenCodeHooks also enables the plugin of OpenCode. segno records every turn once, and status does not report the sessions of
// these turns as unrecorded: over ACP, the agent has another name than its plugin.
func TestACPOpenCodeHooks(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.OpenCode}) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			s.Rig.Path = append(s.Rig.Path, filepath.Dir(s.agent.Command[0]))
			s.Segno("enable", "opencode")
			c := s.open()
			c.say(e2erig.Prompt("alpha", s.shell("echo 1 > a.txt"), "one"))
			c.say(e2erig.Prompt("beta", s.shell("echo 2 > a.txt"), "two"))
			c.say("/undo")
			c.say(e2erig.Prompt("gamma", s.shell("echo 3 > a.txt"), "three"))
			c.hangUp()
			s.checkTurns("t1 alpha", "t2 beta", "t3 gamma")
			s.heard("gamma", []string{"alpha", "one"}, []string{"beta"})
			if out := s.Segno("status"); strings.Contains(out, "no turn") {
				t.Errorf("status lists sessions without turns:\n%s", out)
			}
			if show := s.Segno("show", "t1"); strings.Count(show, "execute echo 1 > a.txt") != 1 {
				t.Errorf("show t1 says\n%s", show)
			}
		})
	}
}
