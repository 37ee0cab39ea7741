package archive_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

// TestLinesMove packs checkpoints on both sides of a compaction, and one on a new line after an
// undo, whose session segno has cut.
func TestLinesMove(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		session := s.Say(e2erig.Prompt("alpha", e2erig.Bash("echo 1 > a.txt"), "one"))
		s.Say(e2erig.Prompt("beta", e2erig.Bash("echo 2 > a.txt"), "two"), "--resume", session)
		s.Say("/compact", "--resume", session)
		s.Say(e2erig.Prompt("gamma", e2erig.Bash("echo 3 > a.txt"), "three"), "--resume", session)
		gamma := s.Head()
		delta := e2erig.Prompt("delta", "four")
		want := resumed(s, s.Rig, delta, "--resume", session)
		s.Segno("undo", "3", "-y")
		line := s.Head()
		s.Say(e2erig.Prompt("epsilon", e2erig.Bash("echo 5 > a.txt"), "five"), "--resume", line.Session)
		epsilon := s.Head()
		zeta := e2erig.Prompt("zeta", "six")
		wantLine := resumed(s, s.Rig, zeta, "--resume", line.Session)
		if err := os.RemoveAll(filepath.Join(s.Rig.Config, "projects")); err != nil {
			s.Fatal(err)
		}
		for _, c := range []struct {
			at     string
			prompt string
			want   []fakemodel.Message
		}{{gamma.ID, delta, want}, {epsilon.ID, zeta, wantLine}} {
			rig, a := elsewhere(s, packed(s, c.at), false)
			if diff := cmp.Diff(c.want, resumed(s, rig, c.prompt, a.Command[1:]...)); diff != "" {
				s.Errorf("the conversation before %s (-want +got):\n%s", c.prompt, diff)
			}
		}
	})
}

// TestSegnoGoesOnElsewhere enables segno on the other machine, whose store does not have the
// session. The store then has the turns of the archive, and the next turn.
func TestSegnoGoesOnElsewhere(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		session := s.Say(e2erig.Prompt("alpha", e2erig.Bash("echo 1 > a.txt"), "one"))
		s.Say(e2erig.Prompt("beta", e2erig.Bash("echo 2 > a.txt"), "two"), "--resume", session)
		rig, a := elsewhere(s, packed(s, s.Head().ID), false)
		there := func(args ...string) []byte {
			s.Helper()
			return segnoAt(s, rig, args...)
		}
		there("enable", "claude")
		resumed(s, rig, e2erig.Prompt("gamma", e2erig.Bash("echo 3 > a.txt"), "three"), a.Command[1:]...)
		var log []e2erig.Checkpoint
		if err := json.Unmarshal(there("log", "--json"), &log); err != nil {
			s.Fatal(err)
		}
		if got := e2erig.Prompts(e2erig.Turns(log)); !cmp.Equal(got, []string{"alpha", "beta", "gamma"}) {
			s.Errorf("the turns there are %q", got)
		}
		there("undo", "-y")
		if data, err := os.ReadFile(filepath.Join(a.Dir, "a.txt")); err != nil || string(data) != "2\n" {
			s.Errorf("undo left %q, %v", data, err)
		}
	})
}

// segnoAt runs the command on another machine, with a store of that machine.
func segnoAt(s *e2erig.Stage, rig *agentrig.Rig, args ...string) []byte {
	s.Helper()
	cmd := exec.CommandContext(s.Ctx, s.Binary, append([]string{"--store", filepath.Join(rig.Home, "store")}, args...)...)
	cmd.Dir, cmd.Env = rig.Project, rig.Env()
	out, err := cmd.Output()
	if err != nil {
		s.Fatalf("segno %v: %v\n%s", args, err, out)
	}
	return out
}
