package local_test

import (
	"context"
	"os"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// forkHere forks a thread without new files.
func (g *fixture) forkHere(ask timeline.MoveRequest) (f *timeline.ForkResult) {
	g.Helper()
	ask.Verb = segno.VerbFork
	err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, tl *timeline.Timeline) (err error) {
		f, err = tl.Fork(ctx, ask)
		return err
	})
	if err != nil {
		g.Fatal(err)
	}
	return f
}

// currentThread returns the thread that the workspace is at.
func (g *fixture) currentThread() (id segno.ThreadID) {
	g.Helper()
	err := g.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) (err error) {
		id, err = tl.CurrentThread(ctx)
		return err
	})
	if err != nil {
		g.Fatal(err)
	}
	return id
}

// undoOperation undoes the newest operation, as the command does.
func (g *fixture) undoOperation() error {
	return g.withTimeline(nil, func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error {
		op, err := tl.FindOperation(ctx, "")
		if err != nil {
			return err
		}
		if op.MovesFiles() {
			_, err = tl.Move(ctx, timeline.MoveRequest{Verb: segno.VerbOpUndo}, nil)
			return err
		}
		return tl.UndoOperation(ctx, op)
	})
}

// twoTurns returns a session with two turns.
func twoTurns(t testing.TB) (c *chat, one, two *segno.Checkpoint) {
	g := newFixture(t)
	g.write("a", "0")
	c = g.chat(1)
	return c, c.runTurn("one"), c.runTurn("two")
}

// TestForkOnTheSameFiles forks an earlier turn. The workspace is not written and stays at its
// thread. The first turn of the fork records the files.
func TestForkOnTheSameFiles(t *testing.T) {
	c, one, two := twoTurns(t)
	before := c.summarize(two.Thread)
	f := c.forkHere(timeline.MoveRequest{To: one.ID, Title: "another way"})
	if got := c.files(); got != "a \"two\"\n" {
		t.Errorf("the fork wrote\n%s", got)
	}
	if c.currentThread() != two.Thread {
		t.Errorf("the workspace stands on %s, no longer on %s", c.currentThread(), two.Thread)
	}
	if after := c.summarize(two.Thread); after.head.Head != before.head.Head || after.head.Tip != before.head.Tip || after.head.Link.Session != c.session || len(after.links) != len(before.links) {
		t.Errorf("the source stands at %+v", after.head)
	}
	if f.Thread == two.Thread || f.Report.Root != c.project || f.From.ID != one.ID || f.At.Tree() != one.Tree() {
		t.Errorf("the fork is %+v", f)
	}
	if f.Link == nil || f.Link.Session == c.session || f.Link.Fidelity != segno.FidelityRebuilt || f.Link.Note != "" || f.Link.At != one.ID {
		t.Fatalf("its session is %+v (%s)", f.Link, f.Chat)
	}
	s := c.summarize(f.Thread)
	if s.Title != "another way" || s.Parent != one.ID || s.head.Link.Session != f.Link.Session {
		t.Errorf("its thread is %+v, at %+v", s.Thread, s.head)
	}
	side := c.continueChat(2, f.Link)
	made := side.runTurn("side")
	if s = c.summarize(f.Thread); s.line(t) != "base, external, 2 side" || made.Files != (segno.Counts{Modified: 1}) {
		t.Errorf("the fork's line is %q, its turn changed %+v", s.line(t), made.Files)
	}
	if ext := s.at(t, made.Parent); ext.Tree() != two.Tree() {
		t.Errorf("the files it began on are %+v", ext)
	}
	c.runTurn("three") // the source continues from its head
	if got := c.summarize(two.Thread).line(t); got != "base, 1 one, 2 two, external, 3 three" {
		t.Errorf("the source's line is %q", got)
	}
	c.checkStore()
}

// TestForkOfTheHeadOnTheSameFiles gives the fork a separate session, although the source's session
// is at the same checkpoint: two threads cannot share one session.
func TestForkOfTheHeadOnTheSameFiles(t *testing.T) {
	c, _, two := twoTurns(t)
	f := c.forkHere(timeline.MoveRequest{To: two.ID})
	if f.Link == nil || f.Link.Session == c.session {
		t.Fatalf("the fork goes on in %+v, the source in %s", f.Link, c.session)
	}
	made := c.continueChat(2, f.Link).runTurn("side")
	if s := c.summarize(f.Thread); made.Thread != f.Thread || s.line(t) != "base, 3 side" {
		t.Errorf("the fork's line is %q", s.line(t))
	}
	if made := c.runTurn("three"); made.Thread != two.Thread {
		t.Error("the source's next turn is the fork's")
	}
	c.checkStore()
}

// TestForkAgain checks that each fork of one checkpoint gets a separate session.
func TestForkAgain(t *testing.T) {
	c, one, _ := twoTurns(t)
	seen := map[segno.SessionID]bool{c.session: true}
	for range 3 {
		f := c.forkHere(timeline.MoveRequest{To: one.ID})
		if seen[f.Link.Session] {
			t.Errorf("session %s is there twice", f.Link.Session)
		}
		seen[f.Link.Session] = true
	}
	// also after an undo has cut a session at that checkpoint
	if _, err := c.move(nil, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}); err != nil {
		t.Fatal(err)
	}
	cs, head := c.checkpoints()
	f := c.forkHere(timeline.MoveRequest{To: one.ID})
	if seen[f.Link.Session] || f.Link.Session == head.Link.Session {
		t.Errorf("the fork shares %s with the thread it left (%d checkpoints)", f.Link.Session, len(cs))
	}
}

