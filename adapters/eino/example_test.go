package segnoeino_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/internal/testing/programrig"
)

// A process is killed in the middle of a graph of five nodes, twice. The nodes that ended do not run again, and a
// node that had begun runs only with the user's consent. An approval waits over restarts of the process. A fork
// begins after the second node.
func TestExampleSurvivesKills(t *testing.T) {
	p := programrig.Build(t)
	p.MustFail("", []string{"-crash", "reserve"}, "order", "two books")
	p.WantEffects("check")
	p.MustFail("reserve began", nil, "order", "two books")
	p.WantEffects("check")
	const asked = "waits: pay for two books, check, reserve?"
	p.MustRun(asked, []string{"-repeat", "reserve"}, "order")
	p.WantEffects("check reserve")
	p.MustRun(asked, nil, "order") // a restart without an answer asks again
	p.MustRun("", []string{"-fork", "copy"}, "order")

	p.MustFail("", []string{"-crash", "ship", "-answer", "yes"}, "order")
	p.MustRun("two books, check, reserve, approved with yes, pay, ship", []string{"-repeat", "ship"}, "order")
	p.WantEffects("check reserve pay ship")

	p.MustRun(asked, nil, "copy")
	p.MustRun("approved with no, pay, ship", []string{"-answer", "no"}, "copy")
	p.WantEffects("check reserve pay ship pay ship")
	for _, thread := range []segno.ThreadID{"order", "copy"} {
		wantCalls(t, p.Line(thread), "check", "reserve", "approve", "pay", "ship")
	}
}

// wantCalls checks the newest turn of a line as all parts of segno read it: its prompt, its answer, and its calls that
// have a result.
func wantCalls(t *testing.T, line *segno.Line, want ...string) {
	t.Helper()
	last := line.Commits[len(line.Commits)-1].Checkpoint
	if last.Kind != segno.CheckpointTurn || last.Prompt != "two books" {
		t.Errorf("the line ends with %+v", last)
	}
	turn := turns.Read(line.Commits, last)
	var calls []string
	for _, it := range turn.Items {
		if it.Call != nil && it.Call.Done && !slices.Contains(calls, it.Call.Tool) {
			calls = append(calls, it.Call.Tool)
		}
	}
	if answer := turn.Items[len(turn.Items)-1].Text; !slices.Equal(calls, want) || !strings.HasSuffix(answer, "pay, ship") {
		t.Errorf("the calls are %v and the answer is %q", calls, answer)
	}
}
