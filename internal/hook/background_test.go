package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// subagent is a task that the agent lists.
func subagent() map[string]string {
	return map[string]string{"id": "a9", "type": "subagent", "status": "running", "description": "bg"}
}

const report = "<task-notification>\n<task-id>a9</task-id>\n<status>completed</status>\n<summary>Agent \"bg\" finished</summary>\n</task-notification>"

// startSubagent returns a scene after a turn that changed a file and started a subagent in the
// background.
func startSubagent(t *testing.T) *scene {
	t.Helper()
	c := newScene(t, map[string]string{"a": "0", "notes": "0"})
	c.asks("p1", "one")
	c.startsSubagent()
	c.wantOpen("p1")
	return c
}

// startsSubagent runs the turn of startSubagent after its prompt.
func (c *scene) startsSubagent() {
	c.Helper()
	c.writes("p1", "t1", "a", "1")
	c.launchesSubagent()
	c.stops("p1", subagent())
	c.waitForClock()
}

// launchesSubagent lets the turn start the subagent, which goes on in the background.
func (c *scene) launchesSubagent() {
	c.Helper()
	c.begins("p1", "t2", "Agent", map[string]any{"prompt": "do it", "description": "bg"})
	c.sendEvent("PostToolUse", "prompt_id", "p1", "tool_name", "Agent", "tool_use_id", "t2", "tool_response", map[string]any{"isAsync": true, "agentId": "a9"})
}

// runSubagent lets the subagent work. key is the id of the prompt that the agent answers at the
// same time.
func (c *scene) runSubagent(key string) {
	c.Helper()
	c.writes(key, "s1", "sub", "by the subagent", "agent_id", "a9", "agent_type", "general-purpose")
	c.waitForClock()
}

func (c *scene) subagentStops(key string) {
	c.Helper()
	c.sendEvent("SubagentStop", "prompt_id", key, "agent_id", "a9", "agent_type", "general-purpose", "background_tasks", []any{subagent()})
}

// wantRefused checks that a move is refused because of background work.
func (c *scene) wantRefused() {
	c.Helper()
	_, err := c.moves(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1})
	if segno.KindOf(err) != segno.KindRefused || !strings.Contains(err.Error(), "background work") {
		c.Errorf("undo while a subagent works: %v", err)
	}
}

// TestACallOfASubagentRunsWhileItsTurnStops stops a turn while a command of its subagent runs. The file that the command
// has made belongs to the turn.
func TestACallOfASubagentRunsWhileItsTurnStops(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	c.asks("p1", "one")
	c.launchesSubagent()
	input, ofSubagent := map[string]any{"command": "make"}, []any{"agent_id", "a9", "agent_type", "general-purpose"}
	c.begins("p1", "s1", "Bash", input, ofSubagent...)
	c.waitForClock()
	c.write("made", "by the subagent")
	c.stops("p1", subagent())
	c.ends("p1", "s1", "Bash", input, ofSubagent...)
	c.subagentStops("p1")
	c.wantHistory("base, 1 one")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0")
	c.wantNoFailures()
}

// TestBackgroundWorkBelongsToItsTurn lets a subagent and the user write after the turn stopped.
// Undo reverts only the changes of the turn and its subagent.
func TestBackgroundWorkBelongsToItsTurn(t *testing.T) {
	for _, next := range []string{"undo", "prompt", "session end"} {
		t.Run("then "+next, func(t *testing.T) {
			c := startSubagent(t)
			c.wantRefused()
			c.runSubagent("p1")
			c.write("notes", "mine")
			c.wantRefused()
			c.subagentStops("p1")
			c.agent(`"type":"user","promptId":"p2","permissionMode":"default","origin":{"kind":"task-notification"},"message":{"role":"user","content":"report"}`)
			c.sendEvent("UserPromptSubmit", "prompt_id", "p2", "prompt", report)
			c.wantOpen("p1")
			c.runs("p2", "t3", "make", func() { c.write("made", "by the answer") })
			c.stops("p2")
			c.wantOpen()
			c.wantHistory("base, 1 one, external")
			turns := 1
			switch next {
			case "prompt":
				c.asks("p3", "two")
				c.writes("p3", "t4", "a", "2")
				c.stops("p3")
				c.wantHistory("base, 1 one, external, 2 two")
				turns = 2
			case "session end":
				c.sendEvent("SessionEnd", "reason", "other")
			}
			c.wantConflicts(c.undo(turns))
			c.wantFiles("a=0 notes=mine")
			c.wantNoFailures()
		})
	}
}

