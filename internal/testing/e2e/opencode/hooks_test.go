package opencode_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

func TestMain(m *testing.M) { e2erig.Main(m) }

// turn runs one turn in which OpenCode runs a shell command, and returns its session.
func turn(s *e2erig.Stage, agent *agentrig.ACP, word, command string, args ...string) string {
	s.Helper()
	session, err := agent.RunOpenCode(s.Ctx, e2erig.Prompt(word+"\n", agent.Shell(command), "done "+word), args...)
	if err != nil {
		s.Fatal(err)
	}
	return session
}

// TestTurnIsACheckpoint runs one turn and undoes it. OpenCode takes seconds to start.
func TestTurnIsACheckpoint(t *testing.T) {
	t.Parallel()
	s, agent := e2erig.OpenCode(t, map[string]string{"a.txt": "0\n"})
	before := s.Tree()
	session := turn(s, agent, "alpha", "rm a.txt; echo 1 > b.txt")
	turns := s.Turns()
	if len(turns) != 1 || turns[0].Session != session || turns[0].Agent != "opencode" || turns[0].Interrupted || turns[0].Shell != 1 {
		s.Fatalf("turns %+v", turns)
	}
	s.Segno("undo", "-y")
	if diff := cmp.Diff(before, s.Tree()); diff != "" {
		s.Errorf("files after undo (-want +got):\n%s", diff)
	}
	if out := s.Segno("sessions"); !strings.Contains(out, "opencode") || !strings.Contains(out, "kept") {
		s.Errorf("segno sessions lists %s", out)
	}
	plugin := filepath.Join(agent.OpenCodeConfig(), "plugins", "segno.js")
	s.Segno("disable", "opencode")
	if _, err := os.Stat(plugin); !os.IsNotExist(err) {
		s.Errorf("disable left %s: %v", plugin, err)
	}
}

// TestResumeBySession continues a session by its id: while OpenCode has it, and after OpenCode's database is
// gone. A session of OpenCode is bound to its directory, so move refuses it.
func TestResumeBySession(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	t.Parallel()
	s, agent := e2erig.OpenCode(t, map[string]string{"a.txt": "0\n"})
	session := turn(s, agent, "alpha", "echo 1 > a.txt")
	for _, state := range []string{"present", "deleted"} {
		if state == "deleted" {
			if err := os.RemoveAll(filepath.Join(agent.Home, ".local", "share", "opencode")); err != nil {
				s.Fatal(err)
			}
		}
		for _, name := range []string{session, session[:len("ses_")+8]} {
			var resumed struct {
				Session string
				Command []string
			}
			s.JSON(&resumed, "resume", name, "--print")
			if want := []string{"opencode", "--session", session}; resumed.Session != session || !slices.Equal(resumed.Command, want) {
				s.Errorf("resume of the session %q, which is %s, goes on in %+v", name, state, resumed)
			}
		}
	}
	turn(s, agent, "beta", "echo 2 > a.txt; "+s.PinCommand(), "--session", session)
	s.WantPinBy("opencode")
	if messages := s.CallFor("beta").Messages(); len(messages) < 3 {
		s.Errorf("the model received %d messages after the session was written back", len(messages))
	}
	out, code := s.Try("sessions", "move", session, "--to", t.TempDir())
	if code != 5 || !strings.Contains(out, "OpenCode") {
		s.Errorf("move ended with %d:\n%s", code, out)
	}
}

