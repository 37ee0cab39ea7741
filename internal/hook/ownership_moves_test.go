package hook_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/dalsegno/segno/timeline"
)

var errKilled = errors.New("killed")

// The moments of a move at which a user writes files. At each moment except the first, the process of the move is
// killed, and another command completes the move.
const (
	whileWriting = iota // the move is writing the files
	halfWritten         // some files are written
	beforeCommit        // the files are written, and the move is not in the store
	beforeClear         // the move is in the store, and its plan in the journal
)

// watchedWorkspace calls apply instead of Apply.
type watchedWorkspace struct {
	segno.Workspace
	apply func(steps []segno.Change, do func([]segno.Change) ([]segno.Conflict, error)) ([]segno.Conflict, error)
}

func (w watchedWorkspace) Apply(ctx context.Context, steps []segno.Change, times segno.Hash) ([]segno.Conflict, error) {
	return w.apply(steps, func(some []segno.Change) ([]segno.Conflict, error) { return w.Workspace.Apply(ctx, some, times) })
}

// deafStore is a store whose process is killed before it commits an operation.
type deafStore struct{ *sqlite.Store }

func (s deafStore) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	if c.Operation != nil {
		return segno.Head{}, errKilled
	}
	return s.Store.Commit(ctx, c)
}

// stuckSpool is a spool whose process is killed before it clears the journal.
type stuckSpool struct{ timeline.Spool }

func (stuckSpool) ClearPlan(context.Context, segno.WorkspaceID) error { return errKilled }

// moves makes moves other than a plain undo, also while turns are open. It makes no move while background tasks run,
// because the move would record them, and their reports would then begin separate turns.
func (w *world) moves(a *simAgent) {
	w.Helper()
	for _, o := range w.agents {
		if len(o.running()) > 0 {
			return
		}
	}
	switch rapid.IntRange(0, 5).Draw(w.T, "move") {
	case 0:
		w.forkAndBack(a)
	case 1:
		w.undoBesideTurns(a)
	default:
		w.thereAndBack(a)
	}
}

// undoable returns the thread of an agent and the key of its newest recorded turn. running is set if agents work, so
// that the move must set WhileRunning.
func (w *world) undoable(a *simAgent) (thread segno.ThreadID, key string, running bool) {
	w.Helper()
	if a.session == "" {
		return "", "", false
	}
	running = w.busy()
	w.must(w.closeOpen()) // otherwise the move would record an interrupted turn, and undo that one
	thread, key = a.newest()
	return thread, key, running
}

// thereAndBack undoes the newest turn of an agent while a user writes files, in any state of the world, and reverts the
// undo with an op undo or a redo. Files that only the undo wrote have their earlier content again. Files that the user
// wrote have the user's bytes.
func (w *world) thereAndBack(a *simAgent) {
	w.Helper()
	thread, key, running := w.undoable(a)
	if key == "" {
		return
	}
	ask := timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Thread: thread, WhileRunning: running}
	before, edited, began := w.files(), map[string]string{}, len(w.writes)
	steps := w.disturb(ask, func() {
		for range rapid.IntRange(0, 3).Draw(w.T, "edits") {
			path := rapid.SampledFrom(worldPaths()).Draw(w.T, "edited")
			was := w.files()[path]
			w.change(path, user)
			if now := w.files()[path]; now != was {
				edited[path] = now
			}
		}
	})
	w.wrote("the undo of "+key, before, w.files(), edited, func(path string) (segno.Entity, bool) {
		i := slices.IndexFunc(steps, func(s segno.Change) bool { return s.Path == path })
		if i < 0 {
			return segno.Entity{}, false
		}
		return steps[i].To, true
	})
	back := timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1, Thread: thread, WhileRunning: running}
	if rapid.Bool().Draw(w.T, "op undo") {
		back = timeline.MoveRequest{Verb: segno.VerbOpUndo, Thread: thread, WhileRunning: running}
	}
	var moved *timeline.MoveResult
	w.must(w.at(func(ctx context.Context, _ *local.Store, site *timeline.Timeline) (err error) {
		moved, err = site.Move(ctx, back, nil)
		return err
	}))
	w.Logf("%s of the undo of %s: conflicts %v", back.Verb, key, moved.Plan.Conflicts)
	after := w.files()
	w.wrote(fmt.Sprintf("the %s of the undo of %s", back.Verb, key), before, after, edited, func(path string) (segno.Entity, bool) {
		i := slices.IndexFunc(steps, func(s segno.Change) bool { return s.Path == path })
		if i < 0 {
			// The undo may have left a file that the turn created and the user changed. If the user then deleted it, the
			// redo creates it again.
			mine, isMine := edited[path]
			return segno.Entity{}, isMine && mine == "" && back.Verb == segno.VerbRedo && a.created(key, path, after[path])
		}
		return steps[i].From, true
	})
	w.forgetDeletions(began, before, edited)
	w.movedUnderTurns(&timeline.Plan{FilePlan: timeline.FilePlan{Steps: steps}}, nil)
	if !running && moved.Link != nil && moved.Link.Session != a.session {
		a.attach(moved.Link)
	}
}

