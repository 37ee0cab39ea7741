package hook_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/timeline"
)

// TestAnyOwnership drives whole histories of two agents and a user in one
// directory: turns, queued prompts, interruptions, kills, background work and
// edits by hand, in any order. Then, and in between, it undoes turns and compares
// each file with its recorded author:
//
//   - An undo never changes a file that another author wrote and the turn did not.
//   - A file that only the turn wrote has its content from before the turn.
//   - A file that the turn and another author wrote is untouched and listed.
//
// A file may be listed as a conflict, and untouched, if segno cannot know the author: the turn was
// interrupted, left work in the background or overlapped another turn. A write of the user while a
// command of a turn runs counts as a write of that turn.
func TestAnyOwnership(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	groups := 5 // most of a history's time passes in the product's waits for a transcript
	if soak.IsWhole() {
		groups = 1 // a campaign runs several processes
	}
	soak.Rapid(t, 30/groups, 3000)
	for n := range groups {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) { runHistory(rt, t.TempDir()) })
		})
	}
}

// runHistory drives one history.
func runHistory(rt *rapid.T, dir string) {
	w := newWorld(rt, dir)
	defer func() {
		for _, a := range w.agents {
			a.stopped()
		}
	}()
	for range rapid.IntRange(4, 24).Draw(rt, "steps") {
		w.step()
	}
	for _, a := range w.agents {
		a.finish()
	}
	for w.undo(w.drawAgent("undoer")) {
	}
	for _, a := range w.agents {
		for w.undo(a) {
		}
	}
}

// drawAgent draws an agent. It draws an index, so that a failure prints briefly.
func (w *world) drawAgent(what string) *simAgent {
	return w.agents[rapid.IntRange(0, len(w.agents)-1).Draw(w.T, what)]
}

// step executes one random action.
func (w *world) step() {
	a := w.drawAgent("agent")
	path := rapid.SampledFrom(worldPaths()).Draw(w.T, "path")
	if rapid.IntRange(0, 7).Draw(w.T, "moves") == 0 {
		w.moves(a)
		return
	}
	t, tasks := a.front(), a.running()
	switch what := rapid.IntRange(0, 15).Draw(w.T, "what"); {
	case what <= 1:
		w.userWrites()
	case what == 2:
		w.undo(a)
	case what <= 5 && len(tasks) > 0:
		a.task(rapid.SampledFrom(tasks).Draw(w.T, "task"), path)
	case t == nil:
		a.prompt()
	case what == 15:
		w.userWrites()
	case what == 3:
		a.queued("one more thing")
	case what == 6:
		a.escape()
	case what == 7:
		a.leave(rapid.Bool().Draw(w.T, "in order"))
	case what == 8:
		a.delegate()
	case what <= 10:
		a.stop()
	default:
		a.tool(t, path, "")
	}
}

// queued sends a prompt into the open turn, as one typed while the agent works. It has the id of
// the turn's own prompt.
func (a *simAgent) queued(text string) {
	a.Helper()
	a.Logf("queued prompt in %s", a.front().key)
	a.hook("UserPromptSubmit", map[string]any{"prompt_id": a.front().id, "prompt": text})
}

// leave ends the agent during a turn, either with an event or by a kill.
func (a *simAgent) leave(ordered bool) {
	a.Helper()
	if a.process == nil {
		return
	}
	if ordered {
		a.hook("SessionEnd", map[string]any{"reason": "prompt_input_exit"})
		a.Logf("agent %s exits", a.name)
		a.stopped()
	} else {
		a.kill()
	}
	for _, t := range a.turns {
		t.doubt = t.doubt || t.open || len(t.tasks) > 0
		t.open, t.tasks = false, nil // background work ends with the agent
	}
	a.waitForClock()
}

// delegate starts a background task: a subagent or a command.
func (a *simAgent) delegate() {
	a.Helper()
	t := a.front()
	task := simTask{turn: t, id: a.unique("task"), shell: rapid.Bool().Draw(a.T, "shell")}
	call := map[string]any{"prompt_id": t.id, "tool_name": "Agent", "tool_use_id": a.unique("toolu"),
		"tool_input": map[string]any{"description": "help", "prompt": "help", "run_in_background": true}}
	response := map[string]any{"status": "async_launched", "agentId": task.id, "isAsync": true}
	if task.shell {
		call["tool_name"], call["tool_input"] = "Bash", map[string]any{"command": "make watch", "run_in_background": true}
		response = map[string]any{"stdout": "", "backgroundTaskId": task.id}
	}
	a.separate(t.key)
	a.hook("PreToolUse", call)
	t.gap, t.ran = "", t.ran || task.shell
	call["tool_response"] = response
	a.hook("PostToolUse", call)
	t.tasks, t.doubt, t.tasked = append(t.tasks, task), true, true
	a.Logf("%s starts %s in the background (a command: %v)", t.key, task.id, task.shell)
}

