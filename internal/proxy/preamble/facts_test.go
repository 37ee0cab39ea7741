package preamble_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/preamble"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// planted is a thread with facts at random places: in prompts, replies, inputs and answers, in texts of
// random sizes.
type planted struct {
	threadWriter
	facts []string
}

// text returns words of about size bytes with a fact at a random place, as one line or as several.
func (p *planted) text(t *rapid.T, size int) string {
	fact := fmt.Sprintf("fact-%d-is-here", len(p.facts))
	p.facts = append(p.facts, fact)
	filler := rapid.SampledFrom([]string{"so it is and so on ", "a line of the text\n", "plain\n\n", "wörter "}).Draw(t, "filler")
	before := rapid.IntRange(0, size).Draw(t, "before")
	return strings.Repeat(filler, before/len(filler)) + " " + fact + " " + strings.Repeat(filler, (size-before)/len(filler))
}

func anySize(t *rapid.T) int {
	return rapid.IntRange(0, rapid.SampledFrom([]int{20, 200, 2000, 10_000}).Draw(t, "most")).Draw(t, "size")
}

// plant returns a thread of one kind: few or many turns, with few or many calls.
func plant(t *rapid.T) *planted {
	p := &planted{}
	turns := rapid.IntRange(1, rapid.SampledFrom([]int{3, 30, 300}).Draw(t, "most turns")).Draw(t, "turns")
	most := rapid.SampledFrom([]int{1, 4, 40}).Draw(t, "most calls")
	for range turns {
		p.prompt(p.text(t, anySize(t)))
		for range rapid.IntRange(0, min(most, 1200/turns)).Draw(t, "calls") {
			switch rapid.SampledFrom([]string{"command", "edit", "tool", "read"}).Draw(t, "call") {
			case "command":
				p.call("Bash", encode(map[string]string{"command": p.text(t, anySize(t)/4)}), encode(map[string]string{"response": p.text(t, anySize(t))}))
			case "edit":
				p.call("Edit", encode(map[string]string{"file_path": fmt.Sprintf("/w/%d.go", p.calls), "old_string": "x"}), `{"response":{"filePath":"x"}}`)
			case "tool":
				p.call("mcp__a__b", encode(map[string]string{"who": p.text(t, anySize(t))}), encode(map[string]string{"response": p.text(t, anySize(t))}))
			case "read":
				p.call("Read", encode(map[string]string{"file_path": fmt.Sprintf("/w/read-%d.go", p.calls)}), `{"response":"x"}`)
			}
		}
		p.reply(p.text(t, anySize(t)))
		p.checkpoint(segno.Checkpoint{Kind: segno.CheckpointTurn, Interrupted: rapid.IntRange(0, 5).Draw(t, "interrupted") == 0})
	}
	return p
}

// told returns the facts in a text.
func (p *planted) told(text string) map[string]bool {
	told := map[string]bool{}
	for _, fact := range p.facts {
		if strings.Contains(text, fact) {
			told[fact] = true
		}
	}
	return told
}

// TestEveryFactThatFitsIsTold plants facts and reduces the budget. A text uses all of its room, and a text with
// a smaller budget never has a fact that one with a larger budget lacks.
func TestEveryFactThatFitsIsTold(t *testing.T) {
	soak.Rapid(t, 20, 5000)
	rapid.Check(t, func(t *rapid.T) {
		p := plant(t)
		s := preamble.FromCommits(p.nodes)
		needed := len(s.Text(preamble.Options{Budget: 4 << 20}))
		budgets := []int{1 << 20, preamble.DefaultBudget, preamble.MinBudget}
		for range 3 {
			budgets = append(budgets, rapid.IntRange(preamble.MinBudget, 60_000).Draw(t, "budget"))
		}
		for _, b := range slices.Clone(budgets) {
			budgets = append(budgets, max(preamble.MinBudget, b-1-rapid.IntRange(0, 60).Draw(t, "less")))
		}
		slices.Sort(budgets)
		var before map[string]bool
		for i, budget := range budgets {
			text := s.Text(preamble.Options{Budget: budget})
			if i == 1 {
				checkText(t, text, budget)
			}
			if least := 0.95 * min(float64(needed), 0.9*4*float64(budget)); float64(len(text)) < least {
				t.Errorf("%d bytes with a budget of %d; needed %d, want at least %.0f", len(text), 4*budget, needed, least)
			}
			now := p.told(text)
			for fact := range before {
				if !now[fact] {
					t.Fatalf("%s is told with a budget of %d and not with %d", fact, budgets[i-1], budget)
				}
			}
			before = now
		}
	})
}

