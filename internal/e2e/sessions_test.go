package e2e_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/agentrig"
	"github.com/dalsegno/segno/internal/fakemodel"
)

// TestNativeForkIsAThreadOfItsOwn checks that the agent's --fork-session becomes a
// thread that stands on the turn it shares.
func TestNativeForkIsAThreadOfItsOwn(t *testing.T) {
	s := newStage(t, nil)
	session := s.say(prompt("alpha", "one"))
	s.say(prompt("beta", "two"), "--resume", session)
	source := turns(s.log())
	forked := s.say(prompt("gamma", "three"), "--resume", session, "--fork-session")
	if forked == session {
		t.Fatal("the agent did not fork")
	}
	ts := turns(s.log())
	last := ts[len(ts)-1]
	if len(ts) != 3 || last.Thread == source[0].Thread || last.Turn != 3 || last.Session != forked {
		t.Errorf("the fork's log is %+v", ts)
	}
	if got := turns(s.log("--thread", source[0].Thread)); len(got) != 2 {
		t.Errorf("the source's thread has %d turns now", len(got))
	}
}

// TestTwoSessionsInOneDirectory runs two sessions by turns: two threads, each
// with its own turns, and what the other one did is external to each.
func TestTwoSessionsInOneDirectory(t *testing.T) {
	s := newStage(t, map[string]string{"a.txt": "0\n"})
	one := s.say(prompt("one alpha", s.writes("one.txt", "1\n"), "done"))
	two := s.say(prompt("two alpha", s.writes("two.txt", "2\n"), "done"))
	s.say(prompt("one beta", s.writes("one.txt", "1b\n"), "done"), "--resume", one)
	log := s.log()
	ts := turns(log)
	if len(ts) != 2 || ts[0].Session != one || ts[1].Session != one {
		t.Fatalf("the thread of the first session is %+v", ts)
	}
	if !slices.ContainsFunc(log, func(c checkpoint) bool { return c.Kind == "external" && c.Files.Added == 1 }) {
		t.Error("what the second session did is no external change of the first's thread")
	}
	s.segno("undo", "-y")
	if data, err := os.ReadFile(s.path("two.txt")); err != nil || string(data) != "2\n" {
		t.Errorf("undo of the one touched the other's file: %q, %v", data, err)
	}
	var threads []struct{ ID, Session string }
	s.json(&threads, "threads")
	if len(threads) != 2 || !slices.ContainsFunc(threads, func(x struct{ ID, Session string }) bool { return x.Session == two }) {
		t.Errorf("threads are %+v", threads)
	}
}

// TestOverlappingTurnsShareTheDirectory lets a turn of one session run inside a
// turn of another.
func TestOverlappingTurnsShareTheDirectory(t *testing.T) {
	s := newStage(t, map[string]string{"a.txt": "0\n"})
	slow, err := s.rig.StartPrint(s.ctx, prompt("slow", bash("echo slow > slow.txt; while [ ! -e go ]; do sleep 0.05; done"), "slow done"))
	if err != nil {
		t.Fatal(err)
	}
	s.waitFor("slow.txt")
	s.say(prompt("quick", s.writes("quick.txt", "q\n"), "quick done"))
	s.write("go", "")
	if _, err := slow.Result(s.ctx); err != nil {
		t.Fatal(err)
	}
	ts := turns(s.log())
	if last := ts[len(ts)-1]; !last.Shared {
		t.Errorf("the turns overlapped and %+v is not shared", last)
	}
	out, code := s.try("undo", "-y")
	if code != 4 || !strings.Contains(out, "quick.txt") {
		t.Errorf("undo of the shared turn: exit %d\n%s", code, out)
	}
	if _, err := os.Stat(s.path("quick.txt")); err != nil {
		t.Error("undo took the other's file:", err)
	}
	if _, err := os.Stat(s.path("slow.txt")); err == nil {
		t.Error("undo left the turn's own file")
	}
}