// task continues or ends a background task. A command fires no events.
func (a *simAgent) task(task simTask, path string) {
	a.Helper()
	switch {
	case rapid.IntRange(0, 2).Draw(a.T, "ends") == 0:
		a.endTask(task, path)
	case task.shell:
		a.change(path, task.turn.key)
		task.turn.ran = true
	default:
		a.tool(task.turn, path, task.id)
	}
}

// endTask ends a background task. The agent reports the end to itself, in the running turn or by a
// prompt that it answers. The answer is part of the turn that started the task.
func (a *simAgent) endTask(task simTask, path string) {
	a.Helper()
	t := task.turn
	a.Logf("%s of %s ends", task.id, t.key)
	t.tasks = slices.DeleteFunc(t.tasks, func(x simTask) bool { return x.id == task.id })
	if !task.shell {
		a.hook("SubagentStop", map[string]any{"prompt_id": a.promptID(t), "agent_id": task.id, "agent_type": "general-purpose",
			"last_assistant_message": "done", "background_tasks": a.background()})
	}
	report := map[string]any{"prompt": "<task-notification>\n<task-id>" + task.id + "</task-id>\n<status>completed</status>\n<summary>done</summary>\n</task-notification>"}
	if front := a.front(); front != nil {
		report["prompt_id"] = front.id
		a.hook("UserPromptSubmit", report)
		return
	}
	t.id, t.open = a.unique("report"), true
	report["prompt_id"] = t.id
	a.Logf("%s goes on with the report, as %s", t.key, t.id)
	a.record("user", t.id, message("user", "report"), map[string]any{"origin": map[string]string{"kind": "task-notification"}})
	a.hook("UserPromptSubmit", report)
	if rapid.Bool().Draw(a.T, "works on") {
		a.tool(t, path, "")
	}
	a.stop()
}

// finish ends the open turn, its background tasks and the process.
func (a *simAgent) finish() {
	a.Helper()
	if a.front() != nil {
		a.stop()
	}
	for _, task := range a.running() {
		a.endTask(task, "a")
	}
	if rapid.Bool().Draw(a.T, "exits") {
		a.leave(true)
	}
}

// busy reports whether an agent works in the project, so that a move is refused.
func (w *world) busy() bool {
	for _, a := range w.agents {
		for _, t := range a.turns {
			if t.open || len(t.tasks) > 0 {
				return true
			}
		}
	}
	return false
}

// undo reverts the newest turn of an agent's thread and checks each file. It
// returns false if there was none.
func (w *world) undo(a *simAgent) bool {
	w.Helper()
	if a.session == "" {
		return false
	}
	if w.busy() {
		if err := w.move(a, new(timeline.MoveResult)); segno.KindOf(err) != segno.KindRefused {
			w.Fatalf("an undo while an agent is at work: %v", err)
		}
		return false
	}
	w.must(w.closeOpen()) // otherwise the move would record an interrupted turn; record it first
	_, key := a.newest()
	before := w.files()
	var moved timeline.MoveResult
	err := w.move(a, &moved)
	if key == "" {
		if segno.KindOf(err) != segno.KindNotFound {
			w.Fatalf("an undo of nothing: %v", err)
		}
		return false
	}
	w.must(err)
	i := slices.IndexFunc(a.turns, func(t *simTurn) bool { return t.key == key })
	if i < 0 {
		w.Fatalf("the undo reverted %q, which is no turn of agent %s", key, a.name)
	}
	w.Logf("undo %s: %d steps, conflicts %v", key, len(moved.Plan.Steps), moved.Plan.Conflicts)
	w.reverted(a.turns[i], before, w.files(), moved.Plan)
	switch {
	case moved.Link != nil:
		a.turns = slices.Delete(a.turns, i, i+1)
		a.attach(moved.Link)
	case rapid.Bool().Draw(w.T, "restarts"):
		a.restart()
	default:
		// The user continues in the session that has the turn. With its next prompt, the turn is on
		// the line again, but its writes stay undone.
	}
	return true
}

// closeOpen records the open turns whose agent has exited or that were interrupted. Other turns stay open.
func (w *world) closeOpen() error {
	return w.at(func(ctx context.Context, _ *local.Store, site *timeline.Timeline) error {
		_, err := site.Preview(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, WhileRunning: true})
		if segno.KindOf(err) == segno.KindNotFound {
			return nil
		}
		return err
	})
}

func (w *world) move(a *simAgent, moved *timeline.MoveResult) error {
	thread, _ := a.newest()
	return w.at(func(ctx context.Context, s *local.Store, site *timeline.Timeline) error {
		got, err := site.Move(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Thread: thread}, nil)
		if err == nil {
			*moved = *got
		}
		return err
	})
}

