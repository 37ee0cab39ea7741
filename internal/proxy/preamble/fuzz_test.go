package preamble_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/preamble"
)

// FuzzText adds entries whose bodies are any JSON, or not JSON.
func FuzzText(f *testing.F) {
	f.Add("Bash", `{"command":"x"}`, `{"response":{"stdout":"y"}}`, `"words"`, `[{"content":"todo"}]`, 0)
	f.Add("", `{"title":"t","kind":"edit","locations":[{}]}`, `{"status":"failed","content":[{"type":"diff"}]}`, `{"clipped":{"head":"\"a\\u00","tail":"b\""}}`, `{"todos":[]}`, 1)
	f.Add("x y”", `{"clipped":{"head":"{\"command\":[[\"a"}}`, `{`, `null`, `[`, 1<<40)
	f.Add("\xff", "\xff", `[[[[[[[[[[[[1]]]]]]]]]]]]`, `{"type":"resource","resource":{"text":"x"}}`, `{"plan":[{"step":"s","status":"completed"}]}`, -1)
	for _, h := range hostile {
		f.Add(strings.ReplaceAll(h, "EVIL", ""), encode(h), encode(map[string]string{"error": h}), encode(h), encode([]map[string]string{{"content": h}}), 0)
	}
	f.Fuzz(func(t *testing.T, tool, input, result, words, plan string, budget int) {
		const evil = "EVIL" // a tool may have this name
		tool = strings.ReplaceAll(tool, evil, "")
		w := new(threadWriter).prompt(words)
		w.call(tool, input, result).note("plan", plan).end()
		w.prompt(words)
		w.add(segno.Entry{Kind: segno.EntryMessage, Name: "agent", Body: json.RawMessage(words)})
		w.intent(tool, input)
		w.end().checkpoint(segno.Checkpoint{Kind: segno.CheckpointRestore, Label: words})
		budget = min(budget, 1<<20)
		s := preamble.FromCommits(w.nodes)
		checkText(t, s.Text(preamble.Options{Budget: budget}), budget)
		open := preamble.OpenTurn{Prompt: words, Entries: w.nodes[0].Entries, Reply: words}
		checkText(t, s.Text(preamble.Options{Budget: budget, Open: &open}), budget)
		checkText(t, preamble.ContinuePrompt(open), 0)
		if said := preamble.StripPreamble(s.Text(preamble.Options{}) + words); said != strings.TrimLeft(words, "\n") {
			t.Errorf("the user said %q, and is taken to have said %q", words, said)
		}
	})
}
