package local_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// editOpenTurn changes an open turn in the spool.
func (g *fixture) editOpenTurn(key string, edit func(*timeline.OpenTurn)) {
	g.Helper()
	err := g.record(nil, func(ctx context.Context, r *timeline.Timeline) error {
		return r.UpdateTurn(ctx, segno.TurnKey(key), edit)
	})
	if err != nil {
		g.Fatal(err)
	}
}

func (g *fixture) open() []timeline.OpenTurn {
	g.Helper()
	turns, err := g.place.Spool().Turns(g.Context())
	if err != nil {
		g.Fatal(err)
	}
	return turns
}

func (g *fixture) reached(key string) (reached, told bool) {
	g.Helper()
	err := g.record(nil, func(ctx context.Context, r *timeline.Timeline) (err error) {
		reached, told, err = r.PromptState(ctx, segno.TurnKey(key))
		return err
	})
	if err != nil {
		g.Fatal(err)
	}
	return reached, told
}

func (g *fixture) rebuild(at segno.CommitID, dir string) (l *segno.Link, err error) {
	return l, g.withTimeline(nil, func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error {
		l, err = tl.RebuildSession(ctx, at, dir)
		return err
	})
}

// preambleLink is a link to a session of Claude Code whose preamble describes the conversation up
// to a checkpoint.
func (c *chat) preambleLink(at segno.CommitID) segno.Link {
	return segno.Link{Agent: "claude", Session: c.session, Dir: c.project, Start: c.place.Now(), Reason: "lost", Fidelity: segno.FidelityPreamble, At: at}
}

// TestJoinMakesTheHeadSession keeps the previous session in the chain and moves nothing else.
func TestJoinMakesTheHeadSession(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	one, two := g.chat(1), g.chat(2)
	made := one.runTurn("one")
	before := g.summarize(made.Thread)
	g.join(made.Thread, two.preambleLink(made.ID))
	s := g.summarize(made.Thread)
	if s.head.Head != before.head.Head || s.head.Tip != before.head.Tip || len(s.cs) != len(before.cs) {
		t.Errorf("joining moved the thread from %+v to %+v", before.head, s.head)
	}
	if len(s.links) != 2 || s.links[0].Session != one.session || s.links[0].End.IsZero() || s.head.Link.Session != two.session {
		t.Errorf("the chain is %+v", s.links)
	}
	if l := s.head.Link; l.Fidelity != segno.FidelityPreamble || l.At != made.ID || l.Reason != "lost" {
		t.Errorf("the link is %+v", l)
	}
	two.runTurn("two") // the turn belongs to the same thread
	if got := g.summarize(made.Thread).line(t); got != "base, 1 one, 2 two" {
		t.Errorf("the line is %q", got)
	}
	one.runTurn("three") // so does a turn in the older session, at its end
	if got := g.summarize(made.Thread); got.head.Link.Session != one.session || len(g.threads()) != 1 {
		t.Errorf("the older session goes on in %+v", got.head)
	}
	err := g.record(nil, func(ctx context.Context, r *timeline.Timeline) error {
		return r.JoinSession(ctx, "nobody's", two.preambleLink(made.ID))
	})
	if segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("a thread that is not there: %v", err)
	}
	g.checkStore()
}

// TestAmendAnOpenTurn keeps the entries of the turn. A turn that is not open is not opened.
func TestAmendAnOpenTurn(t *testing.T) {
	g := newFixture(t)
	c := g.chat(1)
	c.opens("one")
	g.note("one", segno.Entry{Kind: segno.EntryIntent, ID: "i", Name: "Write", Body: json.RawMessage(`{}`)})
	g.editOpenTurn("one", func(o *timeline.OpenTurn) { o.Group, o.GroupStart = 42, "then" })
	g.editOpenTurn("two", func(*timeline.OpenTurn) { t.Error("a turn that is not open is changed") })
	if o := g.open(); len(o) != 1 || o[0].Group != 42 || o[0].GroupStart != "then" || o[0].Prompt != "one" {
		t.Errorf("open are %+v", o)
	}
	c.exchange("one")
	if es := g.entries(c.ends("one").ID); len(es) != 2 || es[1].ID != "i" {
		t.Errorf("the entries are %+v", es)
	}
	g.editOpenTurn("one", func(*timeline.OpenTurn) { t.Error("a turn that ended is changed") })
	if o := g.open(); len(o) != 0 {
		t.Errorf("open are %+v", o)
	}
}

