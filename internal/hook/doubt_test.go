package hook

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript/claude"
)

// otherSession is the session of another agent in the same directory.
const otherSession = "22222222-0000-4000-8000-000000000002"

// sendEventOfOther sends an event of the other session to the hook. It ignores the answer, which
// warns the second agent of the first.
func (c *scene) sendEventOfOther(name string, more ...any) {
	c.Helper()
	path := filepath.Join(c.place.Homes["claude"], "projects", claude.Slug(c.project), otherSession+".jsonl")
	event := c.payload(name, slices.Concat([]any{"session_id", otherSession, "transcript_path", path}, more)...)
	Run(c.Context(), "claude", Event{Place: c.place, Stdin: strings.NewReader(event), Stdout: new(bytes.Buffer), Getenv: func(string) string { return "" }})
}

// otherWrites makes a complete call in the other session that writes a file.
func (c *scene) otherWrites(name, content string) {
	c.Helper()
	input := map[string]any{"file_path": filepath.Join(c.project, name), "content": content}
	call := []any{"prompt_id", "q1", "tool_name", "Write", "tool_use_id", "u1", "tool_input", input}
	c.sendEventOfOther("PreToolUse", call...)
	c.write(name, content)
	c.sendEventOfOther("PostToolUse", append(call, "tool_response", "ok")...)
}

// runInOther runs a turn of the other session with one command, whose effect is act.
func (c *scene) runInOther(command string, act func()) {
	c.Helper()
	call := []any{"prompt_id", "q1", "tool_name", "Bash", "tool_use_id", "u1", "tool_input", map[string]any{"command": command}}
	c.sendEventOfOther("PreToolUse", call...)
	act()
	c.sendEventOfOther("PostToolUse", slices.Concat(call, []any{"tool_response", "ok"})...)
}

// undoOf reverts the newest turn of a session and returns the paths in conflict.
func (c *scene) undoOf(session segno.SessionID) (conflicts []string) {
	c.Helper()
	var thread segno.ThreadID
	c.as(segno.Lease{}, func(ctx context.Context, st *local.Store, _ *timeline.Timeline) error {
		for t, err := range st.Threads(ctx, segno.ThreadQuery{Session: session, Limit: 1}) {
			if err != nil {
				return err
			}
			thread = t.ID
		}
		return nil
	})
	moved, err := c.moves(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Thread: thread})
	if err != nil {
		c.Fatal(err)
	}
	for _, x := range moved.Plan.Conflicts {
		conflicts = append(conflicts, x.Path)
	}
	return conflicts
}

// TestAnotherThreadsCommand overwrites a file of this turn with a command of another thread that
// does not name the file. Undo of this turn keeps the file and lists it. A file with the content
// that this turn wrote is not in doubt.
func TestAnotherThreadsCommand(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "b": "0"})
	c.asks("p1", "one")
	c.sendEventOfOther("UserPromptSubmit", "prompt_id", "q1", "prompt", "two")
	c.writes("p1", "t1", "a", "by the tool")
	c.writes("p1", "t2", "b", "by the tool")
	c.waitForClock()
	c.runInOther("make", func() { c.write("a", "by make") })
	c.sendEventOfOther("Stop", "prompt_id", "q1")
	c.stops("p1")
	c.wantConflicts(c.undoOf(session), "a")
	c.wantFiles("a=by make b=0")
}

