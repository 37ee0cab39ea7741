package sessions_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

// TestNativeForkIsAThreadOfItsOwn checks that the agent's --fork-session becomes a
// thread that starts at the shared turn.
func TestNativeForkIsAThreadOfItsOwn(t *testing.T) {
	e2erig.ScenarioIfDrawn(t, nil, func(s *e2erig.Stage) {
		session := s.Say(e2erig.Prompt("alpha", "one"))
		s.Say(e2erig.Prompt("beta", "two"), "--resume", session)
		source := s.Turns()
		forked := s.Say(e2erig.Prompt("gamma", "three"), "--resume", session, "--fork-session")
		if forked == session {
			s.Fatal("the agent did not fork")
		}
		ts := s.Turns()
		last := ts[len(ts)-1]
		if len(ts) != 3 || last.Thread == source[0].Thread || last.Turn != 3 || last.Session != forked {
			s.Errorf("the fork's log is %+v", ts)
		}
		if got := s.Turns("--thread", source[0].Thread); len(got) != 2 {
			s.Errorf("the source's thread has %d turns now", len(got))
		}
	})
}

// TestTwoSessionsInOneDirectory alternates between two sessions. They are two threads, each with
// its own turns, and the changes of the other session are external to each.
func TestTwoSessionsInOneDirectory(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		one := s.Say(e2erig.Prompt("one alpha", s.Writes("one.txt", "1\n"), "done"))
		two := s.Say(e2erig.Prompt("two alpha", s.Writes("two.txt", "2\n"), "done"))
		s.Say(e2erig.Prompt("one beta", s.Writes("one.txt", "1b\n"), "done"), "--resume", one)
		log := s.Checkpoints()
		ts := e2erig.Turns(log)
		if len(ts) != 2 || ts[0].Session != one || ts[1].Session != one {
			s.Fatalf("the thread of the first session is %+v", ts)
		}
		if !slices.ContainsFunc(log, func(c e2erig.Checkpoint) bool { return c.Kind == "external" && c.Files.Added == 1 }) {
			s.Error("what the second session did is no external change of the first's thread")
		}
		s.Segno("undo", "-y")
		if data, err := os.ReadFile(s.Path("two.txt")); err != nil || string(data) != "2\n" {
			s.Errorf("undo of the one touched the other's file: %q, %v", data, err)
		}
		var threads []struct{ ID, Session string }
		s.JSON(&threads, "threads")
		if len(threads) != 2 || !slices.ContainsFunc(threads, func(x struct{ ID, Session string }) bool { return x.Session == two }) {
			s.Errorf("threads are %+v", threads)
		}
	})
}

// TestOverlappingTurnsShareTheDirectory runs a turn of one session during a turn of another.
func TestOverlappingTurnsShareTheDirectory(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		slow, err := s.Rig.StartPrint(s.Ctx, e2erig.Prompt("slow", e2erig.Bash("echo slow > slow.txt; while [ ! -e go ]; do sleep 0.05; done"), "slow done"))
		if err != nil {
			s.Fatal(err)
		}
		s.WaitFor("slow.txt")
		s.Say(e2erig.Prompt("quick", s.Writes("quick.txt", "q\n"), "quick done"))
		s.Write("go", "")
		if _, err := slow.Result(s.Ctx); err != nil {
			s.Fatal(err)
		}
		ts := s.Turns()
		if last := ts[len(ts)-1]; !last.Shared {
			s.Errorf("the turns overlapped and %+v is not shared", last)
		}
		out, code := s.Try("undo", "-y")
		if code != 4 || !strings.Contains(out, "quick.txt") {
			s.Errorf("undo of the shared turn: exit %d\n%s", code, out)
		}
		if _, err := os.Stat(s.Path("quick.txt")); err != nil {
			s.Error("undo took the other's file:", err)
		}
		if _, err := os.Stat(s.Path("slow.txt")); err == nil {
			s.Error("undo left the turn's own file")
		}
	})
}