// reverted checks each file after an undo of a turn. The expectation depends on the author of the
// bytes that are in the file: bytes that the turn itself overwrote are gone before the undo. If a
// task overwrote the bytes of a newer turn or of the user, its bytes stay and are not listed,
// because the turn's checkpoint is older than those bytes.
func (w *world) reverted(t *simTurn, before, after map[string]string, p *timeline.Plan) {
	w.Helper()
	for _, path := range worldPaths() {
		now := w.authors(path, t)
		listed := slices.ContainsFunc(p.Conflicts, func(c segno.Conflict) bool { return c.Path == path })
		untouched, found := before[path] == after[path], after[path] == t.before[path]
		// Undo may also restore content of another author that the turn overwrote, and the state that a move left while
		// the turn was open: content, because an interrupted turn may have written it, or no file.
		right := found || now.others && after[path] == now.other || t.moved[segno.HashOf([]byte(after[path]))] ||
			after[path] == "" && t.removed[path]
		clear := !t.doubt && !t.overlap
		fail := func(why string) {
			w.Fatalf("the undo of %s, which found %q at %s: %s: %q, then %q", t.key, t.before[path], path, why, before[path], after[path])
		}
		switch {
		case listed && !untouched:
			fail("a conflict was written")
		case now.last == byNone && !untouched:
			fail("it did not write that, and it changed")
		case now.last == byOther && !untouched && (before[path] != now.own || now.own == ""): // an undo may have brought its bytes back
			fail("the bytes of another author changed")
		case now.last == byOther && clear && !listed && !found && now.mixed && t.left[path] != t.before[path]:
			fail("it and another wrote it, and that is not listed")
		case now.last == byTurn && before[path] == now.own && !listed && !right && !t.told[path] && !(t.tasked && now.others):
			fail("its bytes stay, and that is not listed")
		case now.last == byEither && !untouched && !right:
			fail("it is neither what was there nor what the turn found")
		case clear && !now.others && !now.hidden && listed:
			fail("no other wrote it, and it is a conflict")
		case clear && !now.others && now.last == byEither && now.claimed && !found:
			fail("the user wrote it while a command ran, and it stays")
		}
		if !listed && !untouched {
			w.forget(path, t)
		}
		if listed {
			w.checkReported(path, t)
		}
	}
}

// checkReported stores a conflict of a turn for the other turns of the agent that had tasks in the
// background. While the turn ran, these tasks, the turn and the user wrote at the same time. If
// times and tools do not distinguish them, the path is in doubt for the turn in the foreground.
func (w *world) checkReported(path string, t *simTurn) {
	for _, a := range w.agents {
		if !slices.Contains(a.turns, t) {
			continue
		}
		for _, u := range a.turns {
			if u != t && u.doubt {
				u.told[path] = true
			}
		}
	}
}

// The last author of a path, as seen from a turn.
const (
	byNone   = iota // no one wrote it since the turn began
	byTurn          // the turn
	byEither        // the user, in a window of the turn, so the two cannot be distinguished
	byOther         // another author
)

// authorship lists the writers of a path since a turn began.
type authorship struct {
	last    int
	others  bool   // another author wrote it
	other   string // the content that another author wrote last
	own     string // the content that the turn wrote last
	mixed   bool   // the turn wrote it, and another author did later
	claimed bool   // for byEither: the user's write counts as the turn's
	hidden  bool   // the turn deleted it, and another author changed names in the directory later
}

func (w *world) authors(path string, t *simTurn) (a authorship) {
	deleted := byNone // by the turn, or during it
	wrote, named := false, false
	defer func() {
		// A file that another author also deleted equals the state after the turn: a
		// snapshot contains states only.
		if a.last == byOther && a.other == "" && deleted != byNone {
			a.last = deleted
		}
	}()
	for _, c := range w.writes[t.begin:] {
		gone := c.content == ""
		switch {
		case c.path != path || c.undone:
			later := c.during[t.key] || c.author == t.key && !named // the directory has a newer time than the deletion
			a.hidden = a.hidden || a.last == byTurn && a.own == "" && later
			switch { // an undo reverted a deletion, and the turn is on the line again
			case c.path == path && c.author == t.key && gone:
				deleted = byTurn
			case c.path == path && c.during[t.key] && t.ran && gone:
				deleted = byEither
			}
			continue
		case c.author == t.key:
			a.last, a.own, a.mixed, a.hidden, wrote, named = byTurn, c.content, false, false, true, named || c.named
		case c.claimed[t.key] && !gone:
			a.last, a.claimed, a.mixed = byEither, true, false
		case gone && c.during[t.key] && t.ran:
			// The directory's time shows only that some name in it changed, and the turn ran commands.
			a.last, a.claimed, a.others, a.mixed, wrote = byEither, false, true, false, false
		default:
			a.last, a.others, a.other = byOther, true, c.content
			// If no tool named the path, there is no evidence that the turn also wrote it before
			// the user did. The same is true for a deletion, which certainly belongs to the user.
			if a.mixed = wrote; c.during[t.key] && (!named || gone) {
				a.mixed, wrote = false, false
			}
		}
		if gone && a.last != byOther {
			deleted = a.last
		}
	}
	return a
}

// forget marks the changes that an undo reverted.
func (w *world) forget(path string, t *simTurn) {
	for i := t.begin; i < len(w.writes); i++ {
		c := &w.writes[i]
		if c.path == path && (c.author == t.key || c.during[t.key] || c.claimed[t.key]) {
			c.undone = true
		}
	}
}