// created reports whether a turn of the agent found no file at a path and wrote content to it.
func (a *simAgent) created(key, path, content string) bool {
	return slices.ContainsFunc(a.turns, func(t *simTurn) bool { return t.key == key && t.before[path] == "" }) &&
		slices.ContainsFunc(a.writes, func(c write) bool { return c.author == key && c.path == path && c.content == content })
}

// forgetDeletions handles files that both the undo and then the user deleted, and that the reversal of the undo
// restored. It marks the user's writes to them during the undo as undone, because the files have their bytes from
// before the undo again.
func (w *world) forgetDeletions(began int, before, edited map[string]string) {
	after := w.files()
	for i := range w.writes[began:] {
		c := &w.writes[began+i]
		if mine, isMine := edited[c.path]; isMine && mine == "" && after[c.path] != "" && after[c.path] == before[c.path] {
			c.undone = true
		}
	}
}

// disturb makes a move during which act happens at one moment, completes it if it was killed there, and
// returns its steps.
func (w *world) disturb(ask timeline.MoveRequest, act func()) (steps []segno.Change) {
	w.Helper()
	moment := rapid.IntRange(whileWriting, beforeClear).Draw(w.T, "moment")
	err := w.at(func(ctx context.Context, _ *local.Store, site *timeline.Timeline) error {
		plan, err := site.Preview(ctx, ask)
		if err != nil {
			return err
		}
		steps = plan.Steps
		switch moment {
		case whileWriting, halfWritten:
			site.Workspace = watchedWorkspace{site.Workspace, func(all []segno.Change, do func([]segno.Change) ([]segno.Conflict, error)) ([]segno.Conflict, error) {
				if moment == halfWritten {
					all = all[:rapid.IntRange(0, len(all)).Draw(w.T, "written")]
				}
				conflicts, err := do(all)
				act()
				if moment == halfWritten {
					err = errKilled
				}
				return conflicts, err
			}}
		case beforeCommit:
			site.Store = deafStore{site.Store.(*sqlite.Store)}
		case beforeClear:
			site.Spool = stuckSpool{site.Spool}
		}
		_, err = site.Move(ctx, ask, nil)
		return err
	})
	w.Logf("an undo of %d steps is disturbed at moment %d: %v", len(steps), moment, err)
	if moment == whileWriting {
		w.must(err)
		return steps
	}
	if !errors.Is(err, errKilled) {
		w.Fatalf("the move was not killed: %v", err)
	}
	if moment != halfWritten {
		act()
	}
	w.must(w.at(func(ctx context.Context, _ *local.Store, site *timeline.Timeline) error {
		if rapid.Bool().Draw(w.T, "save completes") {
			_, err := site.Save(ctx, segno.CheckpointSave, "mine")
			return err
		}
		_, err := site.CompletePending(ctx)
		return err
	}))
	return steps
}

