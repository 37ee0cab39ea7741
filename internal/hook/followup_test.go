package hook

import (
	"slices"
	"testing"
)

// TestAPromptWhileATurnRuns adds a prompt to a running turn. The turn keeps its own prompt and the
// state that it began from, and undo restores a file that it deleted before the second prompt.
func TestAPromptWhileATurnRuns(t *testing.T) {
	for name, more := range map[string]string{
		"a queued message": "and be quick",
		"a task's report":  "<task-notification>\n<task-id>a9</task-id>\n<status>completed</status>\n<summary>Agent \"bg\" finished</summary>\n</task-notification>",
	} {
		t.Run(name, func(t *testing.T) {
			c := newScene(t, map[string]string{"keep": "0", "doomed": "precious"})
			c.asks("p1", "the real prompt")
			c.runs("p1", "t1", "rm doomed", func() { c.remove("doomed") })
			for range 2 { // two sets of settings run the hook twice
				c.sendEvent("UserPromptSubmit", "prompt_id", "p1", "prompt", more)
			}
			c.wantOpen("p1")
			c.writes("p1", "t2", "made", "1")
			c.stops("p1")
			c.wantOpen()
			c.wantHistory("base, 1 the real prompt")
			want := []string{"the real prompt", more}
			if more[0] == '<' {
				want[1] = `Agent "bg" finished`
			}
			if got := c.userTexts(); !slices.Equal(got, want) {
				t.Errorf("the texts of the turn are %q, want %q", got, want)
			}
			c.wantConflicts(c.undo(1))
			c.wantFiles("doomed=precious keep=0")
			c.wantNoFailures()
		})
	}
}

// TestAPromptAfterASilentInterruption checks that the prompt begins a turn, because its id differs
// from that of the open turn.
func TestAPromptAfterASilentInterruption(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	c.asks("p1", "one")
	c.asks("p2", "two")
	c.writes("p2", "t1", "a", "2")
	c.stops("p2")
	c.wantHistory("base, 1 one (interrupted), 2 two")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0")
	c.wantNoFailures()
}
