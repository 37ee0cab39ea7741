package claude_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestEveryTurnIsACheckpoint drives the agent in print mode through edits by its own tool, by
// sed, by rm, mv and chmod, with an edit by the user between two turns. It then moves back
// and forth over them.
func TestEveryTurnIsACheckpoint(t *testing.T) {
	e2erig.Scenario(t, map[string]string{"src/a.go": "package a // one\n", ".env": "SECRET=1\n", "build/out": "artefact\n"}, func(s *e2erig.Stage) {
		states := []string{s.Tree()}
		session := s.Say(e2erig.Prompt("first", s.Writes("src/b.go", "package a // b\n"), "done 1"))
		states = append(states, s.Tree())
		s.Say(e2erig.Prompt("second", e2erig.Bash("sed -i s/one/two/ src/a.go && rm -r build .env && chmod 755 src/b.go && mv src/b.go src/c.go && "+s.PinCommand()), "done 2"), "--resume", session)
		states = append(states, s.Tree())
		s.Write("README.md", "mine\n") // the user, between turns
		withMine := s.Tree()
		s.Say(e2erig.Prompt("third", e2erig.Bash("echo more >> src/c.go; false"), "done 3"), "--resume", session)

		log := s.Checkpoints()
		ts := e2erig.Turns(log)
		if len(ts) != 3 {
			s.Fatalf("%d turns, want 3: %+v", len(ts), log)
		}
		for i, c := range ts {
			if c.Turn != i+1 || c.Session != session || c.Agent != "claude" || c.Interrupted {
				s.Errorf("turn %d is %+v", i+1, c)
			}
		}
		if f := ts[1].Files; f.Added != 1 || f.Deleted != 3 || f.Modified != 1 || ts[1].Shell != 1 {
			s.Errorf("turn 2 changed %+v with %d shell calls", f, ts[1].Shell)
		}
		if log[len(log)-1].Kind != "base" || log[len(log)-1].Turn != 0 || log[len(log)-1].Parent != nil {
			s.Errorf("the thread begins with %+v", log[len(log)-1])
		}
		if show := s.Segno("show", "t3"); !strings.Contains(show, "exit 1") || !strings.Contains(show, "echo more") {
			s.Errorf("show t3 says\n%s", show)
		}
		checkExport(s)

		s.WantPinBy("claude")
		before := s.Transcripts()
		s.Segno("undo", "-y")
		if diff := cmp.Diff(withMine, s.Tree()); diff != "" {
			s.Errorf("undo of turn 3 (-want +got):\n%s", diff)
		}
		s.Segno("undo", "-y")
		s.Segno("op", "undo", "-y")
		if diff := cmp.Diff(withMine, s.Tree()); diff != "" {
			s.Errorf("undo taken back (-want +got):\n%s", diff)
		}
		s.Segno("undo", "2", "-y")
		if diff := cmp.Diff(states[0]+"README.md", withoutLine(s.Tree(), "README.md")+"README.md"); diff != "" {
			s.Errorf("undo of turns 2 and 1 (-want +got):\n%s", diff)
		}
		s.Segno("redo", "3", "-y")
		if got, err := os.ReadFile(s.Path("src/c.go")); err != nil || !strings.HasSuffix(string(got), "more\n") {
			s.Errorf("redo of all: src/c.go holds %q, %v", got, err)
		}
		s.Segno("restore", "t1", "-y")
		if diff := cmp.Diff(states[1], s.Tree()); diff != "" {
			s.Errorf("restore t1 (-want +got):\n%s", diff)
		}
		s.Segno("restore", "t2", "-y", "--files", "src/a.go")
		if got, err := os.ReadFile(s.Path("src/a.go")); err != nil || string(got) != "package a // two\n" {
			s.Errorf("restore of one path: %q, %v", got, err)
		}
		after := s.Transcripts()
		for name, content := range before {
			if after[name] != content {
				s.Errorf("%s was edited", name)
			}
		}
	})
}

// checkExport checks a trajectory and a page of the three turns.
func checkExport(s *e2erig.Stage) {
	s.Helper()
	var trajectory struct {
		Agent struct{ Name, Version string } `json:"agent"`
		Steps []struct {
			Source, Message string
			Model           string `json:"model_name"`
			Calls           []struct {
				Name string `json:"function_name"`
			} `json:"tool_calls"`
		}
	}
	if err := json.Unmarshal([]byte(s.Segno("export", "--format", "atif")), &trajectory); err != nil {
		s.Fatal(err)
	}
	var said []string
	for _, step := range trajectory.Steps {
		what := strings.TrimSpace(step.Message)
		for _, c := range step.Calls {
			what += c.Name
		}
		if step.Source == "agent" && step.Model != "" {
			said = append(said, what)
		}
	}
	if want := []string{"Write", "done 1", "Bash", "done 2", "Bash", "done 3"}; !slices.Equal(said, want) || trajectory.Agent.Version == "unknown" {
		s.Errorf("the trajectory of %+v has %q, want %q", trajectory.Agent, said, want)
	}
	page := filepath.Join(s.TempDir(), "page.html")
	s.Segno("share", "-o", page)
	if data, err := os.ReadFile(page); err != nil || !strings.Contains(string(data), "<ins>+more</ins>") || !strings.Contains(string(data), "exit 1") {
		s.Errorf("the page: %v\n%s", err, data)
	}
}

