package local_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/dalsegno/segno/timeline"
)

// TestOpenANewSession creates the thread of a session without prompts, for an agent with a
// transcript reader and for one without.
func TestOpenANewSession(t *testing.T) {
	for _, agent := range []string{"claude", "test"} {
		g := newFixture(t)
		g.write("a", "0")
		c := g.chat(1)
		thread := g.openThread(agent, c.source(), "do this\nand that")
		s := g.summarize(thread)
		if len(s.cs) != 1 || s.cs[0].Kind != segno.CheckpointBase || s.cs[0].Workspace == nil || s.head.Head != s.cs[0].ID {
			t.Fatalf("%s: the thread is %+v", agent, s.cs)
		}
		if s.Title != "do this" || s.Agent != agent || len(s.links) != 1 {
			t.Errorf("%s: the thread is %+v, its chain %+v", agent, s.Thread, s.links)
		}
		if l := s.head.Link; l.Session != c.session || l.Agent != agent || l.Dir != g.project || l.Fidelity != segno.FidelityNative || l.Start.IsZero() {
			t.Errorf("%s: the link is %+v", agent, l)
		}
		g.wantFilesOfHead()
		g.write("a", "by hand") // opening an existing thread only returns it
		if again := g.openThread(agent, c.source(), "else"); again != thread {
			t.Errorf("%s: opened again it is %s, it was %s", agent, again, thread)
		}
		if again := g.summarize(thread); len(again.cs) != 1 || again.head != s.head || again.Title != s.Title {
			t.Errorf("%s: opening again left %+v", agent, again)
		}
		g.checkStore()
	}
}

// TestATurnInAnOpenedThread records the first turn on the base, in the same thread.
func TestATurnInAnOpenedThread(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	c := g.chat(1)
	thread := g.openThread("claude", c.source(), "one")
	made := c.runTurn("one")
	s := g.summarize(thread)
	if made.Thread != thread || made.Parent != s.cs[0].ID || s.line(t) != "base, 1 one" {
		t.Errorf("the turn is %+v in %q", made, s.line(t))
	}
	if made.Files != (segno.Counts{Modified: 1}) || made.Session.Leaf != c.head {
		t.Errorf("it changed %+v and ends at %+v", made.Files, made.Session)
	}
	if ids := g.threads(); len(ids) != 1 {
		t.Errorf("there are threads %v", ids)
	}
	g.write("mine", "1") // between opening and prompt, as between turns
	c.runTurn("two")
	if got := g.summarize(thread).line(t); got != "base, 1 one, external, 2 two" {
		t.Errorf("the line is %q", got)
	}
	g.undo(timeline.MoveRequest{})
	if got := g.files(); got != "a \"one\"\nmine \"1\"\n" {
		t.Errorf("undo left\n%s", got)
	}
	g.checkStore()
}

// TestChangesBetweenOpeningAndPrompt checks that such changes belong to no turn.
func TestChangesBetweenOpeningAndPrompt(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	c := g.chat(1)
	thread := g.openThread("claude", c.source(), "one")
	g.write("mine", "1")
	if made := c.runTurn("one"); made.Files != (segno.Counts{Modified: 1}) {
		t.Errorf("the turn changed %+v", made.Files)
	}
	if got := g.summarize(thread).line(t); got != "base, external, 1 one" {
		t.Errorf("the line is %q", got)
	}
	g.checkStore()
}

// unrecordedChat returns a session with three unrecorded turns.
func unrecordedChat(t testing.TB) *chat {
	g := newFixture(t)
	g.write("a", "0")
	c := g.chat(1)
	for _, text := range []string{"one", "two", "three"} {
		c.exchange(text)
	}
	return c
}

const adopted = "base, 1 one, 2 two, 3 three, external"

// TestOpenAnOlderSession adopts all turns of the session, including the newest. The next turn
// follows them.
func TestOpenAnOlderSession(t *testing.T) {
	c := unrecordedChat(t)
	thread := c.openThread("claude", c.source(), "four")
	s := c.summarize(thread)
	if got := s.line(t); got != adopted || s.Title != "one" {
		t.Fatalf("the thread %q is %q", s.Title, got)
	}
	for _, cp := range s.cs[1:4] {
		if cp.Workspace != nil || cp.Session == nil || cp.Session.Session != c.session || cp.Session.Leaf == "" || cp.Label == "" {
			t.Errorf("an adopted turn is %+v", cp)
		}
	}
	if newest := s.cs[3].Session; newest.Leaf != c.head {
		t.Errorf("the newest ends at %s, the session at %s", newest.Leaf, c.head)
	}
	c.wantFilesOfHead()
	made := c.runTurn("four")
	s = c.summarize(thread)
	if got := s.line(t); got != adopted+", 4 four" || made.Thread != thread || made.Files != (segno.Counts{Modified: 1}) {
		t.Errorf("after a turn of %+v the line is %q", made.Files, got)
	}
	if again := c.openThread("claude", c.source(), ""); again != thread {
		t.Errorf("opened again it is %s, it was %s", again, thread)
	}
	moved := c.undo(timeline.MoveRequest{})
	if got := c.files(); got != "a \"0\"\n" || moved.Head.ID != s.cs[4].ID {
		t.Errorf("undo landed on %+v and left\n%s", moved.Head, got)
	}
	if moved.Link == nil || moved.Link.Session == c.session {
		t.Errorf("the conversation goes on in %+v", moved.Link)
	}
	c.checkStore()
}

