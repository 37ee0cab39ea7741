package hook

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// edits makes a complete call of the tool that replaces text in a file.
func (c *scene) edits(key, id, name, old, text string) {
	c.Helper()
	input := map[string]any{"file_path": filepath.Join(c.project, name), "old_string": old, "new_string": text}
	c.begins(key, id, "Edit", input)
	data, err := os.ReadFile(filepath.Join(c.project, name))
	if err != nil {
		c.Fatal(err)
	}
	c.write(name, strings.Replace(string(data), old, text, 1))
	c.ends(key, id, "Edit", input)
}

// TestAUserWorksDuringATurn lets the user save a file, make one and delete one while the turn's tools work on other
// files. An undo keeps all three changes, and the turn's checkpoint does not list them.
func TestAUserWorksDuringATurn(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "b": "0", "mine": "0", "doomed": "0"})
	c.asks("p1", "one")
	c.waitForClock()
	c.write("mine", "1")
	c.waitForClock()
	c.writes("p1", "t1", "a", "1")
	c.waitForClock()
	c.write("new", "1")
	c.remove("doomed")
	c.waitForClock()
	c.edits("p1", "t2", "b", "0", "1")
	c.runs("p1", "t3", "cat mine", func() {})
	c.stops("p1")
	c.wantHistory("base, 1 one, external")
	if n := c.line()[1].Checkpoint.Files; n.Added != 0 || n.Deleted != 0 || n.Modified != 2 {
		t.Errorf("the turn changed %+v", n)
	}
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0 b=0 mine=1 new=1")
	c.wantNoFailures()
}

// TestAUserWorksWhileACommandRuns checks that a change during a command belongs to the turn, because no evidence shows
// which process made it. Changes before and after the command belong to the user.
func TestAUserWorksWhileACommandRuns(t *testing.T) {
	c := newScene(t, map[string]string{"before": "0", "during": "0", "after": "0"})
	c.asks("p1", "one")
	c.waitForClock()
	c.write("before", "1")
	c.waitForClock()
	c.runs("p1", "t1", "make", func() { c.write("made", "1"); c.write("during", "1") })
	c.waitForClock()
	c.write("after", "1")
	c.stops("p1")
	c.wantConflicts(c.undo(1))
	c.wantFiles("after=1 before=1 during=0")
	c.wantNoFailures()
}

// TestAUserWorksBesideAProcessThatACommandLeft checks that a change belongs to the turn while a
// process of a command may still run.
func TestAUserWorksBesideAProcessThatACommandLeft(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	c.asks("p1", "one")
	c.runs("p1", "t1", "(sleep 1; echo 1 > a) &", func() {})
	c.waitForClock()
	c.write("a", "1")
	c.stops("p1")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a=0")
	c.wantNoFailures()
}

// numbered returns a file of eight lines with some of them replaced.
func numbered(changed ...string) string {
	return strings.NewReplacer(changed...).Replace("one\n2\n3\n4\n5\n6\n7\neight\n")
}

// marks lets the user add a word to a line of a file.
func (c *scene) marks(name, line string) {
	c.Helper()
	data, err := os.ReadFile(filepath.Join(c.project, name))
	if err != nil {
		c.Fatal(err)
	}
	c.waitForClock()
	c.write(name, strings.Replace(string(data), line+"\n", line+" mine\n", 1))
	c.waitForClock()
}

