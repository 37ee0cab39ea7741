package proxy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// writer is a session whose turn changes one line of the file shared in the project.
type writer struct {
	*rig
	client  *acptest.Client
	session string
	name    string
	line    int
	turn    *acptest.Turn
}

func (w *writer) flag(of string) string { return filepath.Join(w.home, of+"-"+w.name) }

// begins sends a prompt. The agent announces a call of a tool, which is an edit of a named
// file or a command without a file's name. The agent then waits until the test executes the
// call.
func (w *writer) begins(tool string) {
	w.Helper()
	call := map[string]any{"sessionUpdate": "tool_call", "toolCallId": "call-" + w.name, "title": "make", "kind": "execute", "status": "in_progress",
		"rawInput": map[string]string{"command": "make"}}
	if tool == "edit" {
		path := filepath.Join(w.project, "shared")
		call["title"], call["kind"] = "Edit shared", "edit"
		call["rawInput"], call["locations"] = map[string]string{"path": path}, []any{map[string]string{"path": path}}
	}
	raw := func(update map[string]any) acptest.Step {
		data, err := json.Marshal(update)
		if err != nil {
			w.Fatal(err)
		}
		return acptest.Step{Raw: data}
	}
	w.turn = w.prompt(w.client, w.session, w.name+" "+acptest.Directive(acptest.Say("begun-"+w.name), acptest.Step{Wait: w.flag("call")},
		raw(call), acptest.Say("calls-"+w.name), acptest.Step{Wait: w.flag("written")},
		raw(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": "call-" + w.name, "status": "completed"}), acptest.Say("wrote-"+w.name),
		acptest.Step{Wait: w.flag("end")}, acptest.Say("done-"+w.name)))
	w.says(w.turn, "begun-"+w.name)
}

// writes makes the announced change.
func (w *writer) writes() {
	w.Helper()
	w.touch(w.flag("call"))
	w.says(w.turn, "calls-"+w.name)
	lines := w.lines()
	lines[w.line] = "by " + w.name
	w.put("shared", strings.Join(lines, "\n"))
	w.touch(w.flag("written"))
	w.says(w.turn, "wrote-"+w.name)
}

func (w *writer) stops() {
	w.Helper()
	w.touch(w.flag("end"))
	w.ends(w.turn, "end_turn")
}

// undoes undoes the turn and returns the conflicts that the client receives.
func (w *writer) undoes() (paths []string) {
	w.Helper()
	m, err := w.client.Call(w.ctx, "_segno/undo", map[string]any{"sessionId": w.session})
	if err != nil {
		w.Fatalf("undo: %v", err)
	}
	var result struct{ Conflicts []struct{ Path string } }
	if err := m.Decode(m.Result, &result); err != nil {
		w.Fatal(err)
	}
	for _, c := range result.Conflicts {
		paths = append(paths, c.Path)
	}
	return paths
}

// lines returns the lines of the file shared.
func (r *rig) lines() []string {
	r.Helper()
	data, err := os.ReadFile(filepath.Join(r.project, "shared"))
	if err != nil {
		r.Fatal(err)
	}
	return strings.Split(string(data), "\n")
}

// TestUndoWithOverlappingSession runs two sessions in one directory, whose clients share a
// segno or have one each. Their turns overlap and change the same file: the same line or
// different ones, the second by an edit, the first by an edit or a command that does not
// name the file. The undo of either turn keeps the other's text, or leaves the file
// unchanged and lists it as a conflict.
func TestUndoWithOverlappingSession(t *testing.T) {
	t.Parallel()
	var cases []string
	for _, tool := range []string{"edit", "command"} {
		for _, line := range []string{"same line", "different lines"} {
			for _, order := range []string{"first ends first", "second ends first"} {
				for _, undo := range []string{"first undoes", "second undoes"} {
					cases = append(cases, fmt.Sprintf("%s, %s, %s, %s", tool, line, order, undo))
				}
			}
		}
	}
	for i, name := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, acptest.Full)
			r.put("shared", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9")
			c := r.client()
			first := &writer{rig: r, client: c, session: r.open(c, "new", ""), name: "first", line: 2}
			if i%3 == 0 {
				c = r.client()
			}
			second := &writer{rig: r, client: c, session: r.open(c, "new", ""), name: "second", line: 2}
			if strings.Contains(name, "different") {
				second.line = 7
			}
			tool, _, _ := strings.Cut(name, ",")
			first.begins(tool)
			second.begins("edit")
			first.writes()
			second.writes()
			ends := []*writer{first, second}
			if strings.Contains(name, "second ends first") {
				slices.Reverse(ends)
			}
			ends[0].stops()
			ends[1].stops()
			undone, other := first, second
			if strings.Contains(name, "second undoes") {
				undone, other = second, first
			}
			before := r.lines()
			conflicts := undone.undoes()
			after := r.lines()
			if slices.Contains(conflicts, "shared") {
				if !slices.Equal(before, after) {
					t.Errorf("a conflict, and the file was changed to %q", after)
				}
				return
			}
			if after[other.line] != "by "+other.name {
				t.Errorf("no conflict is listed, and the file is %q, was %q", after, before)
			}
		})
	}
}
