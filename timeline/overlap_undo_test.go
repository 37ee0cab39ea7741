package timeline_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// ways are the ways in which a turn changes a file: by a tool that edits the file that it
// names, by a command that names the file, and by a command that does not.
var ways = []string{"edit", "command", "hidden"}

// overlap is two turns of two threads in one directory. Each of them changes the file a.
type overlap struct {
	*edited
	now  time.Time
	ways [2]string
	same bool // both turns change the same line
	only bool // the undo is of the turn alone
}

func (o *overlap) recorder() *timeline.Timeline { return o.site }

func (o *overlap) source(i int) segno.Source {
	return segno.Source{Session: segno.SessionID(fmt.Sprint("session ", i))}
}

func (o *overlap) key(i int) segno.TurnKey { return segno.TurnKey(fmt.Sprint("turn ", i)) }

// line returns the line of a that turn i changes.
func (o *overlap) line(i int) int {
	if o.same {
		return 5
	}
	return 2 + 7*i
}

// act executes one step of turn i: "begin", "write" or "end".
func (o *overlap) act(i int, step string) {
	switch step {
	case "begin":
		_, err := o.recorder().BeginTurn(o.Context(), timeline.Prompt{Key: o.key(i), Agent: "test", Source: o.source(i), Text: "turn"})
		o.must(err)
	case "write":
		o.tool(i, func() {
			lines := o.files()["a"]
			lines[o.line(i)] = fmt.Sprint("by-", i)
			o.write("a", lines)
		})
	case "end":
		_, err := o.recorder().EndTurn(o.Context(), timeline.TurnEnd{Key: o.key(i), Agent: "test", Source: o.source(i)})
		o.must(err)
	}
}

// tool makes the call with which turn i writes.
func (o *overlap) tool(i int, write func()) {
	name, input := "execute", map[string]string{"command": "make"}
	switch o.ways[i] {
	case "edit":
		name, input = "edit", map[string]string{"path": filepath.Join(o.root, "a")}
	case "command":
		input["command"] = "sed -i s/x/y/ a"
	}
	body, err := json.Marshal(map[string]any{"kind": name, "input": input})
	o.must(err)
	e := segno.Entry{Kind: segno.EntryIntent, Time: o.site.Now(), ID: "call", Name: name, Body: body}
	o.must(o.recorder().AppendEntry(o.Context(), o.key(i), e))
	write()
	e.Kind, e.Time, e.Body = segno.EntryResult, o.site.Now(), json.RawMessage(`{"status":"completed"}`)
	o.must(o.recorder().AppendEntry(o.Context(), o.key(i), e))
}

// interleavings returns the possible orders of the steps of two overlapping turns. Each digit
// is the number of the turn that makes the step.
func interleavings(left [2]int, so string) (all []string) {
	if left == [2]int{} {
		if so == "000111" || so == "111000" {
			return nil // they do not overlap
		}
		return []string{so}
	}
	for i := range left {
		if left[i] > 0 {
			next := left
			next[i]--
			all = append(all, interleavings(next, so+fmt.Sprint(i))...)
		}
	}
	return all
}

// TestUndoBesideAnotherThreadsTurn undoes one of two turns that overlapped and changed the same
// file, in every order of their steps and with each way to change it. Unless the file is listed
// as a conflict and unchanged, the undo must keep the other turn's changes.
func TestUndoBesideAnotherThreadsTurn(t *testing.T) {
	base, n, conflicts := t.TempDir(), 0, 0
	for _, order := range interleavings([2]int{3, 3}, "") {
		for w := range len(ways) * len(ways) {
			for _, same := range []bool{false, true} {
				for undone := range 2 {
					n++
					if testing.Short() && n%29 != 0 {
						continue
					}
					o := &overlap{edited: newEdited(t, nil, filepath.Join(base, fmt.Sprint(n))), same: same, only: n%3 == 0,
						ways: [2]string{ways[w/len(ways)], ways[w%len(ways)]}}
					o.now = time.Now().Add(time.Hour) // never the clock of the files, also on a slow machine
					o.site.Now = func() time.Time { o.now = o.now.Add(time.Second); return o.now }
					if o.undoKeepsTheOther(order, undone) {
						conflicts++
					}
					if err := os.RemoveAll(filepath.Join(base, fmt.Sprint(n))); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	t.Logf("%d of %d are conflicts", conflicts, n)
}

// undoKeepsTheOther makes the steps, undoes a turn and checks the result. It reports whether
// the file was a conflict.
func (o *overlap) undoKeepsTheOther(order string, undone int) bool {
	steps, at := []string{"begin", "write", "end"}, [2]int{}
	for _, c := range order {
		i := int(c - '0')
		o.act(i, steps[at[i]])
		at[i]++
	}
	before := o.files()["a"]
	var thread segno.ThreadID
	for t, err := range o.site.Store.Threads(o.Context(), segno.ThreadQuery{Session: o.source(undone).Session}) {
		o.must(err)
		thread = t.ID
	}
	ask := timeline.MoveRequest{Verb: segno.VerbUndo, Thread: thread, Turns: 1}
	if o.only {
		ask.Turns, ask.Only = 0, []int{1}
	}
	plan := &timeline.Plan{}
	if moved, err := o.site.Move(o.Context(), ask, nil); err == nil {
		plan = moved.Plan
	} else if !o.only || segno.KindOf(err) != segno.KindNotFound { // the turn has no changes that are its own
		o.must(err)
	}
	after := o.files()["a"]
	what := fmt.Sprintf("%s by %s, same line %t, undo of %d, alone %t", order, strings.Join(o.ways[:], " and "), o.same, undone, o.only)
	if len(plan.Conflicts) > 0 {
		if strings.Join(before, " ") != strings.Join(after, " ") {
			o.Errorf("%s: a conflict was written over", what)
		}
		return true
	}
	other := 1 - undone
	if got, want := after[o.line(other)], fmt.Sprint("by-", other); got != want {
		o.Errorf("%s: the other turn's %s is now %s", what, want, got)
	}
	return false
}