// wrote checks the files after a move. Files that a user edited during the move have the user's bytes. Other files that
// the move wrote have the content that to returns. The rest is unchanged.
func (w *world) wrote(what string, before, after, edited map[string]string, to func(path string) (segno.Entity, bool)) {
	w.Helper()
	for _, path := range worldPaths() {
		entity, isStep := to(path)
		mine, isMine := edited[path]
		content, exists := after[path]
		switch {
		case isMine && content == mine:
		case isMine && mine == "" && isStep:
			// Both deleted it. There is no evidence of the user's deletion, so the reversal reverts the deletion of the
			// move.
		case isMine:
			w.Fatalf("%s: %s has %q, and the user wrote %q meanwhile", what, path, content, mine)
		case !isStep && content != before[path]:
			w.Fatalf("%s: %s was not written, and is %q, then %q", what, path, before[path], content)
		case isStep && (exists != entity.HasContent() || exists && segno.HashOf([]byte(content)) != entity.Hash):
			w.Fatalf("%s: %s is %q, which is not what the move writes", what, path, content)
		}
	}
}

// movedUnderTurns records a move for the open turns. For a path that such a turn had not written, the content that the
// move wrote is the state before the turn. A path that both wrote may be in doubt.
func (w *world) movedUnderTurns(plan *timeline.Plan, after map[string]string) {
	for _, a := range w.agents {
		for _, t := range a.turns {
			if !t.open {
				continue
			}
			t.doubt = true
			for _, s := range plan.Steps {
				if s.To.HasContent() {
					t.moved[s.To.Hash] = true
				} else {
					t.removed[s.Path] = true
				}
			}
			for path := range after {
				isStep := slices.ContainsFunc(plan.Steps, func(s segno.Change) bool { return s.Path == path })
				own := slices.ContainsFunc(w.writes[t.begin:], func(c write) bool { return c.path == path && c.author == t.key })
				if isStep && !own {
					t.before[path] = after[path]
				}
			}
		}
	}
}

// undoBesideTurns undoes the newest turn of an agent's thread while turns of this or another thread are open.
func (w *world) undoBesideTurns(a *simAgent) {
	w.Helper()
	thread, key, running := w.undoable(a)
	i := slices.IndexFunc(a.turns, func(t *simTurn) bool { return t.key == key })
	if !running || i < 0 {
		return
	}
	before := w.files()
	var moved *timeline.MoveResult
	w.must(w.at(func(ctx context.Context, _ *local.Store, site *timeline.Timeline) (err error) {
		moved, err = site.Move(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Thread: thread, WhileRunning: true}, nil)
		return err
	}))
	w.Logf("undo %s beside open turns: %d steps, conflicts %v", key, len(moved.Plan.Steps), moved.Plan.Conflicts)
	after := w.files()
	w.reverted(a.turns[i], before, after, moved.Plan)
	all := map[string]string{}
	for _, path := range worldPaths() {
		all[path] = after[path]
	}
	w.movedUnderTurns(moved.Plan, all)
}

// forkAndBack forks the newest checkpoint of an agent's thread and undoes the fork. A fork in which the user saved is
// kept. The project's files do not change.
func (w *world) forkAndBack(a *simAgent) {
	w.Helper()
	_, key, _ := w.undoable(a)
	if key == "" {
		return
	}
	before := w.files()
	saved := rapid.Bool().Draw(w.T, "saved")
	dir := filepath.Join(filepath.Dir(w.project), w.unique("fork"))
	w.must(w.at(func(ctx context.Context, s *local.Store, site *timeline.Timeline) error {
		thread, _ := a.newest()
		head, err := s.Head(ctx, thread)
		if err != nil {
			return err
		}
		made, err := site.Fork(ctx, timeline.MoveRequest{Verb: segno.VerbFork, To: head.Head, Dir: dir})
		if err != nil {
			return err
		}
		if saved {
			rec, err := s.Register(ctx, dir)
			if err != nil {
				return err
			}
			there, err := s.Timeline(rec, nil)
			if err != nil {
				return err
			}
			if _, err := there.Save(ctx, segno.CheckpointSave, "mine"); err != nil {
				return err
			}
		}
		op, err := site.FindOperation(ctx, "")
		if err != nil {
			return err
		}
		err = site.UndoOperation(ctx, op)
		if _, headErr := s.Head(ctx, made.Thread); saved != (segno.KindOf(err) == segno.KindRefused) || saved != (headErr == nil) {
			w.Fatalf("the undo of a fork, saved in it: %v: %v, and its head: %v", saved, err, headErr)
		}
		return nil
	}))
	for _, path := range worldPaths() {
		if after := w.files(); after[path] != before[path] {
			w.Fatalf("a fork changed %s from %q to %q", path, before[path], after[path])
		}
	}
}