// TestOpenAThreadOfHooks returns the thread that hooks created.
func TestOpenAThreadOfHooks(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	c := g.chat(1)
	made := c.runTurn("one")
	if thread := g.openThread("claude", c.source(), "x"); thread != made.Thread {
		t.Errorf("the thread is %s, the hooks' %s", thread, made.Thread)
	}
	if n := len(g.threads()); n != 1 {
		t.Errorf("there are %d threads", n)
	}
}

// TestOpenWithoutASession checks that a thread without a session is refused.
func TestOpenWithoutASession(t *testing.T) {
	g := newFixture(t)
	err := g.record(nil, func(ctx context.Context, r *timeline.Timeline) error {
		_, err := r.AdoptSession(ctx, timeline.Adoption{Agent: "claude", Source: segno.Source{Dir: g.project}})
		return err
	})
	if segno.KindOf(err) != segno.KindInvalid {
		t.Errorf("%v", err)
	}
}

// TestEveryFailureOfAnOpening fails each disk operation of an opening. It returns the error, and a
// second opening records every turn once.
func TestEveryFailureOfAnOpening(t *testing.T) {
	for n, done := 0, false; !done; n++ {
		c := unrecordedChat(t)
		faults := faultfs.FailAt(n)
		err := c.withTimeline(faults.Wrap(vfs.OS), func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
			_, err := tl.AdoptSession(ctx, timeline.Adoption{Agent: "claude", Source: c.source(), Title: "four"})
			return err
		})
		if done = !faults.Fired(); err == nil && !done {
			t.Fatalf("operation %d failed and nobody said so: %v", n, faults.Trace()[n])
		}
		if done && err != nil {
			t.Fatal(err)
		}
		c.wantAdopted(fmt.Sprintf("after operation %d failed (%v)", n, err))
	}
}

// TestAKilledOpening kills an opening between any two of its commits.
func TestAKilledOpening(t *testing.T) {
	for n, done := 0, false; !done; n++ {
		c := unrecordedChat(t)
		err := c.record(func(s *timeline.Timeline) { s.Store = &dyingStore{s.Store.(*sqlite.Store), n} }, func(ctx context.Context, r *timeline.Timeline) error {
			_, err := r.AdoptSession(ctx, timeline.Adoption{Agent: "claude", Source: c.source(), Title: "four"})
			return err
		})
		if done = err == nil; !done && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		if n == 1 {
			c.write("a", "by hand, meanwhile")
		}
		c.wantAdopted(fmt.Sprintf("killed after %d commits", n))
	}
}

// wantAdopted opens the session again and records another turn in it.
func (c *chat) wantAdopted(when string) {
	c.Helper()
	thread := c.openThread("claude", c.source(), "four")
	if got := c.summarize(thread).line(c); got != adopted {
		c.Fatalf("%s the line is %q", when, got)
	}
	c.wantFilesOfHead()
	c.runTurn("four")
	if got := c.summarize(thread).line(c); got != adopted+", 4 four" || len(c.threads()) != 1 {
		c.Fatalf("%s a turn leaves %q in %v", when, got, c.threads())
	}
	c.checkStore()
}

// TestOpenUnderABusyStore opens a session while another process holds the store's writer. It may
// fail with an error, and the next turn is recorded.
func TestOpenUnderABusyStore(t *testing.T) {
	c := unrecordedChat(t)
	err := c.withTimeline(nil, func(context.Context, *local.Store, *timeline.Timeline) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	c.place.StoreWait = 20 * time.Millisecond
	release := c.holdWriter()
	err = c.record(nil, func(ctx context.Context, r *timeline.Timeline) error {
		_, err := r.AdoptSession(ctx, timeline.Adoption{Agent: "claude", Source: c.source(), Title: "four"})
		return err
	})
	release()
	if err != nil && segno.KindOf(err) != segno.KindBusy {
		t.Fatal(err)
	}
	c.wantAdopted("behind a busy store")
}

// TestAKilledAdoption kills the first EndTurn of an older session between any two of its commits,
// and repeats it.
func TestAKilledAdoption(t *testing.T) {
	for n, done := 0, false; !done; n++ {
		c := unrecordedChat(t)
		c.opens("four")
		c.exchange("four")
		c.write("a", "four")
		err := c.record(func(s *timeline.Timeline) { s.Store = &dyingStore{s.Store.(*sqlite.Store), n} }, func(ctx context.Context, r *timeline.Timeline) error {
			_, err := r.EndTurn(ctx, timeline.TurnEnd{Key: "four", Agent: "claude", Source: c.source()})
			return err
		})
		if done = err == nil; !done {
			if !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			c.ends("four")
		}
		if got := c.summarize(c.threads()[0]).line(t); got != adopted+", 4 four" {
			t.Fatalf("killed after %d commits the line is %q", n, got)
		}
		c.undo(timeline.MoveRequest{})
		if got := c.files(); got != "a \"0\"\n" {
			t.Fatalf("killed after %d commits, undo left\n%s", n, got)
		}
		c.checkStore()
	}
}
