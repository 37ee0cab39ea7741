package transcript_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/claude"
	"github.com/dalsegno/segno/transcript/codex"
)

// TestTableOfWhatTravels checks the table of docs/sessions.md. For each row and column it writes a conversation
// with the part of the row for the agent of the column, and checks whether the part is read back.
func TestTableOfWhatTravels(t *testing.T) {
	has := func(what func(transcript.Part) bool) func(transcript.Conversation) bool {
		return func(c transcript.Conversation) bool {
			return slices.ContainsFunc(c.Messages, func(m transcript.Message) bool { return slices.ContainsFunc(m.Parts, what) })
		}
	}
	long := strings.Repeat("long ", 10_000)
	failed := result("a", text("no"))
	failed.Result.IsError = true
	rows := map[string]struct {
		parts   []transcript.Part // behind a call with the id a
		travels func(transcript.Conversation) bool
	}{
		"words of the user and the model": {[]transcript.Part{result("a"), text("more")}, has(func(p transcript.Part) bool { return p.Text == "more" })},
		"tool calls with their inputs": {[]transcript.Part{result("a")}, has(func(p transcript.Part) bool {
			return p.Call != nil && p.Call.ID == "a" && p.Call.Name == "A" && string(p.Call.Input) == `{"b":1,"a":2}`
		})},
		"results, also of parallel calls": {[]transcript.Part{result("b", text("of b")), result("a")}, has(func(p transcript.Part) bool {
			return p.Result != nil && p.Result.Call == "b" && p.Result.Parts[0].Text == "of b"
		})},
		"results over 10 kB": {[]transcript.Part{result("a", text(long))}, has(func(p transcript.Part) bool {
			return p.Result != nil && len(p.Result.Parts) == 1 && p.Result.Parts[0].Text == long
		})},
		"images":                          {[]transcript.Part{result("a"), {Image: &transcript.Image{Type: "image/png", Data: "aWk="}}}, has(func(p transcript.Part) bool { return p.Image != nil })},
		"the mark of a failed result":     {[]transcript.Part{failed}, has(func(p transcript.Part) bool { return p.Result != nil && p.Result.IsError })},
		"the mark of an interrupted turn": {[]transcript.Part{result("a"), {Interruption: true}}, has(func(p transcript.Part) bool { return p.Interruption })},
	}
	doc, err := os.ReadFile("../docs/sessions.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		row, ok := rows[strings.TrimSpace(cells[0])]
		if !ok || len(cells) < 3 {
			continue
		}
		checked++
		c := transcript.Conversation{Messages: []transcript.Message{{Role: transcript.User, Prompt: true, Parts: []transcript.Part{text("go")}},
			{Role: transcript.Assistant, Parts: []transcript.Part{call("a", "A", `{"b":1,"a":2}`), call("b", "B", "{}")}}, {Role: transcript.User, Parts: row.parts}}}
		for i, name := range []string{claude.Agent, codex.Agent} {
			h := newHomes(t)
			got := h.read(name, h.write(name, c, nil, firstID), "")
			want := strings.TrimSpace(cells[i+1]) == "yes"
			if row.travels(got) != want {
				t.Errorf("%s, %s: the table has %q", cells[0], name, cells[i+1])
			}
			lost, err := newHomes(t).agents[name].Losses(h.ctx, c) // an empty home, as before the session is written
			if err != nil || !want && len(lost) == 0 {
				t.Errorf("%s, %s: the loss is not reported: %v, %v", cells[0], name, lost, err)
			}
			if want && len(lost) > 0 {
				t.Errorf("%s, %s: it travels, and a loss is reported: %v", cells[0], name, lost)
			}
		}
	}
	if checked != len(rows) {
		t.Errorf("the table has %d of %d rows", checked, len(rows))
	}
}
