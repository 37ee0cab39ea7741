package hook_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/timeline"
)

// TestAnyLines lets a turn and a user change lines of the same files, in any order, with tools that edit lines and write
// whole files, commands that write, read or name files and directories, and formatters. Then it undoes the turn:
//
//   - A file in conflict is untouched.
//   - A line of the user stays, and a line of the turn has its content from before the turn.
//   - A file that the turn alone changed is never a conflict, and it is whole as before.
//   - A file in which the user and the edits of tools changed different lines is never a conflict.
//
// The exceptions are changes of which there is no evidence; see [lineWrite].
func TestAnyLines(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	soak.Rapid(t, 15, 3000)
	rapid.Check(t, func(rt *rapid.T) { runLines(rt, t.TempDir()) })
}

// lineFiles are the files of a test of lines, and lineCount is the number of lines that authors change in each. Between
// these lines are others, because changes of adjacent lines overlap.
func lineFiles() []string { return []string{"doc", "src/doc"} }

const lineCount = 5

// lineWrite is one change of a line.
type lineWrite struct {
	file string
	line int
	how  string // "edit", "write", "command", "formatter" or "user"
	// either is set if nothing shows that a write of the user is not the turn's, or that a write of a command is not the
	// user's: the user wrote while a command ran, a command wrote the file after the user, or the user after a command, and
	// no call of a tool that names the file lay between.
	either bool
	window bool // the user wrote after a tool that named the file, and before the turn's next call
	ran    bool // a command ran
}

// looks returns whose the write looks like, if nothing hides it: "user", "command" or "tool".
func (c *lineWrite) looks() string {
	switch {
	case c.ran:
		return "command"
	case c.how == "user":
		return "user"
	}
	return "tool"
}

// linesWorld is a world in which one turn and a user change lines.
type linesWorld struct {
	*world
	a      *simAgent
	start  map[string][]string
	writes []lineWrite
	gap    string // the file that the newest call wrote, until the next call
	ran    bool   // a command runs
}

func (w *linesWorld) name(file string) string { return filepath.Join(w.project, file) }

func (w *linesWorld) read(file string) []string {
	w.Helper()
	data, err := os.ReadFile(w.name(file))
	w.must(err)
	return strings.Split(strings.TrimSuffix(string(data), "\n-\n-\n"), "\n-\n-\n")
}

func (w *linesWorld) save(file string, lines []string) {
	w.Helper()
	text := strings.Join(lines, "\n-\n-\n") + "\n-\n-\n"
	if rapid.Bool().Draw(w.T, "renames") {
		w.must(os.WriteFile(w.name(file)+".new", []byte(text), 0o644))
		w.must(os.Rename(w.name(file)+".new", w.name(file)))
		return
	}
	w.must(os.WriteFile(w.name(file), []byte(text), 0o644))
}

// put changes a line and records the author.
func (w *linesWorld) put(file string, line int, how, text string) {
	w.Helper()
	lines := w.read(file)
	lines[line] = text
	w.save(file, lines)
	c := lineWrite{file: file, line: line, how: how, ran: w.ran, either: w.ran && how == "user", window: how == "user" && w.gap == file}
	// Only the newest change of a file has a time, until a tool that names the file begins.
	for i := len(w.writes) - 1; i >= 0 && c.looks() != "tool"; i-- {
		if last := &w.writes[i]; last.file == file {
			if last.looks() == "tool" {
				break
			}
			last.either = last.either || last.looks() != c.looks()
		}
	}
	w.writes = append(w.writes, c)
	w.Logf("%s writes line %d of %s", how, line, file)
}

func (w *linesWorld) drawFile() string { return rapid.SampledFrom(lineFiles()).Draw(w.T, "file") }
func (w *linesWorld) drawLine() int    { return rapid.IntRange(0, lineCount-1).Draw(w.T, "line") }

// call makes a call during which act works.
func (w *linesWorld) call(tool string, input map[string]any, act func()) {
	w.Helper()
	w.waitForClock()
	call := map[string]any{"prompt_id": w.a.front().id, "tool_name": tool, "tool_use_id": w.unique("toolu"), "tool_input": input}
	w.Logf("%s %v", tool, input["command"])
	w.a.hook("PreToolUse", call)
	w.gap = ""
	act()
	call["tool_response"] = "ok"
	w.waitForClock()
	w.a.hook("PostToolUse", call)
	w.waitForClock()
}

// tool lets a tool edit a line, or write the whole file. A formatter may run after it.
func (w *linesWorld) tool() {
	w.Helper()
	file, line, text := w.drawFile(), w.drawLine(), w.unique("tool")
	if rapid.IntRange(0, 4).Draw(w.T, "whole") == 0 {
		lines := w.read(file)
		lines[line] = text
		input := map[string]any{"file_path": w.name(file), "content": strings.Join(lines, "\n-\n-\n") + "\n-\n-\n"}
		w.call("Write", input, func() { w.put(file, line, "write", text) })
	} else {
		input := map[string]any{"file_path": w.name(file), "old_string": w.read(file)[line], "new_string": text}
		w.call("Edit", input, func() { w.put(file, line, "edit", text) })
	}
	if w.gap = file; rapid.IntRange(0, 3).Draw(w.T, "formats") == 0 {
		w.put(file, line, "formatter", text+"!")
		w.waitForClock()
	}
}

