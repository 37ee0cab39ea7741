package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

// fixture is a store and a project in a temporary directory.
type fixture struct {
	testing.TB
	place   local.Place
	project string
	n       int // makes ids unique
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	g := &fixture{TB: t, project: filepath.Join(dir, "project")}
	if err := os.Mkdir(g.project, 0o755); err != nil {
		t.Fatal(err)
	}
	tick := time.Unix(1_800_000_000, 0)
	g.place = local.Place{Store: filepath.Join(dir, "store"), UserHome: filepath.Join(dir, "home"), Actor: segno.ActorCommand, Homes: local.Homes{"claude": filepath.Join(dir, "home", ".claude")},
		Now: func() time.Time { tick = tick.Add(time.Second); return tick }}
	return g
}

// withTimeline opens the store and the project's timeline for one action, as one command or
// hook would.
func (g *fixture) withTimeline(fsys vfs.FS, f func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error) error {
	place := g.place
	place.FS = fsys
	return withTimelineAt(g.Context(), place, g.project, f)
}

// withTimelineAt opens a place's store and a project's timeline for one action.
func withTimelineAt(ctx context.Context, place local.Place, project string, f func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error) error {
	s, err := place.Open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	rec, err := s.Register(ctx, project)
	if err != nil {
		return err
	}
	tl, err := s.Timeline(rec, nil)
	if err != nil {
		return err
	}
	return f(ctx, s, tl)
}

// turn records one turn in which act happens.
func (g *fixture) turn(key string, act func()) error {
	if err := g.begin(key, segno.Source{Session: "session", Dir: g.project}); err != nil {
		return err
	}
	act()
	return g.end(nil, key)
}

func (g *fixture) begin(key string, src segno.Source) error {
	return g.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		_, err := tl.BeginTurn(ctx, timeline.Prompt{Key: segno.TurnKey(key), Agent: "test", Source: src, Text: key})
		return err
	})
}

func (g *fixture) end(fsys vfs.FS, key string) error {
	src := segno.Source{Session: "session", Dir: g.project}
	return g.withTimeline(fsys, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		_, err := tl.EndTurn(ctx, timeline.TurnEnd{Key: segno.TurnKey(key), Agent: "test", Source: src})
		return err
	})
}

func (g *fixture) move(fsys vfs.FS, ask timeline.MoveRequest) (moved *timeline.MoveResult, err error) {
	err = g.withTimeline(fsys, func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error {
		moved, err = tl.Move(ctx, ask, nil)
		return err
	})
	return moved, err
}

// checkpoints returns the checkpoints of the thread, oldest first, and its head.
func (g *fixture) checkpoints() (cs []segno.Checkpoint, head segno.Head) {
	g.Helper()
	err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error {
		thread, err := tl.CurrentThread(ctx)
		if err != nil || thread == "" {
			return err
		}
		if head, err = s.Head(ctx, thread); err != nil {
			return err
		}
		for c, err := range s.Checkpoints(ctx, segno.CheckpointQuery{Thread: thread}) {
			if err != nil {
				return err
			}
			cs = append([]segno.Checkpoint{c}, cs...)
		}
		return nil
	})
	if err != nil {
		g.Fatal(err)
	}
	return cs, head
}

// runNextCommand does what the next command does first: it completes interrupted operations.
func (g *fixture) runNextCommand() {
	g.Helper()
	err := g.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		_, err := tl.Preview(ctx, timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1})
		switch segno.KindOf(err) {
		case segno.KindNotFound: // there is nothing to redo
			return nil
		case segno.KindConflict: // it completed a redo, and does nothing else
			return nil
		}
		return err
	})
	if err != nil {
		g.Fatalf("the next command: %v", err)
	}
}

// checkStore checks every hash and every reference of the store.
func (g *fixture) checkStore() {
	g.Helper()
	err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, _ *timeline.Timeline) error {
		_, err := s.Check(ctx, segno.CheckPolicy{Trace: s.NewTrace()}, func(err error) bool {
			g.Errorf("check: %v", err)
			return true
		})
		return err
	})
	if err != nil {
		g.Fatal(err)
	}
}

// wantFilesOfHead checks that the files equal the snapshot of the head.
func (g *fixture) wantFilesOfHead() {
	g.Helper()
	cs, head := g.checkpoints()
	for _, c := range cs {
		if c.ID != head.Head {
			continue
		}
		err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error {
			now, err := tl.Snapshot(ctx)
			if err != nil {
				return err
			}
			if now.Tree != c.Tree() {
				changes, err := tl.Workspace.Diff(ctx, c.Tree(), now.Tree)
				return fmt.Errorf("the tree of the head is %s, that of the files %s: %+v %v", c.Tree(), now.Tree, changes, err)
			}
			return nil
		})
		if err != nil {
			g.Fatal(err)
		}
		return
	}
	g.Fatalf("the head is %q, which is not a checkpoint of the thread", head.Head)
}

func (g *fixture) write(name, content string) {
	g.Helper()
	path := filepath.Join(g.project, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		g.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		g.Fatal(err)
	}
}

func (g *fixture) remove(name string) {
	g.Helper()
	if err := os.RemoveAll(filepath.Join(g.project, name)); err != nil {
		g.Fatal(err)
	}
}

// files returns the regular files of the project and their content.
func (g *fixture) files() string {
	g.Helper()
	var b strings.Builder
	err := filepath.WalkDir(g.project, func(path string, de os.DirEntry, err error) error {
		if err != nil || path == g.project {
			return err
		}
		rel, err := filepath.Rel(g.project, path)
		if err != nil {
			return err
		}
		if de.IsDir() {
			fmt.Fprintf(&b, "%s/\n", rel)
			return nil
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %q\n", rel, data)
		return err
	})
	if err != nil {
		g.Fatal(err)
	}
	return b.String()
}