// TestTheUserChangesAFileOfATurnWhoseSubagentWorks lets the user change a file that the turn wrote before it stopped. A
// later call of the subagent, or of the answer to its report, does not make the user's change one of a formatter.
func TestTheUserChangesAFileOfATurnWhoseSubagentWorks(t *testing.T) {
	for _, next := range []string{"report", "turn", "answer"} {
		t.Run("then a "+next, func(t *testing.T) {
			c := newScene(t, map[string]string{"a": "0", "notes": "0"})
			c.asks("p1", "one")
			c.launchesSubagent()
			c.writes("p1", "t1", "a", "1")
			c.stops("p1", subagent())
			c.waitForClock()
			if next == "turn" {
				c.asks("p2", "two")
			}
			if next != "answer" {
				c.write("a", "mine")
				c.waitForClock()
				c.runSubagent("p1")
			}
			if next == "turn" {
				c.stops("p2")
			}
			c.subagentStops("p1")
			c.agent(`"type":"user","promptId":"p3","permissionMode":"default","origin":{"kind":"task-notification"},"message":{"role":"user","content":"report"}`)
			c.sendEvent("UserPromptSubmit", "prompt_id", "p3", "prompt", report)
			if next == "answer" {
				c.waitForClock()
				c.write("a", "mine")
				c.waitForClock()
			}
			c.writes("p3", "t3", "answered", "by the answer")
			c.stops("p3")
			turns := 1
			if next == "turn" {
				turns = 2
			}
			c.wantConflicts(c.undo(turns), "a")
			c.wantFiles("a=mine notes=0")
			c.wantNoFailures()
		})
	}
}

// TestBackgroundWorkBesideAnotherTurn lets a subagent and the user write while the next turn runs. Each
// undo reverts the changes of one turn, and none of them that of the user.
func TestBackgroundWorkBesideAnotherTurn(t *testing.T) {
	c := startSubagent(t)
	c.asks("p2", "two")
	c.wantOpen("p1", "p2")
	c.writes("p2", "t3", "notes", "2")
	c.runSubagent("p2")
	c.write("made", "2")
	c.subagentStops("p2")
	c.sendEvent("UserPromptSubmit", "prompt_id", "p2", "prompt", report)
	c.wantOpen("p1", "p2")
	c.stops("p2")
	c.wantOpen("p1") // open until an event shows that no report of it will come
	c.wantHistory("base, 1 one, 2 two, external")
	c.wantConflicts(c.undo(1))
	c.wantOpen()
	c.wantFiles("a=1 made=2 notes=0 sub=by the subagent")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 made=2 notes=0")
	moved, err := c.moves(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 2})
	if err != nil || len(moved.Plan.Conflicts) > 0 {
		t.Fatal(moved, err)
	}
	c.wantFiles("a=1 made=2 notes=2 sub=by the subagent")
	c.wantNoFailures()
}

// TestBackgroundWorkAfterTheNextTurn lets a subagent write after the next turn.
func TestBackgroundWorkAfterTheNextTurn(t *testing.T) {
	c := startSubagent(t)
	c.asks("p2", "two")
	c.writes("p2", "t3", "notes", "2")
	c.stops("p2", subagent())
	c.wantOpen("p1")
	c.waitForClock()
	c.runSubagent("p2")
	c.subagentStops("p2")
	c.asks("p3", "three")
	c.stops("p3")
	c.wantOpen()
	c.wantHistory("base, 1 one, 2 two, 3 three")
	c.wantConflicts(c.undo(2))
	c.wantFiles("a=1 notes=0 sub=by the subagent")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 notes=0")
	c.wantNoFailures()
}

