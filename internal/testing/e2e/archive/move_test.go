package archive_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

// packed writes an archive of a checkpoint of the stage's store.
func packed(s *e2erig.Stage, checkpoint string) *archive.Reader {
	s.Helper()
	place, err := local.FindPlace(func(string) string { return "" }, s.Store)
	if err != nil {
		s.Fatal(err)
	}
	store, err := place.Open(s.Ctx)
	if err != nil {
		s.Fatal(err)
	}
	defer store.Close()
	state, cleanup, err := (&pack.Packer{Store: store, Temp: s.TempDir()}).State(s.Ctx, segno.CommitID(checkpoint), pack.Options{})
	if err != nil {
		s.Fatal(err)
	}
	name := filepath.Join(s.TempDir(), "run.ckpt")
	if _, err := archive.Write(s.Ctx, name, state, archive.WriteOptions{}); err != nil {
		s.Fatal(err)
	}
	if err := cleanup(); err != nil {
		s.Fatal(err)
	}
	r, err := archive.Open(name)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { r.Close() })
	return r
}

// elsewhere unpacks an archive on another machine, that is, in another home and another path. It
// returns the agent there and the unpacked session.
func elsewhere(s *e2erig.Stage, r *archive.Reader, isNew bool) (*agentrig.Rig, pack.UnpackedAgent) {
	s.Helper()
	rig, err := agentrig.New(s.TempDir(), s.Rig.Bin, s.Rig.ModelURL)
	if err != nil {
		s.Fatal(err)
	}
	got, err := pack.Unpack(s.Ctx, r, pack.Into{Dir: filepath.Join(filepath.Dir(rig.Project), "other", "place"), TrustSession: true,
		NewSession: isNew, Home: func(string) string { return rig.Config }})
	if err != nil {
		s.Fatal(err)
	}
	if rig, err = rig.In(got.Dir); err != nil {
		s.Fatal(err)
	}
	return rig, got.Agents[0]
}

// resumed makes the agent of a rig continue a session with a prompt, and returns the model's
// first input. After the prompt, newer versions of the agent inform the model about the new
// working directory. resumed checks that message and omits it.
func resumed(s *e2erig.Stage, rig *agentrig.Rig, prompt string, args ...string) []fakemodel.Message {
	s.Helper()
	before := len(s.Model.Calls())
	res, err := rig.Print(s.Ctx, prompt, args...)
	if err != nil {
		s.Fatal(err)
	}
	if _, err := res.Must(); err != nil {
		s.Fatal(err)
	}
	calls := s.Model.Calls()
	if len(calls) == before {
		s.Fatal("the model was not called")
	}
	messages := calls[before].Messages()
	last := messages[len(messages)-1]
	if last.Role == "system" && strings.HasPrefix(last.Text(), "# Environment update\n") && strings.Contains(last.Text(), rig.Project) {
		messages = messages[:len(messages)-1]
	}
	return messages
}

// TestASessionMovesToAnotherHome packs an earlier turn and the head, and continues both with the
// real agent in other homes and at other paths, the last time after the source has been deleted.
func TestASessionMovesToAnotherHome(t *testing.T) {
	e2erig.Scenario(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		session := s.Say(e2erig.Prompt("alpha", s.Writes("new.txt", "1\n"), e2erig.Bash("seq 3; cat a.txt new.txt"), "answer one"))
		beta := e2erig.Prompt("beta", e2erig.Bash("echo 2 > b.txt; false"), "answer two")
		s.Say(beta, "--resume", session)
		wantEarly := s.CallFor("beta").Messages()
		s.Say(e2erig.Prompt("gamma", subagent(e2erig.Bash("echo 3 > c.txt"), "sub done"), "answer three"), "--resume", session)
		// The subagent may end after the turn, and a busy store records that with the next command that moves or records.
		var ts []e2erig.Checkpoint
		s.Poll("the work of the subagent", func() bool {
			s.Try("undo", "--dry-run")
			ts = s.Turns()
			return len(ts) == 3 && ts[2].Files.Added == 1
		})
		early, late := packed(s, ts[0].ID), packed(s, ts[2].ID)
		if got := late.Manifest().Cut.Consistency; got != archive.Quiet {
			s.Errorf("the cut of the head is %q", got)
		}
		if !slices.ContainsFunc(late.Manifest().Entries, func(e archive.Entry) bool { return strings.Contains(e.Path, "/subagents/agent-") }) {
			s.Errorf("the transcript of the subagent is missing: %+v", late.Manifest().Entries)
		}
		files := s.Tree()
		delta := e2erig.Prompt("delta", "answer four")
		wantLate := resumed(s, s.Rig, delta, "--resume", session)

		rig, a := elsewhere(s, early, false)
		if diff := cmp.Diff(wantEarly, resumed(s, rig, beta, "--resume", string(a.Session))); diff != "" {
			s.Errorf("the conversation at turn 1 (-want +got):\n%s", diff)
		}
		if data, err := os.ReadFile(filepath.Join(a.Dir, "new.txt")); err != nil || string(data) != "1\n" {
			s.Errorf("new.txt is %q, %v", data, err)
		}
		if err := os.RemoveAll(filepath.Join(s.Rig.Config, "projects")); err != nil {
			s.Fatal(err)
		}
		gone := packed(s, ts[2].ID)
		if gone.Manifest().Digest != late.Manifest().Digest {
			s.Error("without the source the archive has another digest")
		}
		for _, isNew := range []bool{false, true} {
			rig, a := elsewhere(s, gone, isNew)
			if (string(a.Session) == session) == isNew {
				s.Errorf("the session is %s", a.Session)
			}
			if diff := cmp.Diff(files, e2erig.Tree(s.T, a.Dir)); diff != "" {
				s.Errorf("the files (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(wantLate, resumed(s, rig, delta, a.Command[1:]...)); diff != "" {
				s.Errorf("the conversation at the head, new id %v (-want +got):\n%s", isNew, diff)
			}
		}
	})
}

// subagent returns a call of the tool that starts a subagent, with its script.
func subagent(steps ...any) map[string]any {
	return map[string]any{"tool": "Agent", "input": map[string]any{"description": "sub", "subagent_type": "general-purpose",
		"prompt": e2erig.Prompt("sub", steps...)}}
}
