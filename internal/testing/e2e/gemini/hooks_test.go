package gemini_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
	"github.com/dalsegno/segno/internal/testing/soak"
)

func TestMain(m *testing.M) { e2erig.Main(m) }

// withHooks runs a scenario on each version of Gemini CLI, with segno's hooks.
func withHooks(t *testing.T, files map[string]string, do func(*e2erig.Stage, *agentrig.Gemini)) {
	t.Helper()
	t.Parallel()
	for _, v := range agentrig.GeminiVersions() {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			s, agent := e2erig.Gemini(t, v, files)
			do(s, agent)
		})
	}
}

// turn runs one turn in which Gemini CLI runs a shell command, and returns its session.
func turn(s *e2erig.Stage, agent *agentrig.Gemini, word, command string, args ...string) string {
	s.Helper()
	shell := map[string]any{"tool": "run_shell_command", "input": map[string]any{"command": command, "description": "d"}}
	res, err := agent.Prompt(s.Ctx, e2erig.Prompt(word, shell, "done "+word), args...)
	if err != nil {
		s.Fatal(err)
	}
	return res.Session
}

// TestEveryTurnIsACheckpoint runs two turns that change files, and undoes the last one. Under SEGNO_SOAK, it also
// undoes a third turn, and the session that undo made continues.
func TestEveryTurnIsACheckpoint(t *testing.T) {
	withHooks(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Gemini) {
		settings, err := os.ReadFile(agent.Settings())
		if err != nil || !strings.Contains(string(settings), "BeforeAgent") {
			s.Fatalf("enable wrote %q, %v", settings, err)
		}
		session := turn(s, agent, "alpha", "echo 1 > a.txt")
		first := s.Tree()
		turn(s, agent, "beta", "rm a.txt; echo 2 > b.txt; "+s.PinCommand(), "--resume", session)
		s.WantPinBy("gemini")
		want := []string{"alpha", "beta"}
		if soak.IsWhole() {
			turn(s, agent, "gamma", "echo 3 > b.txt; false", "--resume", session)
			want = append(want, "gamma")
		}

		turns := s.Turns()
		if got := e2erig.Prompts(turns); !slices.Equal(got, want) {
			s.Fatalf("turns %q, want %q", got, want)
		}
		for i, c := range turns {
			if c.Turn != i+1 || c.Session != session || c.Agent != "gemini" || c.Interrupted || c.Partial || c.Thread != turns[0].Thread || c.Shell != 1 {
				s.Errorf("turn %d is %+v", i+1, c)
			}
		}
		beta := s.CallFor("beta").Messages()
		var newest, moved struct {
			Session string
			Command []string
		}
		if s.JSON(&newest, "resume", "--print"); newest.Session != session {
			s.Errorf("resume goes on in %s, not in the agent's own session %s", newest.Session, session)
		}
		s.JSON(&moved, "undo", strconv.Itoa(len(want)-1), "-y")
		if diff := cmp.Diff(first, s.Tree()); diff != "" {
			s.Errorf("files after undo (-want +got):\n%s", diff)
		}
		if want := []string{"gemini", "--resume", moved.Session}; !slices.Equal(moved.Command, want) || moved.Session == session {
			s.Fatalf("undo goes on in %+v", moved)
		}
		if !soak.IsWhole() {
			return
		}
		turn(s, agent, "delta", "echo 4 > c.txt", "--resume", moved.Session)
		got := s.CallFor("delta").Messages()
		if diff := cmp.Diff(beta[:len(beta)-1], got[:len(got)-1]); diff != "" {
			s.Errorf("the conversation before the new prompt (-want +got):\n%s", diff)
		}
		turns = s.Turns()
		if last := turns[len(turns)-1]; last.Session != moved.Session || last.Parent == nil || *last.Parent != turns[0].ID {
			s.Errorf("the new turn is %+v, want one on %s", last, turns[0].ID)
		}
		purged(s, agent, moved.Session, got)
	})
}

// purged deletes all sessions as Gemini CLI does after 30 days. segno writes the newest one back under
// its own id, and Gemini CLI continues it.
func purged(s *e2erig.Stage, agent *agentrig.Gemini, session string, before []fakemodel.Message) {
	s.Helper()
	var listed []struct {
		Agent, Session, Dir string
		Turns               int
		Kept                bool
		Thread              string
	}
	s.JSON(&listed, "sessions")
	// Gemini CLI may have deleted the first session already: see the package transcript/gemini.
	if len(listed) == 0 || listed[0].Session != session || listed[0].Agent != "gemini" || listed[0].Dir != agent.Project || listed[0].Turns != 2 || !listed[0].Kept {
		s.Errorf("segno sessions lists %+v", listed)
	}
	if err := os.RemoveAll(filepath.Join(agent.Dir(), "tmp")); err != nil {
		s.Fatal(err)
	}
	var resumed struct{ Session string }
	if s.JSON(&resumed, "resume", "--print"); resumed.Session != session {
		s.Errorf("resume goes on in %s, want %s", resumed.Session, session)
	}
	turn(s, agent, "epsilon", "echo 5 > c.txt", "--resume", session)
	got := s.CallFor("epsilon").Messages()
	// Gemini CLI makes the first block of the first message at each start. The block lists the current files of the
	// directory.
	was := &before[0].Blocks[0].Text
	*was = strings.Replace(*was, "└───a.txt", "├───a.txt\n└───c.txt", 1)
	if diff := cmp.Diff(withoutRepeats(before), withoutRepeats(got[:len(before)])); diff != "" {
		s.Errorf("the conversation after the purge (-want +got):\n%s", diff)
	}
}

// withoutRepeats removes blocks that equal the previous one. After some resumes, Gemini CLI 0.61 sends the result of
// a call a second time, even in a session that only Gemini CLI has written.
func withoutRepeats(messages []fakemodel.Message) []fakemodel.Message {
	out := slices.Clone(messages)
	for i := range out {
		out[i].Blocks = slices.Compact(slices.Clone(out[i].Blocks))
	}
	return out
}