// TestAnotherThreadsTask does the same with a background command, which continues after its call.
func TestAnotherThreadsTask(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	c.sendEventOfOther("UserPromptSubmit", "prompt_id", "q1", "prompt", "two")
	call := []any{"prompt_id", "q1", "tool_name", "Bash", "tool_use_id", "u1", "tool_input", map[string]any{"command": "make watch", "run_in_background": true}}
	c.sendEventOfOther("PreToolUse", call...)
	c.sendEventOfOther("PostToolUse", slices.Concat(call, []any{"tool_response", map[string]any{"backgroundTaskId": "b7"}})...)
	c.agent(`"type":"user","promptId":"p1","permissionMode":"default","message":{"role":"user","content":"one"}`)
	c.sendEventOfOther("UserPromptSubmit", "session_id", session, "transcript_path", c.transcript(), "prompt_id", "p1", "prompt", "one")
	c.waitForClock()
	c.writes("p1", "t1", "a", "by the tool")
	c.waitForClock()
	c.write("a", "by make")
	c.sendEventOfOther("Stop", "prompt_id", "q1")
	c.stops("p1")
	c.wantConflicts(c.undoOf(session), "a")
	c.wantFiles("a=by make")
}

// TestAnotherThreadsDeletion checks that the deletion of a file of this turn by another thread,
// while a task of this turn runs, does not belong to this turn. After an undo of the deletion, the
// turn can be undone.
func TestAnotherThreadsDeletion(t *testing.T) {
	c := startSubagent(t)
	c.sendEventOfOther("UserPromptSubmit", "prompt_id", "q1", "prompt", "two")
	c.waitForClock()
	c.runInOther("rm a", func() { c.remove("a") })
	c.sendEventOfOther("Stop", "prompt_id", "q1")
	c.waitForClock()
	c.subagentStops("p1")
	c.wantConflicts(c.undoOf(otherSession))
	c.wantFiles("a=1 notes=0")
	c.wantConflicts(c.undoOf(session))
	c.wantFiles("a=0 notes=0")
}

// TestADeletionWhileATaskRuns attributes a deletion to the user if the task's tools wrote the files
// and cannot have deleted them.
func TestADeletionWhileATaskRuns(t *testing.T) {
	c := startSubagent(t)
	c.writes("p1", "s1", "notes", "by the subagent", "agent_id", "a9", "agent_type", "general-purpose")
	c.waitForClock()
	c.remove("notes")
	c.remove("a")
	c.waitForClock()
	c.subagentStops("p1")
	c.wantConflicts(c.undo(1), "a")
	c.wantFiles("")
	c.wantNoFailures()
}

// TestATaskOutlivesAnInterruption attributes the work of a task to the interrupted turn that
// started it.
func TestATaskOutlivesAnInterruption(t *testing.T) {
	c := interruptedBesideATask(t)
	c.asks("p2", "two")
	c.runSubagent("p2")
	c.stops("p2", subagent())
	c.wantRefused()
	c.subagentStops("p2")
	c.wantHistory("base, 1 one (interrupted), 2 two")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 sub=by the subagent")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0")
	c.wantNoFailures()
}

// TestUndoWhileATaskOutlivesAnInterruption checks that the undo is refused, although no event has
// reported the interruption yet.
func TestUndoWhileATaskOutlivesAnInterruption(t *testing.T) {
	c := interruptedBesideATask(t)
	c.wantRefused()
	c.runSubagent("p1")
	c.subagentStops("p1")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0")
	c.wantNoFailures()
}

// TestTheReportOfATaskThatOutlivedAnInterruption checks that the report resumes the turn that
// started the task.
func TestTheReportOfATaskThatOutlivedAnInterruption(t *testing.T) {
	c := interruptedBesideATask(t)
	c.runSubagent("p1")
	c.subagentStops("p1")
	c.agent(`"type":"user","promptId":"p2","permissionMode":"default","origin":{"kind":"task-notification"},"message":{"role":"user","content":"report"}`)
	c.sendEvent("UserPromptSubmit", "prompt_id", "p2", "prompt", report)
	c.runs("p2", "t3", "make", func() { c.write("made", "by the answer") })
	c.stops("p2")
	c.wantHistory("base, 1 one (interrupted)")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0")
	c.wantNoFailures()
}

