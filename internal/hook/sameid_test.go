package hook

import "testing"

// TestAMessageUnderTheIDOfABackgroundTurn begins a turn under the id of a turn that has left a subagent in the background. The calls
// under that id belong to the new turn, and those of the subagent to the turn before.
func TestAMessageUnderTheIDOfABackgroundTurn(t *testing.T) {
	c := startSubagent(t)
	c.asks("p1", "two")
	c.writes("p1", "t3", "notes", "2")
	c.runSubagent("p1")
	c.stops("p1", subagent())
	c.wantOpen("p1")
	c.wantHistory("base, 1 one, 2 two")
	c.subagentStops("p1")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=1 notes=0 sub=by the subagent")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 notes=0")
	c.wantNoFailures()
}

// TestAMessageDuringATurnUnderAnEarlierID types a message while a turn runs that began under the id of an ended turn. The message
// is a part of the running turn.
func TestAMessageDuringATurnUnderAnEarlierID(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "b": "0"})
	c.asks("p1", "one")
	c.writes("p1", "t1", "a", "1")
	c.stops("p1")
	c.waitForClock()
	c.asks("p1", "two")
	c.writes("p1", "t2", "b", "2")
	c.sendEvent("UserPromptSubmit", "prompt_id", "p1", "prompt", "and quickly")
	c.writes("p1", "t3", "b", "3")
	c.stops("p1")
	c.wantOpen()
	c.wantHistory("base, 1 one, 2 two")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=1 b=0")
	c.wantNoFailures()
}

// TestAMessageDuringATurnFromTheQueue types a message while a turn runs that began with a queued message, without an event.
func TestAMessageDuringATurnFromTheQueue(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "b": "0"})
	c.asks("p1", "one")
	c.writes("p1", "t1", "a", "1")
	c.sendEvent("UserPromptSubmit", "prompt_id", "p1", "prompt", "and then")
	c.agent(`"type":"queue-operation","operation":"enqueue","content":"and then"`)
	c.stops("p1")
	c.agent(`"type":"queue-operation","operation":"dequeue"`)
	c.agent(`"type":"user","promptId":"p2","permissionMode":"default","promptSource":"queued","message":{"role":"user","content":"and then"}`)
	c.writes("p2", "t2", "b", "2")
	c.sendEvent("UserPromptSubmit", "prompt_id", "p2", "prompt", "and quickly")
	c.writes("p2", "t3", "b", "3")
	c.stops("p2")
	c.wantOpen()
	c.wantHistory("base, 1 one, 2 and then")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=1 b=0")
	c.wantNoFailures()
}

// TestATurnAfterAQueuedOneInTheBackground ends the turn after one that began under an earlier id and has left a subagent in the
// background.
func TestATurnAfterAQueuedOneInTheBackground(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "notes": "0"})
	c.asks("p1", "zero")
	c.stops("p1")
	c.asks("p1", "one")
	c.startsSubagent()
	c.runSubagent("p1")
	c.asks("p2", "two")
	c.writes("p2", "t3", "notes", "2")
	c.stops("p2", subagent())
	c.subagentStops("p2")
	c.wantHistory("base, 1 zero, 2 one, 3 two")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=1 notes=0 sub=by the subagent")
	c.wantNoFailures()
}

// TestAReportDuringATurnFromTheQueue reports the end of a subagent of an earlier turn, while a turn runs that began with a queued
// message. The agent continues that turn.
func TestAReportDuringATurnFromTheQueue(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "notes": "0"})
	c.asks("p1", "one")
	c.sendEvent("UserPromptSubmit", "prompt_id", "p1", "prompt", "and then")
	c.agent(`"type":"queue-operation","operation":"enqueue","content":"and then"`)
	c.startsSubagent()
	c.agent(`"type":"queue-operation","operation":"dequeue"`)
	c.agent(`"type":"user","promptId":"p2","permissionMode":"default","promptSource":"queued","message":{"role":"user","content":"and then"}`)
	c.writes("p2", "t3", "notes", "2")
	c.runSubagent("p2")
	c.subagentStops("p2")
	c.sendEvent("UserPromptSubmit", "prompt_id", "p2", "prompt", report)
	c.writes("p2", "t4", "notes", "3")
	c.stops("p2")
	c.wantOpen("p1") // open until an event shows that no report of it will come
	c.wantHistory("base, 1 one, 2 and then")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=1 notes=0 sub=by the subagent")
	c.wantNoFailures()
}
