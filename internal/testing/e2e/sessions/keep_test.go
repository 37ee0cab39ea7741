package sessions_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestAKeptSessionComesBack keeps a session that no hook recorded, removes all of the agent's files, and
// resumes the session. The model gets the same conversation as from the agent's own fork of the session
// before the loss.
func TestAKeptSessionComesBack(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		s.Segno("disable", "claude")
		session := s.Say(e2erig.Prompt("alpha", s.Writes("a.txt", "1\n"), "one"))
		s.Say(e2erig.Prompt("beta", e2erig.Bash("seq 20000"), "two"), "--resume", session)
		s.Segno("sessions", "keep", "--all")
		before := s.Transcript(session)
		s.Say(e2erig.Prompt("gamma", "three"), "--resume", session, "--fork-session")
		want := e2erig.Conversation(s.CallFor("gamma"))

		for _, dir := range []string{"projects", "tasks", "file-history"} {
			if err := os.RemoveAll(filepath.Join(s.Rig.Config, dir)); err != nil {
				s.Fatal(err)
			}
		}
		s.Segno("resume", session, "--print")
		if after := s.Transcript(session); after != before {
			s.Errorf("%d bytes came back of %d", len(after), len(before))
		}
		s.Say(e2erig.Prompt("gamma", "three"), "--resume", session)
		if diff := cmp.Diff(want, e2erig.Conversation(s.LastCall())); diff != "" {
			s.Errorf("the model got another conversation:\n%s", diff)
		}
	})
}
