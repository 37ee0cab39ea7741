package hook

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/hook/event"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/dalsegno/segno/timeline"
)

// wantOneLine checks that all checkpoints that no other one amends are on the head's
// line.
func (c *scene) wantOneLine() {
	c.Helper()
	known := map[segno.CommitID]bool{}
	for _, n := range c.line() {
		known[n.Checkpoint.ID], known[n.Checkpoint.Amends] = true, true
	}
	c.as(segno.Lease{}, func(ctx context.Context, st *local.Store, _ *timeline.Timeline) error {
		for cp, err := range st.Checkpoints(ctx, segno.CheckpointQuery{}) {
			if err != nil {
				return err
			}
			if known[cp.ID] { // the newest come first
				known[cp.Amends] = true
			} else {
				c.Errorf("%s %d %q is not on the line of the head", cp.Kind, cp.Turn, cp.Prompt)
			}
		}
		return nil
	})
}

// newBackgroundScene returns a scene after a turn that changed a file and left a command in the
// background.
func newBackgroundScene(t *testing.T) *scene {
	t.Helper()
	c := newScene(t, map[string]string{"a": "0", "code": "0"})
	c.asks("p1", "one")
	input := map[string]any{"command": "npm run dev", "run_in_background": true}
	c.begins("p1", "t1", "Bash", input)
	c.sendEvent("PostToolUse", "prompt_id", "p1", "tool_name", "Bash", "tool_use_id", "t1", "tool_input", input, "tool_response", map[string]any{"backgroundTaskId": "b7"})
	c.write("a", "1")
	c.stops("p1", devServer())
	c.waitForClock()
	return c
}

// devServer is the command of newBackgroundScene as the agent lists it.
func devServer() map[string]string {
	return map[string]string{"id": "b7", "type": "shell", "status": "running"}
}

// changesFiles makes the changes of turn p2, with an edit and a command.
func (c *scene) changesFiles() {
	c.Helper()
	c.writes("p2", "t2", "code", "2")
	c.runs("p2", "t3", "touch gen", func() { c.write("gen", "2") })
	c.waitForClock()
}

// TestAnInterruptionBesideABackgroundCommand keeps the changes of the interrupted turn in that
// turn, and all turns on one line. The agent has no transcript, because a transcript names the
// parent of each turn.
func TestAnInterruptionBesideABackgroundCommand(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "code": "0"})
	asks := func(key string) { c.sendEvent("UserPromptSubmit", "prompt_id", key, "prompt", key) }
	stops := func(key string, tasks ...any) { c.sendEvent("Stop", "prompt_id", key, "background_tasks", tasks) }
	asks("p1")
	input := map[string]any{"command": "npm run dev", "run_in_background": true}
	c.begins("p1", "t1", "Bash", input)
	c.sendEvent("PostToolUse", "prompt_id", "p1", "tool_name", "Bash", "tool_use_id", "t1", "tool_input", input, "tool_response", map[string]any{"backgroundTaskId": "b7"})
	c.write("a", "1")
	stops("p1", devServer())
	c.waitForClock()
	asks("p2")
	c.changesFiles()
	asks("p3")
	stops("p3", devServer())
	asks("p4")
	stops("p4")
	c.wantHistory("base, 1 p1, 2 p2 (interrupted), 3 p3, 4 p4")
	c.wantOneLine()
	c.wantConflicts(c.undo(3))
	c.wantFiles("a=1 code=0")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 code=0")
	c.wantNoFailures()
}

// TestAnInterruptionBesideASubagent gives the subagent's file to the turn that started
// the subagent.
func TestAnInterruptionBesideASubagent(t *testing.T) {
	for _, next := range []string{"prompt", "session end", "undo"} {
		t.Run(next, func(t *testing.T) {
			c := startSubagent(t)
			c.asks("p2", "two")
			c.writes("p2", "t3", "notes", "2")
			c.runSubagent("p2")
			turns := 1
			switch next {
			case "prompt":
				c.interrupt("p2")
				c.asks("p3", "three")
				c.stops("p3", subagent())
				c.subagentStops("p3")
				c.asks("p4", "four")
				c.stops("p4")
				c.wantHistory("base, 1 one, 2 two (interrupted), 3 three, 4 four")
				turns = 3
			case "session end":
				c.sendEvent("SessionEnd", "reason", "other")
				c.wantHistory("base, 1 one, 2 two (interrupted)")
			case "undo":
				c.killAgent()
			}
			c.wantConflicts(c.undo(turns))
			c.wantFiles("a=1 notes=0 sub=by the subagent")
			c.wantConflicts(c.undo(1))
			c.wantFiles("a=0 notes=0")
			c.wantOpen()
			c.wantNoFailures()
		})
	}
}

// TestForcedUndoBesideARunningTurn checks that the changes of the running turn are not attributed
// to the turn whose command is in the background.
func TestForcedUndoBesideARunningTurn(t *testing.T) {
	c := newBackgroundScene(t)
	c.asks("p2", "two")
	c.changesFiles()
	if _, err := c.moves(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, WhileRunning: true}); err != nil {
		t.Fatal(err)
	}
	c.wantFiles("a=0 code=2 gen=2")
	c.wantNoFailures()
}

