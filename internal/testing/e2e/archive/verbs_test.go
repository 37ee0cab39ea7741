package archive_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestTheVerbsMoveARun packs, inspects, verifies and unpacks with the command, as a user does:
// on the same machine for the first archive, and on another one for the second.
func TestTheVerbsMoveARun(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		session := s.Say(e2erig.Prompt("alpha", e2erig.Bash("echo 1 > a.txt"), "one"))
		beta := e2erig.Prompt("beta", e2erig.Bash("echo 2 > a.txt"), "two")
		s.Say(beta, "--resume", session)
		want := s.CallFor("beta").Messages()
		file := filepath.Join(s.TempDir(), "run.ckpt")
		s.Segno("pack", "t1", "-o", file)
		s.Segno("archive", "verify", file)
		if out := s.Segno("archive", "inspect", file); !strings.Contains(out, "claude") {
			s.Errorf("inspect prints\n%s", out)
		}

		rig, err := agentrig.New(s.TempDir(), s.Rig.Bin, s.Rig.ModelURL)
		if err != nil {
			s.Fatal(err)
		}
		to := filepath.Join(rig.Home, "else where")
		var got struct {
			Dir    string
			Agents []struct {
				Session string
				Command []string
			}
		}
		// The other machine did not write the archive, so it loads the files alone unless the user trusts it.
		if err := json.Unmarshal(segnoAt(s, rig, "unpack", file, "--to", to+"-files", "--json"), &got); err != nil {
			s.Fatal(err)
		}
		if got.Agents[0].Session != "" {
			s.Errorf("a session of another machine was loaded: %+v", got)
		}
		if err := json.Unmarshal(segnoAt(s, rig, "unpack", file, "--to", to, "--trust-session", "--json"), &got); err != nil {
			s.Fatal(err)
		}
		if data, err := os.ReadFile(filepath.Join(to, "a.txt")); err != nil || string(data) != "1\n" {
			s.Errorf("a.txt is %q, %v", data, err)
		}
		there, err := rig.In(got.Dir)
		if err != nil {
			s.Fatal(err)
		}
		if diff := cmp.Diff(want, resumed(s, there, beta, got.Agents[0].Command[1:]...)); diff != "" {
			s.Errorf("the conversation (-want +got):\n%s", diff)
		}

		// This machine wrote the archive. Here the session's id is in use, so the session gets
		// another one.
		s.JSON(&got, "unpack", file, "--to", filepath.Join(s.TempDir(), "here"))
		if got.Agents[0].Session == "" || got.Agents[0].Session == session {
			s.Errorf("unpacked here, the session is %q", got.Agents[0].Session)
		}
		if there, err = s.Rig.In(got.Dir); err != nil {
			s.Fatal(err)
		}
		if diff := cmp.Diff(want, resumed(s, there, beta, got.Agents[0].Command[1:]...)); diff != "" {
			s.Errorf("the conversation here (-want +got):\n%s", diff)
		}
	})
}