// TestEveryTurnIsACheckpoint runs three turns that change files and undoes the last two: OpenCode
// continues a session that ends at the first turn. Its first session continues, too, and its model receives
// a description of the moves. The test runs only under SEGNO_SOAK.
func TestEveryTurnIsACheckpoint(t *testing.T) {
	if !soak.IsWhole() {
		return
	}
	t.Parallel()
	s, agent := e2erig.OpenCode(t, map[string]string{"a.txt": "0\n"})
	session := turn(s, agent, "alpha", "echo 1 > a.txt")
	first := s.Tree()
	turn(s, agent, "beta", "rm a.txt; echo 2 > b.txt", "--session", session)
	turn(s, agent, "gamma", "echo 3 > b.txt; false", "--session", session)

	turns := s.Turns()
	if got, want := e2erig.Prompts(turns), []string{"alpha\n", "beta\n", "gamma\n"}; !slices.Equal(got, want) {
		s.Fatalf("turns %q, want %q", got, want)
	}
	for i, c := range turns {
		if c.Turn != i+1 || c.Session != session || c.Agent != "opencode" || c.Interrupted || c.Partial || c.Thread != turns[0].Thread || c.Shell != 1 {
			s.Errorf("turn %d is %+v", i+1, c)
		}
	}
	beta := s.CallFor("beta").Messages()
	var moved struct {
		Session string
		Command []string
	}
	s.JSON(&moved, "undo", "2", "-y")
	if diff := cmp.Diff(first, s.Tree()); diff != "" {
		s.Errorf("files after undo (-want +got):\n%s", diff)
	}
	if want := []string{"opencode", "--session", moved.Session}; !slices.Equal(moved.Command, want) || moved.Session == session {
		s.Fatalf("undo goes on in %+v", moved)
	}
	turn(s, agent, "delta", "echo 4 > c.txt", "--session", moved.Session)
	got := s.CallFor("delta").Messages()
	if diff := cmp.Diff(beta[:len(beta)-1], got[:len(got)-1]); diff != "" {
		s.Errorf("the conversation before the new prompt (-want +got):\n%s", diff)
	}
	turn(s, agent, "epsilon", "echo 5 > d.txt", "--session", session)
	if said := s.CallFor("epsilon"); !said.HasText("the work went on with turn 4 (“delta”), which this session has not seen") {
		s.Errorf("the first session is not told of the turn of the second: %+v", said.Messages())
	}
	lost(s, agent, session)
}

// lost removes the database. segno makes OpenCode import the newest session again, under its own id. Then
// lost removes the plugin.
func lost(s *e2erig.Stage, agent *agentrig.ACP, session string) {
	s.Helper()
	var listed []struct {
		Agent, Session, Dir string
		Turns               int
		Kept                bool
	}
	s.JSON(&listed, "sessions")
	if len(listed) != 2 || listed[0].Session != session || listed[0].Agent != "opencode" || listed[0].Dir != agent.Project || listed[0].Turns != 4 || !listed[0].Kept {
		s.Errorf("segno sessions lists %+v", listed)
	}
	before := s.CallFor("epsilon").Messages()
	if err := os.RemoveAll(filepath.Join(agent.Home, ".local", "share", "opencode")); err != nil {
		s.Fatal(err)
	}
	var resumed struct{ Session string }
	if s.JSON(&resumed, "resume", "--print"); resumed.Session != session {
		s.Errorf("resume goes on in %s, want %s", resumed.Session, session)
	}
	turn(s, agent, "zeta", "echo 6 > d.txt", "--session", session)
	if diff := cmp.Diff(before, s.CallFor("zeta").Messages()[:len(before)]); diff != "" {
		s.Errorf("the conversation after the loss (-want +got):\n%s", diff)
	}
	plugin := filepath.Join(agent.OpenCodeConfig(), "plugins", "segno.js")
	s.Segno("enable", "opencode")
	if out, _ := s.Try("doctor"); !strings.Contains(out, plugin) {
		s.Errorf("doctor does not name %s:\n%s", plugin, out)
	}
	s.Segno("disable", "opencode")
	if _, err := os.Stat(plugin); !os.IsNotExist(err) {
		s.Errorf("disable left %s: %v", plugin, err)
	}
	recorded := len(s.Checkpoints())
	turn(s, agent, "eta", "echo 7 > d.txt", "--session", session)
	if got := len(s.Checkpoints()); got != recorded {
		s.Errorf("%d checkpoints with the plugin removed, %d before", got, recorded)
	}
}
