package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEveryTurnIsACheckpoint drives the agent in print mode through edits by its
// own tool, by sed, by rm, mv and chmod, with a person's edit between two turns,
// and goes back and forth over them.
func TestEveryTurnIsACheckpoint(t *testing.T) {
	s := newStage(t, map[string]string{"src/a.go": "package a // one\n", ".env": "SECRET=1\n", "build/out": "artefact\n"})
	states := []string{s.tree()}
	session := s.say(prompt("first", s.writes("src/b.go", "package a // b\n"), "done 1"))
	states = append(states, s.tree())
	s.say(prompt("second", bash("sed -i s/one/two/ src/a.go && rm -r build .env && chmod 755 src/b.go && mv src/b.go src/c.go"), "done 2"), "--resume", session)
	states = append(states, s.tree())
	s.write("README.md", "mine\n") // a person, between turns
	withMine := s.tree()
	s.say(prompt("third", bash("echo more >> src/c.go; false"), "done 3"), "--resume", session)

	log := s.log()
	ts := turns(log)
	if len(ts) != 3 {
		t.Fatalf("%d turns, want 3: %+v", len(ts), log)
	}
	for i, c := range ts {
		if c.Turn != i+1 || c.Session != session || c.Agent != "claude" || c.Interrupted {
			t.Errorf("turn %d is %+v", i+1, c)
		}
	}
	if f := ts[1].Files; f.Added != 1 || f.Deleted != 3 || f.Modified != 1 || ts[1].Shell != 1 {
		t.Errorf("turn 2 changed %+v with %d shell calls", f, ts[1].Shell)
	}
	if log[len(log)-1].Kind != "base" || log[len(log)-1].Turn != 0 || log[len(log)-1].Parent != nil {
		t.Errorf("the thread begins with %+v", log[len(log)-1])
	}
	if show := s.segno("show", "t3"); !strings.Contains(show, "exit 1") || !strings.Contains(show, "echo more") {
		t.Errorf("show t3 says\n%s", show)
	}

	before := s.transcripts()
	s.segno("undo", "-y")
	if diff := cmp.Diff(withMine, s.tree()); diff != "" {
		t.Errorf("undo of turn 3 (-want +got):\n%s", diff)
	}
	s.segno("undo", "-y")
	s.segno("op", "undo", "-y")
	if diff := cmp.Diff(withMine, s.tree()); diff != "" {
		t.Errorf("undo taken back (-want +got):\n%s", diff)
	}
	s.segno("undo", "2", "-y")
	if diff := cmp.Diff(states[0]+"README.md", withoutLine(s.tree(), "README.md")+"README.md"); diff != "" {
		t.Errorf("undo of turns 2 and 1 (-want +got):\n%s", diff)
	}
	s.segno("redo", "3", "-y")
	if got, err := os.ReadFile(s.path("src/c.go")); err != nil || !strings.HasSuffix(string(got), "more\n") {
		t.Errorf("redo of all: src/c.go holds %q, %v", got, err)
	}
	s.segno("restore", "t1", "-y")
	if diff := cmp.Diff(states[1], s.tree()); diff != "" {
		t.Errorf("restore t1 (-want +got):\n%s", diff)
	}
	s.segno("restore", "t2", "-y", "--files", "src/a.go")
	if got, err := os.ReadFile(s.path("src/a.go")); err != nil || string(got) != "package a // two\n" {
		t.Errorf("restore of one path: %q, %v", got, err)
	}
	after := s.transcripts()
	for name, content := range before {
		if after[name] != content {
			t.Errorf("%s was edited", name)
		}
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

// TestUndoneConversationGoesOn checks what the model is sent after an undo: the
// conversation up to the turn landed on, and nothing of the turn taken back.
func TestUndoneConversationGoesOn(t *testing.T) {
	s := newStage(t, map[string]string{"a.txt": "1\n"})
	session := s.say(prompt("alpha", s.writes("a.txt", "2\n"), "answer one"))
	s.say(prompt("beta", bash("rm a.txt"), "answer two"), "--resume", session)
	want := s.callFor("beta").Messages()

	var moved struct {
		Session string
		Command []string
	}
	s.json(&moved, "undo", "-y")
	if moved.Session == "" || moved.Session == session || len(moved.Command) != 3 {
		t.Fatalf("undo goes on in %+v", moved)
	}
	s.say(prompt("gamma", "answer three"), "--resume", moved.Session)
	got := s.callFor("gamma").Messages()
	if diff := cmp.Diff(want[:len(want)-1], got[:len(got)-1]); diff != "" {
		t.Errorf("the conversation before the new prompt (-want +got):\n%s", diff)
	}
	ts := turns(s.log())
	if last := ts[len(ts)-1]; last.Turn != 3 || *last.Parent != ts[0].ID || last.Thread != ts[0].Thread {
		t.Errorf("the new turn is %+v, want t3 on %s", last, ts[0].ID)
	}
}

// TestContinueFindsTheHeadSession checks that the agent's own "go on with the
// newest" means the session the thread stands on.
func TestContinueFindsTheHeadSession(t *testing.T) {
	s := newStage(t, nil)
	session := s.say(prompt("alpha", "one"))
	s.say(prompt("beta", "two"), "--resume", session)
	s.segno("undo", "-y")
	s.say(prompt("gamma", "three"), "--continue")
	if s.lastCall().HasText("beta") {
		t.Error("--continue went on with the turn that was undone")
	}
	s.segno("restore", "t2", "-y")
	s.say(prompt("delta", "four"), "--continue")
	if last := s.lastCall(); !last.HasText("beta") || last.HasText("gamma") {
		t.Error("--continue did not go on from t2")
	}
}

// TestForkIsExact forks at turn 2 of 5 and goes on there with the real agent.
func TestForkIsExact(t *testing.T) {
	s := newStage(t, map[string]string{"a.txt": "0\n", ".env": "SECRET\n"})
	session := s.say(prompt("turn one", s.writes("a.txt", "1\n"), "one"))
	s.say(prompt("turn two", bash("echo 2 > b.txt"), "two"), "--resume", session)
	want := s.tree()
	s.say(prompt("turn three", bash("rm .env; echo 3 > a.txt"), "three"), "--resume", session)
	original := s.callFor("turn three").Messages()
	s.say(prompt("turn four", "four"), "--resume", session)
	s.say(prompt("turn five", "five"), "--resume", session)

	before, files := s.transcripts(), s.tree()
	var f struct {
		Thread, Checkpoint, Dir, Session string
		Command                          []string
	}
	s.json(&f, "fork", "t2", "--to", "../try-middleware")
	if diff := cmp.Diff(want, tree(t, f.Dir)); diff != "" {
		t.Errorf("the fork's files (-want +got):\n%s", diff)
	}
	fork, err := s.rig.In(f.Dir)
	if err != nil {
		t.Fatal(err)
	}
	res, err := fork.Print(s.ctx, prompt("another way", bash("echo fork > b.txt"), "forked"), f.Command[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := res.Must(); err != nil {
		t.Fatal(err)
	}
	got := s.callFor("another way").Messages()
	if diff := cmp.Diff(original[:len(original)-1], got[:len(original)-1]); diff != "" {
		t.Errorf("what the model was sent before the new prompt (-want +got):\n%s", diff)
	}
	if !s.callFor("another way").HasText(f.Dir) {
		t.Error("the agent was not told where it is")
	}
	for name, content := range before {
		if data, err := os.ReadFile(name); err != nil || string(data) != content {
			t.Errorf("%s was edited (%v)", name, err)
		}
	}
	if diff := cmp.Diff(files, s.tree()); diff != "" {
		t.Errorf("the source's files (-want +got):\n%s", diff)
	}
	ts := turns(s.log("-C", f.Dir))
	if last := ts[len(ts)-1]; last.Turn != 3 || last.Thread != f.Thread || len(ts) != 3 {
		t.Errorf("the fork's turns are %+v", ts)
	}
	if len(turns(s.log())) != 5 {
		t.Error("the source's thread changed")
	}
	if _, err := os.Stat(filepath.Join(f.Dir, ".env")); err != nil {
		t.Error("an ignored file is not in the fork:", err)
	}
}
