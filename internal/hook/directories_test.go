package hook

import (
	"os"
	"path/filepath"
	"testing"
)

// rename does what the mv command does. from and to may be outside the project.
func (c *scene) rename(from, to string) {
	c.Helper()
	abs := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(c.project, name)
	}
	if err := os.MkdirAll(filepath.Dir(abs(to)), 0o755); err != nil {
		c.Fatal(err)
	}
	if err := os.Rename(abs(from), abs(to)); err != nil {
		c.Fatal(err)
	}
}

// nextTurn runs a turn after an interruption, so that the changes of the interrupted turn are
// committed.
func (c *scene) nextTurn() {
	c.Helper()
	c.asks("p2", "two")
	c.stops("p2")
}

// interruptedTurn runs a turn that writes one file and is interrupted.
func (c *scene) interruptedTurn() {
	c.Helper()
	c.waitForClock()
	c.asks("p1", "one")
	c.writes("p1", "t1", "new", "1")
	c.waitForClock()
	c.interrupt("p1")
	c.waitForClock()
}

// outside makes the directory "mine" outside the project, with the file deep/f.
func outside(t *testing.T) string {
	t.Helper()
	mine := filepath.Join(t.TempDir(), "mine")
	if err := os.MkdirAll(filepath.Join(mine, "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(mine, "deep", "f"), []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	return mine
}

// TestUserRenamesADirectoryAfterAnInterruption checks that undo keeps a directory that the user
// moved after the turn. A rename does not change the times of the directory's entries.
func TestUserRenamesADirectoryAfterAnInterruption(t *testing.T) {
	t.Run("in the project", func(t *testing.T) {
		c := newScene(t, map[string]string{"src/a": "0", "src/deep/b": "0"})
		c.interruptedTurn()
		c.rename("src", "lib")
		c.nextTurn()
		c.wantConflicts(c.undo(2))
		c.wantFiles("lib/a=0 lib/deep/b=0")
		c.wantNoFailures()
	})
	t.Run("into the project", func(t *testing.T) {
		c := newScene(t, map[string]string{"a": "0"})
		mine := outside(t)
		c.interruptedTurn()
		c.rename(mine, "mine")
		c.nextTurn()
		c.wantConflicts(c.undo(2))
		c.wantFiles("a=0 mine/deep/f=precious")
		c.wantNoFailures()
	})
	t.Run("over one of the project", func(t *testing.T) {
		c := newScene(t, map[string]string{"src/deep/a": "0"})
		mine := outside(t)
		c.interruptedTurn()
		c.rename("src", filepath.Join(t.TempDir(), "old"))
		c.rename(mine, "src")
		c.nextTurn()
		c.wantConflicts(c.undo(2))
		c.wantFiles("src/deep/f=precious")
		c.wantNoFailures()
	})
	t.Run("with files that the turn wrote", func(t *testing.T) {
		c := newScene(t, map[string]string{"d/a": "0", "d/c": "0"})
		c.waitForClock()
		c.asks("p1", "one")
		c.writes("p1", "t1", "d/b", "1")
		c.writes("p1", "t2", "d/c", "1")
		c.waitForClock()
		c.interrupt("p1")
		c.waitForClock()
		c.rename("d", "e/d")
		c.write("e/n", "mine")
		c.nextTurn()
		c.wantConflicts(c.undo(2), "e/d/b", "e/d/c")
		c.wantFiles("e/d/a=0 e/d/b=1 e/d/c=1 e/n=mine")
		c.wantNoFailures()
	})
	t.Run("after a command of the turn", func(t *testing.T) {
		c := newScene(t, map[string]string{"src/a": "0"})
		c.waitForClock()
		c.asks("p1", "one")
		c.runs("p1", "t1", "make", func() { c.write("out/x", "1") })
		c.waitForClock()
		c.interrupt("p1")
		c.waitForClock()
		c.rename("src", "lib")
		c.rename("out", "dist")
		c.nextTurn()
		// The time of a directory shows only that some name in it was removed.
		c.wantConflicts(c.undo(2), "dist/x", "src/a")
		c.wantFiles("dist/x=1 lib/a=0")
		c.wantNoFailures()
	})
}

// TestTurnRenamesADirectory checks that undo reverts a rename by the turn, although the entries of
// the directory are older than the turn.
func TestTurnRenamesADirectory(t *testing.T) {
	c := newScene(t, map[string]string{"src/a": "0", "src/deep/b": "0"})
	c.waitForClock()
	c.asks("p1", "one")
	c.runs("p1", "t1", "mv src lib", func() { c.rename("src", "lib") })
	c.waitForClock()
	c.interrupt("p1")
	c.waitForClock()
	c.write("mine", "1")
	c.wantConflicts(c.undo(1))
	c.wantFiles("mine=1 src/a=0 src/deep/b=0")
	c.wantNoFailures()
}

// TestUserAddsToADirectoryOfTheTurn checks that undo reverts the files that a command of the turn
// created in a new directory, and keeps the files that the user added to it.
func TestUserAddsToADirectoryOfTheTurn(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	c.waitForClock()
	c.asks("p1", "one")
	c.runs("p1", "t1", "make", func() { c.write("out/x", "1"); c.write("out/deep/y", "1") })
	c.waitForClock()
	c.interrupt("p1")
	c.waitForClock()
	c.write("out/mine", "mine")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 out/mine=mine")
	c.wantNoFailures()
}

// TestUserChangesTheModeOfADirectory checks that undo reverts the files of the turn below a
// directory and keeps the mode of the directory, which the user changed.
func TestUserChangesTheModeOfADirectory(t *testing.T) {
	c := newScene(t, map[string]string{"src/a": "0", "src/b": "0"})
	c.waitForClock()
	c.asks("p1", "one")
	c.writes("p1", "t1", "src/new", "1")
	c.writes("p1", "t2", "src/a", "1")
	c.waitForClock()
	c.interrupt("p1")
	c.waitForClock()
	src := filepath.Join(c.project, "src")
	if err := os.Chmod(src, 0o700); err != nil {
		t.Fatal(err)
	}
	c.nextTurn()
	c.wantConflicts(c.undo(2))
	c.wantFiles("src/a=0 src/b=0")
	if fi, err := os.Stat(src); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("the directory is %v, %v, want mode 0700", fi.Mode(), err)
	}
	c.wantNoFailures()
}

// TestUserRenamesADirectoryBesideACommand renames a directory while a background command names the
// new path. Undo keeps the entries of the directory and lists them.
func TestUserRenamesADirectoryBesideACommand(t *testing.T) {
	c := newScene(t, map[string]string{"src/x": "0"})
	c.waitForClock()
	c.asks("p1", "one")
	c.begins("p1", "t1", "Bash", map[string]any{"command": "watch lib/x", "run_in_background": true})
	c.sendEvent("PostToolUse", "prompt_id", "p1", "tool_name", "Bash", "tool_use_id", "t1", "tool_response", map[string]any{"backgroundTaskId": "b1"})
	c.stops("p1", map[string]string{"id": "b1", "type": "shell", "status": "running", "description": "watch"})
	c.waitForClock()
	c.rename("src", "lib")
	c.nextTurn()
	c.sendEvent("SessionEnd", "reason", "other")
	c.wantConflicts(c.undo(2), "lib/x", "src/x")
	c.wantFiles("lib/x=0")
	c.wantNoFailures()
}