// TestLinesOfATurnAndOfAUser lets the user and the turn change different lines of a file, in any order. Undo reverts
// the lines of the turn. If both changed the same line, or nothing tells the lines apart, the file is a conflict.
func TestLinesOfATurnAndOfAUser(t *testing.T) {
	user := func(line string) func(c *scene) { return func(c *scene) { c.marks("doc", line) } }
	edit := func(old, text string) func(c *scene) {
		return func(c *scene) {
			c.ids++
			c.edits("p1", fmt.Sprint("t", c.ids), "doc", old, text)
			c.waitForClock()
		}
	}
	writes := func(content string) func(c *scene) {
		return func(c *scene) {
			c.ids++
			c.writes("p1", fmt.Sprint("t", c.ids), "doc", content)
			c.waitForClock()
		}
	}
	runs := func(command string, act func(c *scene)) func(c *scene) {
		return func(c *scene) {
			c.waitForClock()
			c.ids++
			c.runs("p1", fmt.Sprint("t", c.ids), command, func() {
				if act != nil {
					act(c)
				}
			})
			c.waitForClock()
		}
	}
	reads := func(c *scene) {
		c.ids++
		input := map[string]any{"file_path": filepath.Join(c.project, "doc")}
		c.begins("p1", fmt.Sprint("t", c.ids), "Read", input)
		c.ends("p1", fmt.Sprint("t", c.ids), "Read", input)
	}
	replaces := func(old, text string) func(c *scene) {
		return func(c *scene) {
			data, err := os.ReadFile(filepath.Join(c.project, "doc"))
			if err != nil {
				c.Fatal(err)
			}
			c.write("doc", strings.Replace(string(data), old, text, 1))
		}
	}
	eight := edit("eight", "EIGHT")
	for name, tc := range map[string]struct {
		steps     []func(c *scene)
		left      string
		conflicts []string
	}{
		"the user, the tool":                    {steps: []func(*scene){user("one"), eight}, left: numbered("one", "one mine")},
		"the tool, the user":                    {steps: []func(*scene){eight, reads, user("one")}, left: numbered("one", "one mine")},
		"the user before and after":             {steps: []func(*scene){user("one"), eight, reads, user("4")}, left: numbered("one", "one mine", "4", "4 mine")},
		"the line of the tool":                  {steps: []func(*scene){eight, reads, user("EIGHT")}, left: numbered("eight", "EIGHT mine"), conflicts: []string{"doc"}},
		"a command, the user, the tool":         {steps: []func(*scene){runs("true", nil), user("one"), eight}, left: numbered("one", "one mine")},
		"a command, the tool, the user":         {steps: []func(*scene){runs("true", nil), eight, user("one")}, left: numbered("one", "one mine")},
		"a command that reads it, the user":     {steps: []func(*scene){runs("cat doc", nil), user("one"), eight}, left: numbered("one", "one mine")},
		"the user, a command that reads it":     {steps: []func(*scene){user("one"), runs("cat doc", nil), eight}, left: numbered("one", "one mine")},
		"the tool, a command, the user":         {steps: []func(*scene){eight, runs("true", nil), user("one")}, left: numbered("one", "one mine")},
		"the tool, the user, the tool":          {steps: []func(*scene){edit("2", "two"), user("4"), runs("make", nil), eight}, left: numbered("4", "4 mine")},
		"the tool twice, a command, the user":   {steps: []func(*scene){edit("2", "two"), runs("make", nil), user("4"), eight}, left: numbered("4", "4 mine")},
		"a line of the user, in the tool's":     {steps: []func(*scene){user("7"), edit("7 mine\neight", "7 mine\nEIGHT")}, left: numbered("7", "7 mine", "eight", "EIGHT"), conflicts: []string{"doc"}},
		"the same, after a command":             {steps: []func(*scene){runs("make", nil), user("7"), edit("7 mine\neight", "7 mine\nEIGHT")}, left: numbered("7", "7 mine", "eight", "EIGHT"), conflicts: []string{"doc"}},
		"a whole file over the user's":          {steps: []func(*scene){user("one"), writes(numbered("one", "one mine", "eight", "EIGHT"))}, left: numbered("one", "one mine", "eight", "EIGHT"), conflicts: []string{"doc"}},
		"a command that writes it, and a user":  {steps: []func(*scene){runs("make", replaces("2", "two")), edit("eight", "EIGHT"), reads, user("one"), edit("4", "four")}, left: numbered("2", "two", "eight", "EIGHT", "one", "one mine", "4", "four"), conflicts: []string{"doc"}},
		"a user, and a command that writes it":  {steps: []func(*scene){user("one"), eight, runs("make fmt", replaces("2", "two"))}, left: numbered("2", "two", "eight", "EIGHT", "one", "one mine"), conflicts: []string{"doc"}},
		"a command that writes it, and no user": {steps: []func(*scene){runs("make", replaces("2", "two")), eight}, left: numbered()},
		"edits, a command that writes it":       {steps: []func(*scene){edit("2", "two"), eight, runs("make fmt", replaces("4", "four"))}, left: numbered()},
		"a formatter, and an edit of its line":  {steps: []func(*scene){runs("make", nil), edit("2", "two"), replaces("two", "Two"), edit("Two", "three"), eight, replaces("EIGHT", "Eight")}, left: numbered()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newScene(t, map[string]string{"doc": numbered()})
			c.waitForClock()
			c.asks("p1", "one")
			c.waitForClock()
			for _, step := range tc.steps {
				step(c)
			}
			c.stops("p1")
			c.wantConflicts(c.undo(1), tc.conflicts...)
			c.wantFiles("doc=" + tc.left)
			c.wantNoFailures()
		})
	}
}

