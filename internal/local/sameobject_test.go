package local_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// TestGcKeepsASessionWhoseObjectIsAlsoAFile records a project that contains objects of a store, as a Go program with a store in
// the project writes them: some of these files have exactly the bytes of the objects that list the transcript of a turn and the
// files beside it. A collection keeps what they list, and the session can be written back.
func TestGcKeepsASessionWhoseObjectIsAlsoAFile(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	c := g.chat(1)
	subagent := filepath.Join(filepath.Dir(c.path), string(c.session), "subagents", "agent-1.jsonl")
	c.runTurn("one")
	if err := os.MkdirAll(filepath.Dir(subagent), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(subagent, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	two := c.runTurn("two")
	session := two.Session
	if session == nil || session.Log.IsZero() || session.Sidecars.IsZero() {
		t.Fatalf("the session of the turn is %+v", session)
	}
	g.write(".agent/objects/log", g.object(session.Log))
	g.write(".agent/objects/sidecars", g.object(session.Sidecars))
	if err := os.WriteFile(subagent, []byte("{}\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.runTurn("three")
	g.collectLater()
	g.checkStore()
	if err := os.RemoveAll(filepath.Join(g.place.Homes["claude"], "projects")); err != nil {
		t.Fatal(err)
	}
	l, err := g.rebuild(two.ID, g.project)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(filepath.Dir(l.Path), string(l.Session), "subagents", "agent-1.jsonl")); err != nil || string(got) != "{}\n" {
		t.Errorf("the transcript of the subagent is %q, %v", got, err)
	}
}

// TestGcKeepsADatabaseWhoseObjectIsAlsoAFile is the same for the objects that list the content of a database.
func TestGcKeepsADatabaseWhoseObjectIsAlsoAFile(t *testing.T) {
	d := newDatabaseFixture(t)
	cs, _ := d.checkpoints()
	for i, c := range cs {
		d.write(filepath.Join(".agent/objects", string(rune('a'+i))), d.object(c.Workspace.World.Data))
	}
	if err := d.turn("D", func() { d.write("a", "4"); d.exec(d.inside, "UPDATE t SET x = 4") }); err != nil {
		t.Fatal(err)
	}
	d.collectLater()
	d.checkStore()
	for _, want := range []string{"3 2 -", "2 2 2", "1 1 0"} {
		d.undo(timeline.MoveRequest{Force: true})
		d.want(want)
	}
}

// object returns the bytes of an object of the store.
func (g *fixture) object(name segno.Hash) (data string) {
	g.Helper()
	err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, _ *timeline.Timeline) error {
		b, err := s.Objects().Get(ctx, name)
		data = string(b)
		return err
	})
	if err != nil {
		g.Fatal(err)
	}
	return data
}

// collectLater collects three hours later.
func (g *fixture) collectLater() {
	g.Helper()
	now := g.place.Now
	g.place.Now = func() time.Time { return now().Add(3 * time.Hour) }
	if err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, _ *timeline.Timeline) error {
		_, err := s.CollectLocked(ctx, segno.CollectPolicy{Trace: s.NewTrace()})
		return err
	}); err != nil {
		g.Fatal(err)
	}
}