// TestKilledInMidTool kills the agent while a tool runs and continues the session. The interrupted
// turn is recorded with its changes.
func TestKilledInMidTool(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		session := s.Say(e2erig.Prompt("alpha", "one"))
		p, err := s.Rig.StartPrint(s.Ctx, e2erig.Prompt("beta", e2erig.Bash("echo half > half.txt; while [ ! -e go ]; do sleep 0.05; done"), "two"), "--resume", session)
		if err != nil {
			s.Fatal(err)
		}
		s.WaitFor("half.txt")
		if out, code := s.Try("undo", "-y"); code != 5 || !strings.Contains(out, "pid ") {
			s.Errorf("undo under an open turn: exit %d\n%s", code, out)
		}
		if err := p.Kill(); err != nil {
			s.Fatal(err)
		}
		s.Write("go", "") // the tool outlives its agent
		s.Say(e2erig.Prompt("gamma", "three"), "--resume", session)
		ts := s.Turns()
		if len(ts) != 3 || !ts[1].Interrupted || ts[1].Prompt == "" || ts[2].Interrupted {
			s.Fatalf("the turns are %+v", ts)
		}
		if show := s.Segno("show", "t2"); !strings.Contains(show, "no result seen") {
			s.Errorf("show t2 says\n%s", show)
		}
		s.Segno("restore", "t1", "-y")
		if _, err := os.Stat(s.Path("half.txt")); err == nil {
			s.Error("what the killed turn left is still there")
		}
	})
}

// TestAnEarlierSessionPromptedAgain prompts the session that the thread left with an undo. A new
// line begins at that session's last turn, and the agent receives one note.
func TestAnEarlierSessionPromptedAgain(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		session := s.Say(e2erig.Prompt("alpha", s.Writes("a.txt", "1\n"), "one"))
		s.Say(e2erig.Prompt("beta", s.Writes("a.txt", "2\n"), "two"), "--resume", session)
		s.Segno("undo", "-y")
		s.Say(e2erig.Prompt("gamma", "three"), "--resume", session)
		if !s.CallFor("gamma").HasText("segno") {
			s.Error("the agent was not told that the files were set back")
		}
		s.Say(e2erig.Prompt("delta", "four"), "--resume", session)
		if n := strings.Count(allText(s.CallFor("delta")), "Note from segno"); n != 1 {
			s.Errorf("the agent was told %d times", n)
		}
		ts := s.Turns()
		if len(ts) != 4 || ts[2].Turn != 3 {
			s.Fatalf("the turns are %+v", ts)
		}
		var ops []struct{ Verb string }
		s.JSON(&ops, "op", "log")
		if len(ops) != 2 || ops[0].Verb != "switch" {
			s.Errorf("the operations are %+v", ops)
		}
	})
}

func allText(r fakemodel.Request) string {
	var b strings.Builder
	for _, m := range r.Messages() {
		b.WriteString(m.Text() + "\n")
	}
	return b.String()
}

// TestASessionOlderThanSegno adopts a session that had turns before enable.
func TestASessionOlderThanSegno(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		s.Segno("disable", "claude")
		session := s.Say(e2erig.Prompt("alpha", "one"))
		s.Say(e2erig.Prompt("beta", "two"), "--resume", session)
		if out, code := s.Try("log"); code != 3 {
			s.Fatalf("log without hooks: exit %d\n%s", code, out)
		}
		s.Segno("enable", "claude")
		s.Say(e2erig.Prompt("gamma", s.Writes("a.txt", "3\n"), "three"), "--resume", session)
		want := s.CallFor("gamma").Messages()
		ts := s.Turns()
		if len(ts) != 3 || ts[0].Snapshot != "" || ts[2].Snapshot == "" || ts[1].Session != session {
			s.Fatalf("the turns are %+v", ts)
		}
		var moved struct{ Session string }
		s.JSON(&moved, "undo", "-y")
		if data, err := os.ReadFile(s.Path("a.txt")); err != nil || string(data) != "0\n" {
			s.Errorf("undo left %q, %v", data, err)
		}
		s.Say(e2erig.Prompt("delta", "four"), "--resume", moved.Session)
		got := s.CallFor("delta").Messages()
		if diff := cmp.Diff(want[:4], got[:4]); diff != "" {
			s.Errorf("the adopted conversation (-want +got):\n%s", diff)
		}
	})
}