// command runs a command, which may write a line of a file. The user may write at the same time.
func (w *linesWorld) command() {
	w.Helper()
	text := rapid.SampledFrom([]string{"true", "ls src", "cat doc", "go test ./src", "make", "make", "sed -i s/a/b/ doc"}).Draw(w.T, "command")
	w.call("Bash", map[string]any{"command": text}, func() {
		w.ran = true
		if text == "make" || strings.HasPrefix(text, "sed") {
			file := w.drawFile()
			if text != "make" {
				file = "doc"
			}
			w.put(file, w.drawLine(), "command", w.unique("command"))
		}
		if rapid.IntRange(0, 4).Draw(w.T, "the user, too") == 0 {
			w.user()
		}
		w.waitForClock()
		w.ran = false
	})
}

func (w *linesWorld) user() {
	w.Helper()
	w.waitForClock()
	w.put(w.drawFile(), w.drawLine(), "user", w.unique("user"))
	w.waitForClock()
}

// runLines drives one turn, undoes it, and checks the files.
func runLines(rt *rapid.T, dir string) {
	w := &linesWorld{world: newWorld(rt, dir), start: map[string][]string{}}
	w.a = w.agents[0]
	defer w.a.stopped()
	for _, file := range lineFiles() {
		for n := range lineCount {
			w.start[file] = append(w.start[file], fmt.Sprintf("%s %d", file, n))
		}
		w.save(file, w.start[file])
	}
	w.waitForClock()
	w.a.prompt()
	w.waitForClock()
	for range rapid.IntRange(1, 8).Draw(rt, "steps") {
		switch rapid.IntRange(0, 5).Draw(rt, "what") {
		case 0, 1:
			w.user()
		case 2:
			w.command()
		case 3:
			w.call("Read", map[string]any{"file_path": w.name("doc")}, func() {})
		default:
			w.tool()
		}
	}
	w.a.stop()
	left := map[string][]string{}
	for _, file := range lineFiles() {
		left[file] = w.read(file)
	}
	var moved *timeline.MoveResult
	w.must(w.at(func(ctx context.Context, _ *local.Store, site *timeline.Timeline) (err error) {
		moved, err = site.Move(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}, nil)
		return err
	}))
	w.Logf("undo: conflicts %v", moved.Plan.Conflicts)
	for _, file := range lineFiles() {
		listed := slices.ContainsFunc(moved.Plan.Conflicts, func(c segno.Conflict) bool { return c.Path == file })
		w.check(file, left[file], w.read(file), listed)
	}
}

// check compares the lines of a file before and after the undo with their authors.
func (w *linesWorld) check(file string, before, after []string, listed bool) {
	w.Helper()
	last := make([]*lineWrite, lineCount)
	ways := map[string]bool{}
	both, claimed := false, false // a line of both authors; a window that hides the user
	for i := range w.writes {
		c := &w.writes[i]
		if c.file != file {
			continue
		}
		if was := last[c.line]; was != nil && (was.how == "user") != (c.how == "user") {
			both = true
		}
		last[c.line] = c
		ways[c.how] = true
		ways["command"] = ways["command"] || c.ran
		claimed = claimed || c.window
	}
	if listed {
		if !slices.Equal(before, after) {
			w.Fatalf("%s is a conflict and was written: %q, then %q", file, before, after)
		}
		if !ways["user"] {
			w.Fatalf("%s is a conflict, and the user did not write it", file)
		}
		if !both && !ways["write"] && !ways["command"] && !ways["formatter"] && ways["edit"] {
			w.Fatalf("%s is a conflict, though the user and the tools changed different lines", file)
		}
		return
	}
	// Between a tool and the next call, the user cannot be distinguished from a formatter, if the formatter changed the line of a tool, if a
	// tool wrote the whole file later, or if the inputs of the tools do not fit because a command wrote the file, too.
	claimed = claimed && (ways["formatter"] || ways["write"] || ways["command"] || both)
	for n, c := range last {
		switch {
		case c == nil && after[n] != w.start[file][n]:
			w.Fatalf("no one wrote line %d of %s: %q, then %q", n, file, before[n], after[n])
		case c == nil, c.either, claimed:
		case c.how == "user" && after[n] != before[n]:
			w.Fatalf("the user wrote line %d of %s: %q, then %q", n, file, before[n], after[n])
		case c.how != "user" && after[n] != w.start[file][n]:
			w.Fatalf("the turn wrote line %d of %s (%s), and it stays: %q, then %q", n, file, c.how, before[n], after[n])
		}
	}
}