func (s *stage) waitFor(name string) {
	s.Helper()
	for {
		if _, err := os.Stat(s.path(name)); err == nil {
			return
		}
		if err := s.ctx.Err(); err != nil {
			s.Fatal(err)
		}
	}
}

// TestKilledInMidTool kills the agent while a tool runs, goes on, and finds the
// broken turn recorded with what it had done.
func TestKilledInMidTool(t *testing.T) {
	s := newStage(t, map[string]string{"a.txt": "0\n"})
	session := s.say(prompt("alpha", "one"))
	p, err := s.rig.StartPrint(s.ctx, prompt("beta", bash("echo half > half.txt; while [ ! -e go ]; do sleep 0.05; done"), "two"), "--resume", session)
	if err != nil {
		t.Fatal(err)
	}
	s.waitFor("half.txt")
	if out, code := s.try("undo", "-y"); code != 5 || !strings.Contains(out, "pid ") {
		t.Errorf("undo under an open turn: exit %d\n%s", code, out)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	s.write("go", "") // the tool outlives its agent
	s.say(prompt("gamma", "three"), "--resume", session)
	ts := turns(s.log())
	if len(ts) != 3 || !ts[1].Interrupted || ts[1].Prompt == "" || ts[2].Interrupted {
		t.Fatalf("the turns are %+v", ts)
	}
	if show := s.segno("show", "t2"); !strings.Contains(show, "no result seen") {
		t.Errorf("show t2 says\n%s", show)
	}
	s.segno("restore", "t1", "-y")
	if _, err := os.Stat(s.path("half.txt")); err == nil {
		t.Error("what the killed turn left is still there")
	}
}

// TestAnEarlierSessionPromptedAgain goes on in the session that an undo left: a
// new line from that session's last turn, and the agent is told once.
func TestAnEarlierSessionPromptedAgain(t *testing.T) {
	s := newStage(t, map[string]string{"a.txt": "0\n"})
	session := s.say(prompt("alpha", s.writes("a.txt", "1\n"), "one"))
	s.say(prompt("beta", s.writes("a.txt", "2\n"), "two"), "--resume", session)
	s.segno("undo", "-y")
	s.say(prompt("gamma", "three"), "--resume", session)
	if !s.callFor("gamma").HasText("segno") {
		t.Error("the agent was not told that the files were set back")
	}
	s.say(prompt("delta", "four"), "--resume", session)
	if n := strings.Count(allText(s.callFor("delta")), "Note from segno"); n != 1 {
		t.Errorf("the agent was told %d times", n)
	}
	ts := turns(s.log())
	if len(ts) != 4 || ts[2].Turn != 3 {
		t.Fatalf("the turns are %+v", ts)
	}
	var ops []struct{ Verb string }
	s.json(&ops, "op", "log")
	if len(ops) != 2 || ops[0].Verb != "switch" {
		t.Errorf("the operations are %+v", ops)
	}
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
	s := newStage(t, map[string]string{"a.txt": "0\n"})
	s.segno("disable", "claude")
	session := s.say(prompt("alpha", "one"))
	s.say(prompt("beta", "two"), "--resume", session)
	if out, code := s.try("log"); code != 3 {
		t.Fatalf("log without hooks: exit %d\n%s", code, out)
	}
	s.segno("enable", "claude")
	s.say(prompt("gamma", s.writes("a.txt", "3\n"), "three"), "--resume", session)
	want := s.callFor("gamma").Messages()
	ts := turns(s.log())
	if len(ts) != 3 || ts[0].Snapshot != "" || ts[2].Snapshot == "" || ts[1].Session != session {
		t.Fatalf("the turns are %+v", ts)
	}
	var moved struct{ Session string }
	s.json(&moved, "undo", "-y")
	if data, err := os.ReadFile(s.path("a.txt")); err != nil || string(data) != "0\n" {
		t.Errorf("undo left %q, %v", data, err)
	}
	s.say(prompt("delta", "four"), "--resume", moved.Session)
	got := s.callFor("delta").Messages()
	if diff := cmp.Diff(want[:4], got[:4]); diff != "" {
		t.Errorf("the adopted conversation (-want +got):\n%s", diff)
	}
}

// TestAMovedProjectIsTheSame renames the project between turns.
func TestAMovedProjectIsTheSame(t *testing.T) {
	s := newStage(t, map[string]string{"a.txt": "0\n"})
	session := s.say(prompt("alpha", s.writes("a.txt", "1\n"), "one"))
	moved := filepath.Join(filepath.Dir(s.rig.Project), "renamed")
	if err := os.Rename(s.rig.Project, moved); err != nil {
		t.Fatal(err)
	}
	there, err := s.rig.In(moved)
	if err != nil {
		t.Fatal(err)
	}
	s.rig = there
	var r struct {
		Dir, Session string
		Command      []string
	}
	s.json(&r, "resume")
	if r.Dir != moved || r.Session != session {
		t.Fatalf("resume says %+v", r)
	}
	s.say(prompt("beta", "two"), r.Command[1:]...)
	if ts := turns(s.log()); len(ts) != 2 || ts[0].Thread != ts[1].Thread {
		t.Errorf("the turns are %+v", ts)
	}
	if !s.lastCall().HasText("alpha") {
		t.Error("the conversation was lost with the directory's name")
	}
}

// TestAPurgedSessionResumes deletes the agent's own file.
func TestAPurgedSessionResumes(t *testing.T) {
	s := newStage(t, nil)
	session := s.say(prompt("alpha", "one"))
	for name := range s.transcripts() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	var r struct{ Session string }
	s.json(&r, "resume")
	if r.Session == session {
		t.Error("the session that is gone was offered")
	}
	s.say(prompt("beta", "two"), "--resume", r.Session)
	if !s.lastCall().HasText("alpha") {
		t.Error("the conversation was lost with the file")
	}
	if ts := turns(s.log()); len(ts) != 2 || ts[0].Thread != ts[1].Thread {
		t.Errorf("the turns are %+v", ts)
	}
}

// TestStreamJSON records the turns of one long process.
func TestStreamJSON(t *testing.T) {
	s := newStage(t, map[string]string{"a.txt": "0\n"})
	stream, err := s.rig.Stream(s.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{prompt("alpha", bash("echo 1 > a.txt"), "one"), prompt("beta", bash("rm a.txt"), "two"), prompt("gamma", "three")} {
		if _, err := stream.Turn(s.ctx, text); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stream.Close(s.ctx); err != nil {
		t.Fatal(err)
	}
	ts := turns(s.log())
	if len(ts) != 3 || ts[0].Files.Modified != 1 || ts[1].Files.Deleted != 1 || ts[2].Files != (checkpoint{}.Files) {
		t.Errorf("the turns are %+v", ts)
	}
}

// quiet waits until no turn is open: the terminal shows an answer before its turn
// is recorded.
func (s *stage) quiet() {
	s.Helper()
	for {
		var st struct{ Open []struct{ Key string } }
		s.json(&st, "status")
		if len(st.Open) == 0 {
			return
		}
		if err := s.ctx.Err(); err != nil {
			s.Fatal(err)
		}
	}
}

// TestTerminal drives the terminal program: a turn, an undo under it while it is
// idle, the old session prompted anyway, and /clear.
func TestTerminal(t *testing.T) {
	s := newStage(t, map[string]string{"a.txt": "0\n"})
	tui, err := s.rig.TUI(s.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tui.Kill()
	for _, turn := range [][2]string{{prompt("alpha", s.writes("a.txt", "1\n"), "answer one"), "answer one"}, {prompt("beta", bash("rm a.txt"), "answer two"), "answer two"}} {
		if err := tui.Turn(s.ctx, turn[0], turn[1]); err != nil {
			t.Fatal(err)
		}
	}
	s.quiet()
	if ts := turns(s.log()); len(ts) != 2 {
		t.Fatalf("the turns are %+v", ts)
	}
	out := s.segno("undo", "-y")
	if !strings.Contains(out, "end the one running (pid ") {
		t.Errorf("undo under a live session says\n%s", out)
	}
	if err := tui.Turn(s.ctx, prompt("gamma", "answer three"), "answer three"); err != nil {
		t.Fatal(err)
	}
	if !s.callFor("gamma").HasText("Note from segno") {
		t.Error("the live session was not told")
	}
	s.quiet()
	first := turns(s.log())
	if err := tui.Prompt(s.ctx, "/clear"); err != nil {
		t.Fatal(err)
	}
	cleared := func(screen string) bool {
		return !strings.Contains(screen, "answer three") && strings.Contains(screen, "❯ /clear")
	}
	if screen, err := tui.WaitFor(s.ctx, cleared); err != nil {
		t.Fatal(err, screen)
	}
	if err := tui.Ready(s.ctx); err != nil {
		t.Fatal(err)
	}
	if err := tui.Turn(s.ctx, prompt("delta", "answer four"), "answer four"); err != nil {
		t.Fatal(err)
	}
	s.quiet()
	if ts := turns(s.log()); len(ts) != 1 || ts[0].Thread == first[0].Thread || ts[0].Turn != 1 {
		t.Errorf("after /clear the turns are %+v", ts)
	}
}

// TestRewindIsALine goes back inside the agent with /rewind and prompts again.
func TestRewindIsALine(t *testing.T) {
	s := newStage(t, map[string]string{"a.txt": "0\n"})
	tui, err := s.rig.TUI(s.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tui.Kill()
	for _, name := range []string{"alpha", "beta"} {
		if err := tui.Turn(s.ctx, prompt(name, "answer "+name), "answer "+name); err != nil {
			t.Fatal(err)
		}
	}
	if err := tui.Rewind(s.ctx, 1, agentrig.RestoreConversation); err != nil {
		t.Fatal(err)
	}
	if err := tui.Turn(s.ctx, prompt("gamma", "answer gamma"), "answer gamma"); err != nil {
		t.Fatal(err)
	}
	if s.callFor("gamma").HasText("beta") {
		t.Fatal("the agent did not go back")
	}
	s.quiet()
	ts := turns(s.log())
	if len(ts) != 3 || ts[2].Turn != 3 || *ts[2].Parent != ts[0].ID || ts[2].Thread != ts[0].Thread {
		t.Errorf("the turns are %+v", ts)
	}
}

// TestEscThenUndo interrupts a turn in the terminal and takes it back at once,
// though the agent fired no event and lives.
func TestEscThenUndo(t *testing.T) {
	s := newStage(t, map[string]string{"a.txt": "0\n"})
	tui, err := s.rig.TUI(s.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tui.Kill()
	if err := tui.Turn(s.ctx, prompt("alpha", "answer one"), "answer one"); err != nil {
		t.Fatal(err)
	}
	if err := tui.Prompt(s.ctx, prompt("beta", bash("rm a.txt; echo gone > gone.txt; sleep 5"), "answer two")); err != nil {
		t.Fatal(err)
	}
	s.waitFor("gone.txt")
	if err := tui.Interrupt(s.ctx); err != nil {
		t.Fatal(err)
	}
	s.segno("undo", "-y")
	if data, err := os.ReadFile(s.path("a.txt")); err != nil || string(data) != "0\n" {
		t.Errorf("undo after Esc left %q, %v", data, err)
	}
	ts := turns(s.log())
	if len(ts) != 2 || !ts[1].Interrupted || ts[0].Interrupted {
		t.Errorf("the turns are %+v", ts)
	}
}