// TestAMovedProjectIsTheSame renames the project between turns.
func TestAMovedProjectIsTheSame(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		session := s.Say(e2erig.Prompt("alpha", s.Writes("a.txt", "1\n"), "one"))
		moved := filepath.Join(filepath.Dir(s.Rig.Project), "renamed")
		if err := os.Rename(s.Rig.Project, moved); err != nil {
			s.Fatal(err)
		}
		there, err := s.Rig.In(moved)
		if err != nil {
			s.Fatal(err)
		}
		s.Rig = there
		var r struct {
			Dir, Session string
			Command      []string
		}
		s.JSON(&r, "resume")
		if r.Dir != moved || r.Session != session {
			s.Fatalf("resume says %+v", r)
		}
		s.Say(e2erig.Prompt("beta", "two"), r.Command[1:]...)
		if ts := s.Turns(); len(ts) != 2 || ts[0].Thread != ts[1].Thread {
			s.Errorf("the turns are %+v", ts)
		}
		if !e2erig.Said(s.LastCall(), "alpha") {
			s.Error("the conversation was lost with the directory's name")
		}
	})
}

// TestAPurgedSessionResumes deletes the agent's own file. segno writes the same bytes back under
// the same name.
func TestAPurgedSessionResumes(t *testing.T) {
	e2erig.ScenarioIfDrawn(t, nil, func(s *e2erig.Stage) {
		session := s.Say(e2erig.Prompt("alpha", "one"))
		before := s.Transcripts()
		for name := range before {
			if err := os.Remove(name); err != nil {
				s.Fatal(err)
			}
		}
		var r struct{ Session string }
		s.JSON(&r, "resume")
		if r.Session != session {
			s.Errorf("session %s is offered for %s", r.Session, session)
		}
		after := s.Transcripts()
		for name, text := range before { // the agent adds lines without messages after its turn
			if len(after) != len(before) || !strings.Contains(after[name], "alpha") || !strings.HasPrefix(text, after[name]) {
				s.Errorf("%s came back as %q", name, after[name])
			}
		}
		s.Say(e2erig.Prompt("beta", "two"), "--resume", r.Session)
		if !e2erig.Said(s.LastCall(), "alpha") {
			s.Error("the conversation was lost with the file")
		}
		if ts := s.Turns(); len(ts) != 2 || ts[0].Thread != ts[1].Thread {
			s.Errorf("the turns are %+v", ts)
		}
	})
}

// TestStreamJSON records the turns of one long process.
func TestStreamJSON(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		stream, err := s.Rig.Stream(s.Ctx)
		if err != nil {
			s.Fatal(err)
		}
		for _, text := range []string{e2erig.Prompt("alpha", e2erig.Bash("echo 1 > a.txt"), "one"), e2erig.Prompt("beta", e2erig.Bash("rm a.txt"), "two"), e2erig.Prompt("gamma", "three")} {
			if _, err := stream.Turn(s.Ctx, text); err != nil {
				s.Fatal(err)
			}
		}
		if _, err := stream.Close(s.Ctx); err != nil {
			s.Fatal(err)
		}
		ts := s.Turns()
		if len(ts) != 3 || ts[0].Files.Modified != 1 || ts[1].Files.Deleted != 1 || ts[2].Files != (e2erig.Checkpoint{}.Files) {
			s.Errorf("the turns are %+v", ts)
		}
	})
}
