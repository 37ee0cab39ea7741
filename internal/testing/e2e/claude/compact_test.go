package claude_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestCompactFirstAfterResume resumes a session with /compact as its first prompt and
// then sends prompts, each command in a separate process. The turns before the
// compaction stay on the line of the new turns.
func TestCompactFirstAfterResume(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		session := s.Say(e2erig.Prompt("alpha", s.Writes("a.txt", "1\n"), "one"))
		s.Say(e2erig.Prompt("beta", e2erig.Bash("echo 2 > a.txt"), "two"), "--resume", session)
		if got := s.Say("/compact", "--resume", session); got != session {
			s.Fatalf("/compact went on as %s, not %s", got, session)
		}
		s.Say(e2erig.Prompt("gamma", e2erig.Bash("echo 3 > a.txt"), "three"), "--resume", session)
		s.Say(e2erig.Prompt("delta", e2erig.Bash("echo 4 > a.txt"), "four"), "--resume", session)
		if e2erig.Said(s.CallFor("gamma"), "alpha") {
			s.Fatal("the agent did not compact")
		}
		s.OnOneLine("alpha", "beta", "gamma", "delta")
		for _, call := range s.Model.Calls() {
			if strings.Contains(string(call.Body), "hook claude") {
				s.Errorf("the model was sent the command of a hook: %s", call.Body)
				break
			}
		}

		// Undo goes back over the compaction to the turn before it.
		s.Segno("undo", "2", "-y")
		if got := s.Read("a.txt"); got != "2\n" || s.Head().Turn != 2 {
			s.Errorf("undo of the turns since the compaction left %q at t%d", got, s.Head().Turn)
		}
		s.Segno("redo", "2", "-y")
		if got := s.Read("a.txt"); got != "4\n" {
			s.Errorf("redo left %q", got)
		}

		// A fork from before the compaction has the turns themselves and no summary.
		var f struct {
			Dir     string
			Command []string
		}
		s.JSON(&f, "fork", "t2", "--to", "../fork")
		fork, err := s.Rig.In(f.Dir)
		if err != nil {
			s.Fatal(err)
		}
		res, err := fork.Print(s.Ctx, e2erig.Prompt("epsilon", "forked"), f.Command[1:]...)
		if err != nil {
			s.Fatal(err)
		}
		if _, err := res.Must(); err != nil {
			s.Fatal(err)
		}
		if call := s.CallFor("epsilon"); !e2erig.Said(call, "alpha") || !e2erig.Said(call, "beta") || e2erig.Said(call, "gamma") {
			s.Errorf("the fork's model was sent %+v", e2erig.Conversation(call))
		}
		if got := e2erig.Prompts(s.Turns("-C", f.Dir)); !slices.Equal(got, []string{"alpha", "beta", "epsilon"}) {
			s.Errorf("the fork's turns are %q", got)
		}
	})
}

// TestAutoCompaction makes the agent compact automatically, in the middle of the first turn
// of a resumed session.
func TestAutoCompaction(t *testing.T) {
	e2erig.ScenarioIfDrawn(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		session := s.Say(e2erig.Prompt("alpha", s.Writes("a.txt", "1\n"), "one"))
		s.Say(e2erig.Prompt("beta", e2erig.Bash("echo 2 > a.txt"), "two"), "--resume", session)
		s.Rig.CompactSoon()
		s.Say(e2erig.Prompt("gamma", e2erig.Bash("echo 3 > a.txt"), "three"), "--resume", session)
		if n := strings.Count(s.Transcript(session), `"subtype":"compact_boundary"`); n == 0 {
			s.Fatal("the agent did not compact")
		}
		s.Say(e2erig.Prompt("delta", e2erig.Bash("echo 4 > a.txt"), "four"), "--resume", session)
		s.OnOneLine("alpha", "beta", "gamma", "delta")
		s.Segno("undo", "2", "-y")
		if got := s.Read("a.txt"); got != "2\n" {
			s.Errorf("undo of two turns left %q", got)
		}
	})
}