func (g *fixture) note(key string, e segno.Entry) {
	g.Helper()
	if err := g.place.Spool().AppendEntry(g.Context(), segno.TurnKey(key), e); err != nil {
		g.Fatal(err)
	}
}

// TestReached looks for the prompt of an open turn in the transcript.
func TestReached(t *testing.T) {
	type answer struct{ reached, told bool }
	for name, tc := range map[string]struct {
		agent string
		first bool // a turn before it
		wrote func(c *chat)
		want  answer
	}{
		"no transcript yet":         {agent: "claude", want: answer{false, true}},
		"the prompt alone":          {agent: "claude", wrote: func(c *chat) { c.prompt("k") }, want: answer{true, true}},
		"a whole turn":              {agent: "claude", wrote: func(c *chat) { c.exchange("k") }, want: answer{true, true}},
		"nothing behind the last":   {agent: "claude", first: true, want: answer{false, true}},
		"the prompt after another":  {agent: "claude", first: true, wrote: func(c *chat) { c.prompt("k") }, want: answer{true, true}},
		"an answer that came later": {agent: "claude", first: true, wrote: func(c *chat) { c.answer("late") }, want: answer{false, true}},
		"the transcript is gone":    {agent: "claude", first: true, wrote: func(c *chat) { _ = os.Remove(c.path) }, want: answer{false, true}},
		"no such agent":             {agent: "other", want: answer{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newFixture(t)
			g.write("a", "0")
			c := g.chat(1)
			thread := g.openThread(tc.agent, c.source(), "")
			if tc.first {
				c.runTurn("first")
			}
			err := g.record(nil, func(ctx context.Context, r *timeline.Timeline) error {
				_, err := r.BeginTurn(ctx, timeline.Prompt{Key: "k", Agent: tc.agent, Source: c.source(), Text: "k"})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if tc.wrote != nil {
				tc.wrote(c)
			}
			before := g.summarize(thread)
			var got answer
			got.reached, got.told = g.reached("k")
			if got != tc.want {
				t.Errorf("reached %v, told %v; want %v", got.reached, got.told, tc.want)
			}
			if after := g.summarize(thread); len(after.cs) != len(before.cs) || len(g.open()) != 1 {
				t.Error("looking changed something")
			}
			if reached, told := g.reached("another"); reached || told {
				t.Error("a turn that is not open is said to be told of")
			}
		})
	}
}

// TestReachedInAnOlderSession ignores the turns from before the thread was opened.
func TestReachedInAnOlderSession(t *testing.T) {
	c := unrecordedChat(t)
	c.openThread("claude", c.source(), "")
	c.opens("four")
	if reached, told := c.reached("four"); reached || !told {
		t.Errorf("reached %v, told %v", reached, told)
	}
	c.prompt("four")
	if reached, _ := c.reached("four"); !reached {
		t.Error("the prompt is there and nobody sees it")
	}
}

// TestReachedInASessionThatWasRebuilt considers only the records after the cut.
func TestReachedInASessionThatWasRebuilt(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	c := g.chat(1)
	c.runTurn("one")
	two := c.runTurn("two")
	c.opens("three")
	l, err := g.rebuild(two.ID, g.project)
	if err != nil {
		t.Fatal(err)
	}
	g.join(two.Thread, *l)
	next := g.continueChat(2, l)
	g.editOpenTurn("three", func(o *timeline.OpenTurn) { o.Source = next.source() })
	if reached, told := g.reached("three"); reached || !told {
		t.Errorf("reached %v, told %v", reached, told)
	}
	next.prompt("three")
	if reached, _ := g.reached("three"); !reached {
		t.Error("the prompt is there and nobody sees it")
	}
}

// TestCloseGone ends the turns whose process has exited, with their changes, and no other turn.
func TestCloseGone(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	const dyingStore = 1000
	killed := 0
	alive := func(t timeline.OpenTurn) bool { return t.PID != killed }
	living := func(s *timeline.Timeline) { s.Alive = alive }
	g.beginAs("of the dead", "k1", dyingStore, alive)
	g.beginAs("of the living", "k2", dyingStore+1, alive)
	g.beginAs("of nobody known", "k3", 0, alive)
	g.note("k1", segno.Entry{Kind: segno.EntryIntent, ID: "i", Name: "Write", Body: json.RawMessage(`{"file_path":"b"}`)})
	g.note("k1", segno.Entry{Kind: segno.EntryResult, ID: "i", Name: "Write", Body: json.RawMessage(`{}`)})
	g.write("b", "by the dead")
	closeGone := func() {
		t.Helper()
		if err := g.record(living, func(ctx context.Context, r *timeline.Timeline) error { return r.CloseAbandonedTurns(ctx) }); err != nil {
			t.Fatal(err)
		}
	}
	closeGone()
	if n := len(g.open()); n != 3 {
		t.Fatalf("%d turns are open, of agents that live", n)
	}
	killed = dyingStore
	closeGone()
	left := map[segno.TurnKey]bool{}
	for _, o := range g.open() {
		left[o.Key] = true
	}
	if len(left) != 2 || left["k1"] {
		t.Fatalf("open are %v", left)
	}
	ids := g.threads()
	if len(ids) != 1 {
		t.Fatalf("there are threads %v", ids)
	}
	s := g.summarize(ids[0])
	c := s.cs[len(s.cs)-1]
	if c.Kind != segno.CheckpointTurn || c.Key != "k1" || !c.Interrupted || c.Files != (segno.Counts{Added: 1}) {
		t.Errorf("the checkpoint is %+v", c)
	}
	// The clock of this test is ahead of the file system's, so b is also in doubt.
	es := slices.DeleteFunc(g.entries(c.ID), func(e segno.Entry) bool { return e.Kind == segno.EntryDoubt || e.Kind == segno.EntryNote })
	if len(es) != 3 || es[0].Name != "user" || es[1].Kind != segno.EntryIntent || es[2].Kind != segno.EntryResult {
		t.Errorf("its entries are %+v", es)
	}
	closeGone() // a second call does nothing
	if again := g.summarize(ids[0]); len(again.cs) != len(s.cs) || len(g.threads()) != 1 {
		t.Errorf("closing again left %+v", again.cs)
	}
	g.wantFilesOfHead()
	g.checkStore()
}

// TestCloseGoneElsewhere does not end the turns of another directory.
func TestCloseGoneElsewhere(t *testing.T) {
	g := newFixture(t)
	alive := func(timeline.OpenTurn) bool { return false }
	g.beginAs("s", "k", 1000, alive)
	other := filepath.Join(filepath.Dir(g.project), "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	err := withTimelineAt(t.Context(), g.place, other, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		tl.Alive = alive
		return tl.CloseAbandonedTurns(ctx)
	})
	if err != nil || len(g.open()) != 1 {
		t.Errorf("%v; open are %+v", err, g.open())
	}
}

// TestRebuild cuts a session at a checkpoint. The new session belongs to no thread until it joins
// the chain.
func TestRebuild(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	c := g.chat(1)
	one := c.runTurn("one")
	c.runTurn("two")
	before := g.summarize(one.Thread)
	l, err := g.rebuild(one.ID, g.project)
	if err != nil {
		t.Fatal(err)
	}
	if l.Session == c.session || l.Fidelity != segno.FidelityRebuilt || l.At != one.ID || l.Position == nil || l.Dir != g.project {
		t.Errorf("the link is %+v", l)
	}
	if after := g.summarize(one.Thread); len(after.links) != len(before.links) || after.head != before.head {
		t.Errorf("the chain is %+v though nobody joined", after.links)
	}
	err = g.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		src := segno.Source{Session: l.Session, Path: l.Path, Dir: l.Dir}
		ok, err := tl.Transcripts["claude"].EndsAt(ctx, src, *l.Position)
		if err == nil && !ok {
			t.Error("what was written does not stand where the link says")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	g.join(one.Thread, *l)
	if s := g.summarize(one.Thread); s.head.Link.Session != l.Session || len(s.links) != len(before.links)+1 {
		t.Errorf("the chain is %+v", s.links)
	}
	g.checkStore()
}

// TestRebuildWithoutASession checks that checkpoints without a transcript cannot be rebuilt.
func TestRebuildWithoutASession(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	thread := g.openThread("claude", g.chat(1).source(), "")
	base := g.summarize(thread).head.Head
	if err := g.turn("A", func() { g.write("a", "1") }); err != nil { // a turn of an agent without a transcript reader
		t.Fatal(err)
	}
	cs, head := g.checkpoints()
	for what, at := range map[string]segno.CommitID{"before the first prompt": base, "another agent": head.Head, "no checkpoint": "nothing"} {
		if l, err := g.rebuild(at, g.project); segno.KindOf(err) != segno.KindNotFound || l != nil {
			t.Errorf("%s: %+v, %v", what, l, err)
		}
	}
	if again, _ := g.checkpoints(); len(again) != len(cs) {
		t.Error("it left something in the thread")
	}
}

// TestATurnThatLostItsSession continues a turn in a session with a preamble. The end of the turn
// comes after the previous turn, not at the start of the session.
func TestATurnThatLostItsSession(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	c := g.chat(1)
	c.runTurn("one")
	two := c.runTurn("two")
	c.opens("three")
	c.prompt("three")
	g.write("a", "half of three")
	g.note("three", segno.Entry{Kind: segno.EntryIntent, ID: "before", Name: "Write", Body: json.RawMessage(`{}`)})
	next := g.chat(2)
	g.join(two.Thread, next.preambleLink(two.ID))
	g.editOpenTurn("three", func(o *timeline.OpenTurn) { o.Source = next.source() })
	next.exchange("what happened; three")
	g.note("three", segno.Entry{Kind: segno.EntryIntent, ID: "after", Name: "Write", Body: json.RawMessage(`{}`)})
	g.write("a", "three")
	made := next.ends("three")
	if made.Thread != two.Thread || made.Parent != two.ID || made.Turn != 3 || made.Session.Session != next.session {
		t.Errorf("the turn is %+v", made)
	}
	// The clock of this test is ahead of the file system's, and a note reports that.
	if es := g.entries(made.ID); len(es) != 4 || es[1].ID != "before" || es[2].ID != "after" || es[3].Kind != segno.EntryNote {
		t.Errorf("its entries are %+v", es)
	}
	next.runTurn("four")
	s := g.summarize(two.Thread)
	if got := s.line(t); got != "base, 1 one, 2 two, 3 three, 4 four" || len(s.links) != 2 || len(g.threads()) != 1 {
		t.Errorf("the line is %q, the chain %+v", got, s.links)
	}
	if _, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 2}); err != nil {
		t.Fatal(err)
	}
	if got := g.files(); got != "a \"two\"\n" {
		t.Errorf("undo of both left\n%s", got)
	}
	g.checkStore()
}