// TestABackgroundCommand checks that a command stays a task of its turn until the agent no longer
// lists it. Files that the command may have written without naming them are in doubt.
func TestABackgroundCommand(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	c.asks("p1", "one")
	input := map[string]any{"command": "sleep 3; echo y > named; make", "run_in_background": true}
	c.begins("p1", "t1", "Bash", input)
	c.sendEvent("PostToolUse", "prompt_id", "p1", "tool_name", "Bash", "tool_use_id", "t1", "tool_input", input, "tool_response", map[string]any{"backgroundTaskId": "b7"})
	c.stops("p1", map[string]string{"id": "b7", "type": "shell", "status": "running"})
	c.wantRefused()
	c.waitForClock()
	c.write("named", "y")
	c.write("made", "by make, or by the user")
	c.waitForClock()
	c.asks("p2", "two")
	c.stops("p2")
	c.wantOpen("p1") // open until an event shows that no report of it will come
	c.wantHistory("base, 1 one, 2 two")
	c.wantConflicts(c.undo(2), "made")
	c.wantFiles("a=0 made=by make, or by the user")
	c.wantNoFailures()
}

// TestBackgroundWorkOfADeadAgent checks that the background work of an exited agent has ended:
// moves are possible, and the known writes of the agent's subagent belong to the turn.
func TestBackgroundWorkOfADeadAgent(t *testing.T) {
	c := startSubagent(t)
	c.runSubagent("p1")
	c.write("notes", "mine")
	c.killAgent()
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 notes=mine")
	c.wantOpen()
	c.wantNoFailures()
}

// TestALateMessageBesideABackgroundCommand lets the proxy continue a session whose earlier turn left a command in the
// background. A message about a tool call arrives after the tool wrote the file. The file belongs to the turn of the call.
func TestALateMessageBesideABackgroundCommand(t *testing.T) {
	c := newBackgroundScene(t)
	l := c.own()
	c.begin(l, "p2")
	c.write("code", "2")
	c.waitForClock()
	c.as(l, func(ctx context.Context, _ *local.Store, r *timeline.Timeline) error {
		input := fmt.Sprintf(`{"kind":"edit","input":{"file_path":%q,"content":"2"}}`, filepath.Join(c.project, "code"))
		e := segno.Entry{Kind: segno.EntryIntent, Time: c.place.Now(), ID: "t2", Name: "Write", Body: json.RawMessage(input)}
		if err := r.AppendEntry(ctx, "p2", e); err != nil {
			return err
		}
		e.Kind, e.Time, e.Body = segno.EntryResult, c.place.Now(), json.RawMessage(`{"status":"completed"}`)
		return r.AppendEntry(ctx, "p2", e)
	})
	if made := c.end(l, "p2"); made.Files.Modified != 1 {
		t.Errorf("the turn of the call has %+v", made.Files)
	}
	c.release(l)
	c.wantHistory("base, 1 one, 2 p2")
	c.wantNoFailures()
}

// TestTwoReports ends two subagents before the agent answers the report of the first one. The agent then lists no task, and both reports
// belong to the turn that started the subagents.
func TestTwoReports(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	c.asks("p1", "one")
	list := []map[string]string{}
	for id, task := range map[string]string{"t1": "a9", "t2": "a8"} {
		c.begins("p1", id, "Agent", map[string]any{"prompt": "do it", "description": "bg"})
		c.sendEvent("PostToolUse", "prompt_id", "p1", "tool_name", "Agent", "tool_use_id", id, "tool_response", map[string]any{"isAsync": true, "agentId": task})
		list = append(list, map[string]string{"id": task, "type": "subagent", "status": "running"})
	}
	c.stops("p1", list...)
	c.waitForClock()
	c.runSubagent("p1")
	for _, task := range []string{"a9", "a8"} {
		c.sendEvent("SubagentStop", "prompt_id", "p1", "agent_id", task, "agent_type", "general-purpose", "background_tasks", []any{})
	}
	c.asks("p2", report)
	c.stops("p2")
	c.asks("p3", strings.ReplaceAll(report, "a9", "a8"))
	c.writes("p3", "t3", "a", "1")
	c.stops("p3")
	c.wantHistory("base, 1 one")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0")
}