// TestAUserMakesAFileThatAToolEdits lets the user make a file during a turn, and the turn edit it. Nothing shows the
// user's lines, so undo leaves the file.
func TestAUserMakesAFileThatAToolEdits(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	c.asks("p1", "one")
	c.waitForClock()
	c.write("doc", numbered())
	c.waitForClock()
	c.edits("p1", "t1", "doc", "eight", "EIGHT")
	c.stops("p1")
	c.wantConflicts(c.undo(1), "doc")
	c.wantFiles("a=0 doc=" + numbered("eight", "EIGHT"))
	c.wantNoFailures()
}

// TestAPatchAfterAUser lets a patch of two files change a line of each. The user changed another line of one of them before, which
// an undo keeps.
func TestAPatchAfterAUser(t *testing.T) {
	c := newScene(t, map[string]string{"doc": numbered(), "other": "0"})
	c.waitForClock()
	c.asks("p1", "one")
	c.marks("doc", "one")
	input := map[string]any{"command": "*** Begin Patch\n*** Update File: doc\n@@\n-eight\n+EIGHT\n*** Update File: other\n@@\n-0\n+1\n*** End Patch"}
	c.begins("p1", "t1", "apply_patch", input)
	c.write("doc", numbered("one", "one mine", "eight", "EIGHT"))
	c.write("other", "1")
	c.ends("p1", "t1", "apply_patch", input)
	c.stops("p1")
	c.wantConflicts(c.undo(1))
	c.wantFiles("doc=" + numbered("one", "one mine") + " other=0")
	c.wantNoFailures()
}

// TestAUserSavesBelowADirectoryThatACommandNamed lets the user save files while the model thinks. The command before
// that named the directory of one file, and the path of another one.
func TestAUserSavesBelowADirectoryThatACommandNamed(t *testing.T) {
	c := newScene(t, map[string]string{"src/mine": "0", "src/named": "0", "src/old": "0"})
	c.asks("p1", "one")
	c.waitForClock()
	c.runs("p1", "t1", "ls src && cat src/named", func() {})
	c.waitForClock()
	c.write("src/mine", "1")
	c.write("src/named", "1")
	c.waitForClock()
	c.runs("p1", "t2", "rm -rf src/old", func() { c.remove("src/old") })
	c.stops("p1")
	c.wantConflicts(c.undo(1), "src/named")
	c.wantFiles("src/mine=1 src/named=1 src/old=0")
	c.wantNoFailures()
}

// TestAFormatterRunsAfterATool checks that the changes of a formatter belong to the turn. A hook of the user runs it on
// a file that a tool wrote, before the agent continues.
func TestAFormatterRunsAfterATool(t *testing.T) {
	c := newScene(t, map[string]string{"a.go": "package  a\n", "b.go": "package  b\n"})
	c.asks("p1", "one")
	c.writes("p1", "t1", "a.go", "package   a // new\n")
	c.waitForClock()
	c.write("a.go", "package a // new\n")
	c.waitForClock()
	c.edits("p1", "t2", "b.go", "package  b", "package   b // new")
	c.waitForClock()
	c.write("b.go", "package b // new\n")
	c.waitForClock()
	c.stops("p1")
	c.wantHistory("base, 1 one")
	c.wantConflicts(c.undo(1))
	c.wantFiles("a.go=package  a\n b.go=package  b\n")
	c.wantNoFailures()
}

