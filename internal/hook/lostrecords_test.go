package hook

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tearLastLine cuts the newest line of the open turn's file in half, as a full disk does.
func (c *scene) tearLastLine() {
	c.Helper()
	names, err := filepath.Glob(filepath.Join(c.place.Store, "turns", "*.jsonl"))
	if err != nil || len(names) != 1 {
		c.Fatal(names, err)
	}
	data, err := os.ReadFile(names[0])
	if err != nil {
		c.Fatal(err)
	}
	data = bytes.TrimSpace(data)
	last := bytes.LastIndexByte(data, '\n') + 1
	if err := os.WriteFile(names[0], data[:(last+len(data))/2], 0o600); err != nil {
		c.Fatal(err)
	}
}

// TestARecordOfACallIsLost loses a record of a command that changed a file: the disk was full, or the hook was killed. The
// calls of the turn are then not all known, so its undo reverts every change while it ran, and the turn says so.
func TestARecordOfACallIsLost(t *testing.T) {
	make := map[string]any{"command": "make"}
	for lost, act := range map[string]func(c *scene, changeFile func()){
		"the beginning is torn": func(c *scene, changeFile func()) {
			c.begins("p1", "t2", "Bash", make)
			c.tearLastLine()
			changeFile()
			c.ends("p1", "t2", "Bash", make)
		},
		"the beginning is missing": func(c *scene, changeFile func()) {
			changeFile()
			c.ends("p1", "t2", "Bash", make)
		},
		"the end is torn": func(c *scene, changeFile func()) {
			c.begins("p1", "t2", "Bash", make)
			changeFile()
			c.ends("p1", "t2", "Bash", make)
			c.tearLastLine()
		},
	} {
		t.Run(lost, func(t *testing.T) {
			c := newScene(t, map[string]string{"a": "0"})
			c.asks("p1", "one")
			c.runs("p1", "t1", "true", func() {})
			c.waitForClock()
			act(c, func() { c.write("a", "1") })
			c.waitForClock()
			c.stops("p1")
			c.wantHistory("base, 1 one")
			isNote := func(text string) bool {
				return strings.HasPrefix(text, "the records of some tool calls of this turn were lost")
			}
			if texts := c.userTexts(); !slices.ContainsFunc(texts, isNote) {
				t.Errorf("the texts of the turn are %q", texts)
			}
			c.wantConflicts(c.undo(1))
			c.wantFiles("a=0")
			c.wantNoFailures()
		})
	}
}

// TestARecordOfAKilledAgentsCallIsLost loses the only record of a command that changed a file before the agent was killed.
// Nothing shows when the turn ended, so the file is a conflict of its undo.
func TestARecordOfAKilledAgentsCallIsLost(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	c.asks("p1", "one")
	c.runs("p1", "t1", "true", func() {})
	c.waitForClock()
	c.begins("p1", "t2", "Bash", map[string]any{"command": "make"})
	c.tearLastLine()
	c.waitForClock()
	c.write("a", "1")
	c.killAgent()
	c.wantConflicts(c.undo(1), "a")
	c.wantFiles("a=1")
	c.wantNoFailures()
}
