package hook

import (
	"fmt"
	"testing"

	"github.com/dalsegno/segno"
)

// shells returns the recorded number of commands of each turn on the line.
func (c *scene) shells() (ran []int) {
	c.Helper()
	for _, n := range c.line() {
		if n.Checkpoint.Kind == segno.CheckpointTurn {
			ran = append(ran, n.Checkpoint.Shell)
		}
	}
	return ran
}

// TestACommandThatWasDeniedIsNotCounted runs commands for which Claude Code asked permission. Hooks
// and transcript are those of versions 2.1.197 and 2.1.330, which fire no event after a denied
// call.
func TestACommandThatWasDeniedIsNotCounted(t *testing.T) {
	c := newScene(t, nil)
	deny := func(key, id string) {
		c.begins(key, id, "Bash", map[string]any{"command": "make deploy"})
	}
	mark := func(key, more string) {
		c.agent(fmt.Sprintf(`"type":"user","promptId":%q,%s"message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user for tool use]"}]}`, key, more))
	}
	c.asks("p1", "one") // a rule or the user, with a reason, denies the command: the agent continues
	deny("p1", "t1")
	c.runs("p1", "t2", "make", func() {})
	c.stops("p1")

	c.asks("p2", "two") // the user says no, which ends the turn
	c.runs("p2", "t3", "make", func() {})
	deny("p2", "t4")
	mark("p2", "")

	c.asks("p3", "three") // the user ends the turn while the command runs
	deny("p3", "t5")
	mark("p3", `"interruptedMessageId":"msg",`)

	c.asks("p4", "four")
	c.stops("p4")
	if got := fmt.Sprint(c.shells()); got != "[1 1 1 0]" {
		t.Errorf("the turns ran %s commands, want [1 1 1 0]", got)
	}
	c.wantNoFailures()
}