// TestAToolNamesAFileByAnotherPath writes a file of the project through a symlink.
func TestAToolNamesAFileByAnotherPath(t *testing.T) {
	c := newScene(t, map[string]string{"real/a": "0"})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(c.project, "real"), link); err != nil {
		t.Fatal(err)
	}
	c.asks("p1", "one")
	input := map[string]any{"file_path": filepath.Join(link, "a"), "content": "1"}
	c.begins("p1", "t1", "Write", input)
	c.write("real/a", "1")
	c.ends("p1", "t1", "Write", input)
	c.stops("p1")
	c.wantHistory("base, 1 one")
	c.wantConflicts(c.undo(1))
	c.wantFiles("real/a=0")
	c.wantNoFailures()
}

// TestAnUndoLeavesTheWorkOfAnEarlierTask undoes a turn. During that turn, a task of an earlier, interrupted turn wrote
// a file that the user had deleted before.
func TestAnUndoLeavesTheWorkOfAnEarlierTask(t *testing.T) {
	c := newScene(t, map[string]string{"e": "0"})
	c.asks("p1", "one")
	c.waitForClock()
	c.remove("e")
	c.begins("p1", "t1", "Agent", map[string]any{"prompt": "do it"})
	c.sendEvent("PostToolUse", "prompt_id", "p1", "tool_name", "Agent", "tool_use_id", "t1", "tool_response", map[string]any{"isAsync": true, "agentId": "a9"})
	c.waitForClock()
	c.interrupt("p1")
	c.waitForClock()
	c.write("n", "mine") // the directory is newer than the interruption
	c.asks("p2", "two")
	c.writes("p2", "s1", "e", "by the task", "agent_id", "a9", "agent_type", "general-purpose")
	c.stops("p2")
	c.subagentStops("p2")
	c.wantConflicts(c.undo(1))
	c.wantFiles("e=by the task n=mine")
	c.wantNoFailures()
}

// TestAnotherThreadOverwritesACommandsChange lets a command delete a file. A later turn of another thread makes the
// file again. Undo of either turn lists the file, because the turn that ran the command may have deleted it.
func TestAnotherThreadOverwritesACommandsChange(t *testing.T) {
	for _, how := range []string{"stops", "is interrupted"} {
		t.Run("the turn "+how, func(t *testing.T) {
			c := newScene(t, map[string]string{"a": "0", "c": "0"})
			c.asks("p1", "one")
			c.runs("p1", "t1", "make clean", func() { c.remove("c") })
			c.waitForClock()
			c.sendEventOfOther("UserPromptSubmit", "prompt_id", "q1", "prompt", "two")
			if how == "is interrupted" {
				c.waitForClock() // the agent records whole milliseconds, and the turns overlap
				c.interrupt("p1")
			}
			c.waitForClock()
			c.otherWrites("c", "by the other")
			c.sendEventOfOther("Stop", "prompt_id", "q1")
			if how == "stops" {
				c.stops("p1")
			} else {
				c.sendEvent("SessionEnd", "reason", "other")
			}
			c.wantConflicts(c.undoOf(otherSession))
			c.wantFiles("a=0")
			c.wantConflicts(c.undoOf(session), "c")
			c.wantFiles("a=0")
			c.wantNoFailures()
		})
	}
}