// deleteTree deletes the files of a turn's checkpoint from the store, as a damaged disk would.
func (c *scene) deleteTree(prompt string) {
	c.Helper()
	var tree segno.Hash
	c.as(segno.Lease{}, func(ctx context.Context, st *local.Store, r *timeline.Timeline) error {
		for cp, err := range st.Checkpoints(ctx, segno.CheckpointQuery{}) {
			if err != nil {
				return err
			}
			if cp.Prompt == prompt && tree.IsZero() {
				tree = cp.Tree()
			}
		}
		return nil
	})
	vfs, err := sqlite.VFS()
	if err != nil {
		c.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(c.place.Store, "segno.db")+"?vfs="+vfs)
	if err != nil {
		c.Fatal(err)
	}
	defer db.Close()
	done, err := db.Exec("DELETE FROM objects WHERE name = ?", tree[:])
	if err != nil {
		c.Fatal(err)
	}
	if n, err := done.RowsAffected(); n != 1 || err != nil {
		c.Fatal(n, err)
	}
}

// TestADamagedBackgroundTurnIsSkipped checks that later turns and moves succeed if the checkpoint
// of a turn in the background cannot be read.
func TestADamagedBackgroundTurnIsSkipped(t *testing.T) {
	for _, lost := range []string{"before a prompt", "before a stop", "before a session end", "before a report", "before an undo"} {
		t.Run(lost, func(t *testing.T) {
			c := startSubagent(t)
			c.asks("p2", "two")
			c.writes("p2", "t3", "notes", "2")
			c.stops("p2", subagent())
			c.waitForClock()
			want := "base, 1 one, 2 two, 3 three"
			switch lost {
			case "before a prompt":
				c.deleteTree("one")
				c.asks("p3", "three")
				c.wantOpen("p3")
				c.writes("p3", "t4", "notes", "3")
				c.stops("p3")
			case "before a stop":
				c.asks("p3", "three")
				c.deleteTree("one")
				c.writes("p3", "t4", "notes", "3")
				c.stops("p3")
			case "before a session end":
				c.asks("p3", "three")
				c.deleteTree("one")
				c.writes("p3", "t4", "notes", "3")
				c.sendEvent("SessionEnd", "reason", "other")
				want += " (interrupted)"
			case "before a report":
				c.deleteTree("one")
				c.sendEvent("UserPromptSubmit", "prompt_id", "p3", "prompt", report)
				c.wantOpen("p3")
				c.writes("p3", "t4", "notes", "3")
				c.stops("p3")
				want = `base, 1 one, 2 two, 3 Agent "bg" finished`
			case "before an undo":
				c.asks("p3", "three")
				c.writes("p3", "t4", "notes", "3")
				c.stops("p3", subagent())
				c.deleteTree("one")
				c.killAgent()
			}
			c.wantHistory(want)
			c.wantConflicts(c.undo(1))
			c.wantFiles("a=1 notes=2")
			c.wantOpen()
			fails, err := event.Log{Store: c.place.Store}.Failures(10)
			if err != nil || lost != "before an undo" && (len(fails) == 0 || !strings.Contains(fmt.Sprint(fails), "set aside")) {
				t.Errorf("the hook reports %v, %v", fails, err)
			}
		})
	}
}

// TestAKillAfterAnAmendment kills the process that added background work to a turn's
// checkpoint before it rewrote the open turns in the spool. All turns stay on one line.
func TestAKillAfterAnAmendment(t *testing.T) {
	for _, then := range []string{"stop", "interruption", "stop without the background turn"} {
		t.Run(then, func(t *testing.T) {
			c := newScene(t, map[string]string{"a": "0", "notes": "0"})
			// The agent has no transcript, because a transcript names the parent of each turn.
			asks := func(key string) { c.sendEvent("UserPromptSubmit", "prompt_id", key, "prompt", key) }
			stops := func(key string, tasks ...any) { c.sendEvent("Stop", "prompt_id", key, "background_tasks", tasks) }
			asks("p1")
			c.writes("p1", "t1", "a", "1")
			stops("p1", subagent())
			c.waitForClock()
			asks("p2")
			c.writes("p2", "t2", "notes", "2")
			c.runSubagent("p2")
			ctx, spool := c.Context(), c.place.Spool()
			before, err := spool.Turns(ctx)
			if err != nil {
				t.Fatal(err)
			}
			c.previewsUndo()
			for _, turn := range before {
				if err := spool.SaveTurn(ctx, turn); err != nil {
					t.Fatal(err)
				}
			}
			want := "base, 1 p1, 2 p2"
			switch then {
			case "stop without the background turn":
				if err := spool.DeleteTurn(ctx, "p1"); err != nil {
					t.Fatal(err)
				}
				stops("p2")
			case "stop":
				stops("p2", subagent())
			case "interruption":
				asks("p3")
				stops("p3", subagent())
				want += " (interrupted), 3 p3"
			}
			c.wantHistory(want)
			c.wantOneLine()
			c.killAgent()
			turns := 1
			if then == "interruption" {
				turns = 2
			}
			c.wantConflicts(c.undo(turns))
			c.wantFiles("a=1 notes=0 sub=by the subagent")
			c.wantConflicts(c.undo(1))
			c.wantFiles("a=0 notes=0")
			c.wantNoFailures()
		})
	}
}

// previewsUndo previews a forced undo, which records the background work first.
func (c *scene) previewsUndo() {
	c.Helper()
	c.as(segno.Lease{}, func(ctx context.Context, _ *local.Store, r *timeline.Timeline) error {
		m := r
		_, err := m.Preview(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, WhileRunning: true})
		return err
	})
}