// TestTwoTurnsWithTasks ends two turns in the order in which they began. The changes that the
// report of the first task adds to the first turn do not remove the second turn from the line.
func TestTwoTurnsWithTasks(t *testing.T) {
	c := startSubagent(t)
	c.asks("p2", "two")
	c.begins("p2", "t5", "Agent", map[string]any{"prompt": "do it", "description": "bg"})
	c.sendEvent("PostToolUse", "prompt_id", "p2", "tool_name", "Agent", "tool_use_id", "t5", "tool_response", map[string]any{"isAsync": true, "agentId": "a10"})
	second := map[string]string{"id": "a10", "type": "subagent", "status": "running"}
	c.stops("p2", subagent(), second)
	c.waitForClock()
	for n, task := range []string{"a9", "a10"} {
		key := []string{"p3", "p4"}[n]
		c.sendEvent("SubagentStop", "prompt_id", "p2", "agent_id", task, "agent_type", "general-purpose", "background_tasks", []any{})
		c.agent(`"type":"user","promptId":"` + key + `","permissionMode":"default","origin":{"kind":"task-notification"},"message":{"role":"user","content":"report"}`)
		c.sendEvent("UserPromptSubmit", "prompt_id", key, "prompt", strings.ReplaceAll(report, "a9", task))
		c.writes(key, "r"+key, "answer-"+task, task)
		if task == "a9" {
			c.stops(key, second)
		} else {
			c.stops(key)
		}
	}
	c.wantOpen()
	c.wantHistory("base, 1 one, 2 two")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=1 answer-a9=a9 notes=0")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 notes=0")
	c.wantNoFailures()
}

// TestTwoCommandsAtOnce lets a subagent's command and a command of the next turn run at the same time.
// Neither names the file that changes, so undo of the next turn keeps the file and lists it. A file
// that only the next turn's command names belongs to that turn.
func TestTwoCommandsAtOnce(t *testing.T) {
	c := startSubagent(t)
	c.asks("p2", "two")
	c.runs("p2", "t3", "make; echo 2 > notes", func() {
		call := []any{"prompt_id", "p2", "tool_name", "Bash", "tool_use_id", "s1", "agent_id", "a9", "agent_type", "general-purpose",
			"tool_input", map[string]any{"command": "make"}}
		c.sendEvent("PreToolUse", call...)
		c.write("made", "by either make")
		c.write("notes", "2")
		c.sendEvent("PostToolUse", slices.Concat(call, []any{"tool_response", "ok"})...)
	})
	c.stops("p2", subagent())
	c.subagentStops("p2")
	c.wantConflicts(c.undo(1), "made")
	c.wantFiles("a=1 made=by either make notes=0")
	c.wantNoFailures()
}

// interruptedBesideATask returns a scene after a turn that started a subagent in the background and
// was interrupted.
func interruptedBesideATask(t *testing.T) *scene {
	t.Helper()
	c := newScene(t, map[string]string{"a": "0"})
	c.asks("p1", "one")
	c.begins("p1", "t2", "Agent", map[string]any{"prompt": "do it", "description": "bg"})
	c.sendEvent("PostToolUse", "prompt_id", "p1", "tool_name", "Agent", "tool_use_id", "t2", "tool_response", map[string]any{"isAsync": true, "agentId": "a9"})
	c.waitForClock()
	c.interrupt("p1")
	c.waitForClock()
	return c
}

// TestATurnAfterAnInterruptionElsewhere checks that the turn overlaps no other: the transcript of
// the other turn records its interruption, although no event does.
func TestATurnAfterAnInterruptionElsewhere(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	c.asks("p1", "one")
	c.interrupt("p1")
	c.waitForClock()
	c.sendEventOfOther("UserPromptSubmit", "prompt_id", "q1", "prompt", "two")
	c.runInOther("make", func() { c.write("a", "2") })
	c.sendEventOfOther("Stop", "prompt_id", "q1")
	c.wantOpen()
	c.wantConflicts(c.undoOf(otherSession))
	c.wantFiles("a=0")
}