func withoutLine(text, name string) string {
	var keep []string
	for _, line := range strings.SplitAfter(text, "\n") {
		if !strings.HasPrefix(line, name+" ") {
			keep = append(keep, line)
		}
	}
	return strings.Join(keep, "")
}

// TestUndoneConversationGoesOn checks the request to the model after an undo: it contains the
// conversation up to the head and nothing of the undone turn.
func TestUndoneConversationGoesOn(t *testing.T) {
	e2erig.Scenario(t, map[string]string{"a.txt": "1\n"}, func(s *e2erig.Stage) {
		session := s.Say(e2erig.Prompt("alpha", s.Writes("a.txt", "2\n"), "answer one"))
		s.Say(e2erig.Prompt("beta", e2erig.Bash("rm a.txt"), "answer two"), "--resume", session)
		want := s.CallFor("beta").Messages()

		var moved struct {
			Session string
			Command []string
		}
		s.JSON(&moved, "undo", "-y")
		if moved.Session == "" || moved.Session == session || len(moved.Command) != 3 {
			s.Fatalf("undo goes on in %+v", moved)
		}
		s.Say(e2erig.Prompt("gamma", "answer three"), "--resume", moved.Session)
		got := s.CallFor("gamma").Messages()
		if diff := cmp.Diff(want[:len(want)-1], got[:len(got)-1]); diff != "" {
			s.Errorf("the conversation before the new prompt (-want +got):\n%s", diff)
		}
		ts := s.Turns()
		if last := ts[len(ts)-1]; last.Turn != 3 || *last.Parent != ts[0].ID || last.Thread != ts[0].Thread {
			s.Errorf("the new turn is %+v, want t3 on %s", last, ts[0].ID)
		}
	})
}

// TestContinueFindsTheHeadSession checks that the agent's own --continue opens the session at
// the head of the thread.
func TestContinueFindsTheHeadSession(t *testing.T) {
	e2erig.ScenarioOnNewest(t, nil, func(s *e2erig.Stage) {
		session := s.Say(e2erig.Prompt("alpha", "one"))
		s.Say(e2erig.Prompt("beta", "two"), "--resume", session)
		s.Segno("undo", "-y")
		s.Say(e2erig.Prompt("gamma", "three"), "--continue")
		if e2erig.Said(s.LastCall(), "beta") {
			s.Error("--continue went on with the turn that was undone")
		}
		s.Segno("restore", "t2", "-y")
		s.Say(e2erig.Prompt("delta", "four"), "--continue")
		if last := s.LastCall(); !e2erig.Said(last, "beta") || e2erig.Said(last, "gamma") {
			s.Error("--continue did not go on from t2")
		}
	})
}

// TestForkIsExact forks at turn 2 of 5 and continues there with the real agent.
func TestForkIsExact(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n", ".env": "SECRET\n"}, func(s *e2erig.Stage) {
		session := s.Say(e2erig.Prompt("turn one", s.Writes("a.txt", "1\n"), "one"))
		s.Say(e2erig.Prompt("turn two", e2erig.Bash("echo 2 > b.txt"), "two"), "--resume", session)
		want := s.Tree()
		s.Say(e2erig.Prompt("turn three", e2erig.Bash("rm .env; echo 3 > a.txt"), "three"), "--resume", session)
		original := s.CallFor("turn three").Messages()
		s.Say(e2erig.Prompt("turn four", "four"), "--resume", session)
		s.Say(e2erig.Prompt("turn five", "five"), "--resume", session)

		before, files := s.Transcripts(), s.Tree()
		var f struct {
			Thread, Checkpoint, Dir, Session string
			Command                          []string
		}
		s.JSON(&f, "fork", "t2", "--to", "../try-middleware")
		if diff := cmp.Diff(want, e2erig.Tree(s.T, f.Dir)); diff != "" {
			s.Errorf("the fork's files (-want +got):\n%s", diff)
		}
		fork, err := s.Rig.In(f.Dir)
		if err != nil {
			s.Fatal(err)
		}
		res, err := fork.Print(s.Ctx, e2erig.Prompt("another way", e2erig.Bash("echo fork > b.txt"), "forked"), f.Command[1:]...)
		if err != nil {
			s.Fatal(err)
		}
		if _, err := res.Must(); err != nil {
			s.Fatal(err)
		}
		got := s.CallFor("another way").Messages()
		if diff := cmp.Diff(original[:len(original)-1], got[:len(original)-1]); diff != "" {
			s.Errorf("what the model was sent before the new prompt (-want +got):\n%s", diff)
		}
		if !s.CallFor("another way").HasText(f.Dir) {
			s.Error("the agent was not told where it is")
		}
		for name, content := range before {
			if data, err := os.ReadFile(name); err != nil || string(data) != content {
				s.Errorf("%s was edited (%v)", name, err)
			}
		}
		if diff := cmp.Diff(files, s.Tree()); diff != "" {
			s.Errorf("the source's files (-want +got):\n%s", diff)
		}
		ts := s.Turns("-C", f.Dir)
		if last := ts[len(ts)-1]; last.Turn != 3 || last.Thread != f.Thread || len(ts) != 3 {
			s.Errorf("the fork's turns are %+v", ts)
		}
		if len(s.Turns()) != 5 {
			s.Error("the source's thread changed")
		}
		if _, err := os.Stat(filepath.Join(f.Dir, ".env")); err != nil {
			s.Error("an ignored file is not in the fork:", err)
		}
	})
}