// TestATurnWhoseSessionWasRebuilt continues a turn in a rebuilt session.
func TestATurnWhoseSessionWasRebuilt(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	c := g.chat(1)
	c.runTurn("one")
	two := c.runTurn("two")
	c.opens("three")
	c.prompt("three")
	l, err := g.rebuild(two.ID, g.project)
	if err != nil {
		t.Fatal(err)
	}
	g.join(two.Thread, *l)
	next := g.continueChat(2, l)
	g.editOpenTurn("three", func(o *timeline.OpenTurn) { o.Source = next.source() })
	next.exchange("three")
	g.write("a", "three")
	made := next.ends("three")
	if made.Thread != two.Thread || made.Parent != two.ID || made.Turn != 3 || made.Session.Leaf != next.head {
		t.Errorf("the turn is %+v", made)
	}
	next.runTurn("four")
	if got := g.summarize(two.Thread).line(t); got != "base, 1 one, 2 two, 3 three, 4 four" || len(g.threads()) != 1 {
		t.Errorf("the line is %q in %v", got, g.threads())
	}
	g.checkStore()
}

// TestARewindToTheEndOfAPreamble rewinds to the end of the preamble of a session, also if the
// chain names the session again after an undo or a return to it.
func TestARewindToTheEndOfAPreamble(t *testing.T) {
	for name, meanwhile := range map[string]func(g *fixture, l segno.Link, at *segno.Checkpoint){
		"at once": func(*fixture, segno.Link, *segno.Checkpoint) {},
		"after a return": func(g *fixture, l segno.Link, at *segno.Checkpoint) {
			l.Reason, l.At = string(segno.VerbSwitch), at.ID
			g.join(at.Thread, l)
		},
		"after a turn elsewhere": func(g *fixture, l segno.Link, at *segno.Checkpoint) {
			other := g.chat(3)
			g.join(at.Thread, other.preambleLink(at.ID))
			other.runTurn("elsewhere")
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newFixture(t)
			g.write("a", "0")
			c := g.chat(1)
			c.runTurn("one")
			two := c.runTurn("two")
			next := g.chat(2)
			l := next.preambleLink(two.ID)
			g.join(two.Thread, l)
			next.runTurn("three")
			four := next.runTurn("four")
			meanwhile(g, l, four)
			next.head = "" // the user went back to the start, inside the agent
			made := next.runTurn("again")
			s := g.summarize(two.Thread)
			at := made.Parent
			for s.at(t, at).Kind != segno.CheckpointTurn { // skip checkpoints of the files, which did not go back
				at = s.at(t, at).Parent
			}
			if at != two.ID {
				t.Errorf("it hangs from %+v; the line is %q", s.at(t, made.Parent), s.line(t))
			}
			g.checkStore()
		})
	}
}