// TestForkWithASession uses the session that the agent created, and cuts none.
func TestForkWithASession(t *testing.T) {
	c, one, _ := twoTurns(t)
	files := c.transcripts()
	side := c.chat(2)
	f := c.forkHere(timeline.MoveRequest{To: one.ID, Link: &segno.Link{Agent: "claude", Session: side.session, Dir: c.project,
		Start: c.place.Now(), Reason: string(segno.VerbFork), Fidelity: segno.FidelityNative}})
	if f.Link.Session != side.session || f.Link.At != one.ID || f.Link.Note != "" || f.Link.Fidelity != segno.FidelityNative {
		t.Errorf("the link is %+v", f.Link)
	}
	if now := c.transcripts(); now != files {
		t.Errorf("there are %d transcripts, there were %d", now, files)
	}
	side.exchange("one, as the agent copied it")
	made := side.runTurn("side")
	if s := c.summarize(f.Thread); made.Thread != f.Thread || s.head.Link.Session != side.session || len(s.links) != 1 {
		t.Errorf("its turn is of %s; the fork's line %q", made.Thread, s.line(t))
	}
	c.checkStore()
}

// transcripts returns the number of sessions of the agent.
func (c *chat) transcripts() int {
	c.Helper()
	des, err := os.ReadDir(c.path[:len(c.path)-len(string(c.session))-len("/.jsonl")])
	if err != nil {
		c.Fatal(err)
	}
	return len(des)
}

// TestForkHereCanBeUndone undoes a fork. This hides the fork's thread and changes nothing else.
func TestForkHereCanBeUndone(t *testing.T) {
	c, one, two := twoTurns(t)
	before := c.summarize(two.Thread)
	f := c.forkHere(timeline.MoveRequest{To: one.ID})
	if err := c.undoOperation(); err != nil {
		t.Fatal(err)
	}
	if ids := c.threads(); len(ids) != 1 || ids[0] != two.Thread {
		t.Errorf("the threads are %v, the fork was %s", ids, f.Thread)
	}
	if got := c.files(); got != "a \"two\"\n" || c.currentThread() != two.Thread {
		t.Errorf("the workspace stands on %s, its files are\n%s", c.currentThread(), got)
	}
	if after := c.summarize(two.Thread); after.head.Head != before.head.Head || after.head.Tip != before.head.Tip {
		t.Errorf("the source stands at %+v", after.head)
	}
	if err := c.undoOperation(); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("once more: %v", err)
	}
	c.runTurn("three")
	c.checkStore()
}

// TestAForkWithTurnsCannotBeUndone checks that the undo of a fork with turns is refused and that
// the fork remains.
func TestAForkWithTurnsCannotBeUndone(t *testing.T) {
	c, one, _ := twoTurns(t)
	f := c.forkHere(timeline.MoveRequest{To: one.ID})
	side := c.continueChat(2, f.Link)
	side.runTurn("side")
	if err := c.undoOperation(); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("op undo: %v", err)
	}
	if len(c.threads()) != 2 {
		t.Error("the fork is gone")
	}
}

// TestAForkWithAnOpenTurnCannotBeUndone checks that the undo is refused while the fork's first turn
// runs, because that turn would have no thread.
func TestAForkWithAnOpenTurnCannotBeUndone(t *testing.T) {
	c, one, _ := twoTurns(t)
	f := c.forkHere(timeline.MoveRequest{To: one.ID})
	side := c.continueChat(2, f.Link)
	side.opens("side")
	if err := c.undoOperation(); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("op undo: %v", err)
	}
	side.exchange("side")
	c.write("a", "side")
	if made := side.ends("side"); made == nil || made.Thread != f.Thread {
		t.Errorf("the turn is %+v", made)
	}
	c.checkStore()
}

// TestForkOfAnUnknownCheckpoint checks that the fork fails and creates no thread.
func TestForkOfAnUnknownCheckpoint(t *testing.T) {
	c, _, _ := twoTurns(t)
	err := c.withTimeline(nil, func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error {
		_, err := tl.Fork(ctx, timeline.MoveRequest{Verb: segno.VerbFork, To: "nothing"})
		return err
	})
	if segno.KindOf(err) != segno.KindNotFound || len(c.threads()) != 1 {
		t.Errorf("%v; threads %v", err, c.threads())
	}
}

// TestForkOfAnAdoptedTurnOnTheSameFiles forks a turn whose files were not recorded.
func TestForkOfAnAdoptedTurnOnTheSameFiles(t *testing.T) {
	c := unrecordedChat(t)
	thread := c.openThread("claude", c.source(), "")
	two := c.summarize(thread).cs[2]
	f := c.forkHere(timeline.MoveRequest{To: two.ID})
	side := c.continueChat(2, f.Link)
	if again := c.openThread("claude", side.source(), ""); again != f.Thread {
		t.Errorf("opening the fork's session made %s beside %s", again, f.Thread)
	}
	made := side.runTurn("side")
	s := c.summarize(f.Thread)
	if got := s.line(t); got != "base, external, 3 side" || made.Files != (segno.Counts{Modified: 1}) {
		t.Errorf("the fork's line is %q, its turn changed %+v", got, made.Files)
	}
	c.undo(timeline.MoveRequest{})
	if got := c.files(); got != "a \"0\"\n" {
		t.Errorf("undo left\n%s", got)
	}
	c.checkStore()
}