// TestManyTurnsThatFitAreToldInFull tries 200 and 240 turns that need four fifths of the budget. The text has
// every answer and every word of the user.
func TestManyTurnsThatFitAreToldInFull(t *testing.T) {
	for _, turns := range []int{200, 240} {
		w, facts := new(threadWriter), []string(nil)
		size := 4 * preamble.DefaultBudget * 4 / 5 / turns
		for i := range turns {
			user, agent := fmt.Sprintf("the port of host %d is %d", i, 20_000+i), fmt.Sprintf("answer %d", i)
			facts = append(facts, user, agent+" ends.")
			w.prompt(strings.Repeat("and so on ", size/40) + user + strings.Repeat(" and so on", size/40))
			w.reply(agent + strings.Repeat(" so it is", size/3/9) + " " + agent + " ends.").end()
		}
		text := preamble.FromCommits(w.nodes).Text(preamble.Options{})
		if need := len(preamble.FromCommits(w.nodes).Text(preamble.Options{Budget: 1 << 20})); need > 4*preamble.DefaultBudget {
			t.Fatalf("the turns need %d bytes", need)
		}
		for _, fact := range facts {
			if !strings.Contains(text, fact) {
				t.Errorf("%d turns: %q is lost", turns, fact)
			}
		}
	}
}

// TestTextReadsAsPrompt checks the form of the text. Each effect is below the request that caused it. A path
// below the directory of the session is relative and occurs once. The text names a written file and does not
// quote it, it names lookups, and a greeting is not a task.
func TestTextReadsAsPrompt(t *testing.T) {
	w := new(threadWriter).prompt("hi").reply("Hello!").end()
	w.prompt("Add a flag to the parser.")
	w.call("Read", `{"file_path":"/home/me/p/parse/parse.go"}`, `{"response":"package parse"}`)
	w.call("Grep", `{"pattern":"flag\\.Bool"}`, `{"response":"x"}`)
	w.call("Write", `{"file_path":"/home/me/p/parse/flag.go","content":"SECRET CONTENT"}`, `{"response":{"filePath":"/home/me/p/parse/flag.go"}}`)
	for range 3 {
		w.call("Edit", `{"file_path":"/home/me/p/parse/parse.go","old_string":"OLD TEXT","new_string":"NEW TEXT"}`, `{"response":{"filePath":"/home/me/p/parse/parse.go"}}`)
	}
	w.call("Bash", `{"command":"cd /home/me/p/parse && go test"}`, `{"response":{"stdout":"ok"}}`)
	w.reply("Added.").end()
	w.prompt("Now push it.").call("Bash", `{"command":"git push"}`, `{"response":{"stdout":"pushed"}}`).reply("Pushed.").end()
	b := &preamble.Builder{Dir: "/home/me/p"}
	for _, n := range w.nodes {
		b.Add(n)
	}
	text := b.Text(preamble.Options{})
	checkText(t, text, 0)
	want := `The user said “Add a flag to the parser.”.
- You wrote “parse/flag.go” with Write.
- You changed “parse/parse.go” with Edit, 3 times.
- You ran “cd parse && go test” with Bash. It answered “ok”.
You looked up “parse/parse.go”, “flag\.Bool”.
You replied:
> Added.

The user said “Now push it.”.
- You ran “git push” with Bash. It answered “pushed”.
You replied:
> Pushed.
`
	if !strings.Contains(text, want) {
		t.Errorf("want\n%s\nin\n%s", want, text)
	}
	for _, never := range []string{"SECRET CONTENT", "OLD TEXT", "/home/me/p/", "task"} {
		if strings.Contains(text, never) {
			t.Errorf("the text has %q:\n%s", never, text)
		}
	}
	if !strings.Contains(text, "Files on disk are the truth: read a file before you edit it.") {
		t.Error(text)
	}
}

// TestInterruptionIsNotACancel checks the words about a turn that ended because the connection to the client
// ended, while a tool ran, and while a call waited for permission.
func TestInterruptionIsNotACancel(t *testing.T) {
	w := new(threadWriter).prompt("deploy it").reply("I am on it.")
	w.intent("Bash", `{"command":"make image"}`)
	id := w.intent("Bash", `{"command":"make deploy"}`)
	w.permission(id, "make deploy", "").result(id, "Bash", `{"status":"failed"}`)
	w.permission("never announced", "make announce", "")
	text := preamble.FromCommits(w.note("end", `{"stop":"disconnected"}`).interrupted().nodes).Text(preamble.Options{})
	checkText(t, text, 0)
	for _, want := range []string{
		"- You began to run “make image” with Bash; its outcome is unknown: check before you do it again.",
		"- You asked to run “make deploy” with Bash, and you were interrupted before the user answered: it was not made.",
		"- You asked to run “make announce”, and you were interrupted before the user answered: it was not made.",
		"You were interrupted before you had finished. You had begun to say:\n> I am on it.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "cancelled") || strings.Contains(text, "may have had effects") {
		t.Error(text)
	}
}