// TestAReportBesideAnotherThread lets a turn that answers the report of its task write a file that a running turn of
// another thread wrote before. Undo of the running turn keeps the file and lists it.
func TestAReportBesideAnotherThread(t *testing.T) {
	c := startSubagent(t)
	other := func(event string, more ...any) { c.sendEventOfOther(event, append(more, "prompt_id", "q1")...) }
	other("UserPromptSubmit", "prompt", "two")
	c.otherWrites("notes", "by the other")
	c.waitForClock()
	c.subagentStops("p1")
	c.sendEvent("UserPromptSubmit", "prompt_id", "p2", "prompt", report)
	c.writes("p2", "t9", "notes", "by the answer")
	c.waitForClock()
	c.stops("p2")
	other("Stop")
	c.wantConflicts(c.undoOf(otherSession), "notes")
	c.wantFiles("a=1 notes=by the answer")
	c.wantNoFailures()
}

// TestAReportAfterAnotherTurn is like TestAReportBesideAnotherThread, for a turn whose checkpoint is below that of a
// newer turn of its session. The files of that checkpoint do not show the changes of the answer to the report.
func TestAReportAfterAnotherTurn(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "notes": "0"})
	other := func(event string, more ...any) { c.sendEventOfOther(event, append(more, "prompt_id", "q1")...) }
	c.asks("p1", "one")
	other("UserPromptSubmit", "prompt", "two")
	c.startsSubagent()
	c.asks("p2", "three")
	c.otherWrites("notes", "by the other")
	c.waitForClock()
	c.stops("p2", subagent())
	c.subagentStops("p2")
	c.sendEvent("UserPromptSubmit", "prompt_id", "p3", "prompt", report)
	c.writes("p3", "t9", "notes", "by the answer")
	c.waitForClock()
	c.stops("p3")
	other("Stop")
	c.wantConflicts(c.undoOf(otherSession), "notes")
	c.wantFiles("a=1 notes=by the answer")
	c.wantNoFailures()
}

// TestAUserMakesAFileExecutable lets the user change the mode of a file that the turn edits. An undo keeps the mode. If a
// command of the turn ran before, it may have changed the mode, and the file is a conflict.
func TestAUserMakesAFileExecutable(t *testing.T) {
	edit := func(c *scene) { c.edits("p1", "t1", "doc", "2\n", "two\n") }
	chmod := func(c *scene) {
		c.waitForClock()
		if err := os.Chmod(filepath.Join(c.project, "doc"), 0o755); err != nil {
			c.Fatal(err)
		}
		c.waitForClock()
	}
	userLine := func(c *scene) { c.marks("doc", "eight") }
	command := func(c *scene) { c.runs("p1", "t2", "make", func() {}) }
	for name, tc := range map[string]struct {
		acts     []func(c *scene)
		want     string
		mode     os.FileMode
		conflict bool
	}{
		"after the edit":                {acts: []func(c *scene){edit, chmod}, want: numbered(), mode: 0o755},
		"before the edit":               {acts: []func(c *scene){chmod, edit}, want: numbered(), mode: 0o755},
		"and changes a line":            {acts: []func(c *scene){edit, chmod, userLine}, want: numbered("eight", "eight mine"), mode: 0o755},
		"before a command":              {acts: []func(c *scene){edit, chmod, command}, want: numbered(), mode: 0o755},
		"after a command":               {acts: []func(c *scene){edit, command, chmod}, want: numbered("2", "two"), mode: 0o755, conflict: true},
		"no, a command of the turn did": {acts: []func(c *scene){edit, func(c *scene) { c.runs("p1", "t2", "chmod +x doc", func() { chmod(c) }) }}, want: numbered(), mode: 0o644},
	} {
		t.Run(name, func(t *testing.T) {
			c := newScene(t, map[string]string{"doc": numbered()})
			c.asks("p1", "one")
			c.waitForClock()
			for _, act := range tc.acts {
				act(c)
			}
			c.stops("p1")
			var want []string
			if tc.conflict {
				want = []string{"doc"}
			}
			c.wantConflicts(c.undo(1), want...)
			c.wantFiles("doc=" + tc.want)
			if fi, err := os.Stat(filepath.Join(c.project, "doc")); err != nil || fi.Mode().Perm() != tc.mode {
				t.Errorf("the mode is %v, %v", fi.Mode(), err)
			}
			c.wantNoFailures()
		})
	}
}
