package fakemodel_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

func TestPosition(t *testing.T) {
	const script = `do <<fake ["one","two"]>>`
	result := user([]any{block{"type": "tool_result", "tool_use_id": "t", "content": `<<fake ["from a file"]>>`}})
	for _, tt := range []struct {
		name     string
		messages []msg
		want     string
	}{
		{"no directive", []msg{user("hi")}, "ok"},
		{"first step", []msg{user(script)}, "one"},
		{"in a block among others", []msg{user([]any{block{"type": "text", "text": "<system-reminder>x</system-reminder>"}, block{"type": "text", "text": script}})}, "one"},
		{"second step", []msg{user(script), assistant("one"), result}, "two"},
		{"past the last", []msg{user(script), assistant("one"), user("and?"), assistant("two"), user("and?")}, "ok"},
		{"newest of two prompts", []msg{user(script), assistant("one"), user(`<<fake ["new"]>>`)}, "new"},
		{"newest in one prompt", []msg{user(script + ` <<fake ["later"]>>`)}, "later"},
		{"assistant text is not searched", []msg{user(script), assistant(`<<fake ["mine"]>>`), user("and?")}, "two"},
		{"system messages are not searched", []msg{user(script), {"system", `<<fake ["sys"]>>`}}, "one"},
		{"not quite a directive", []msg{user("<<fake>> and << fake []>>")}, "ok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := newClient(t).text(tt.messages...); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestBadDirectives checks that an invalid script is refused.
func TestBadDirectives(t *testing.T) {
	for _, bad := range []string{
		`<<fake [>>`,
		`<<fake ["one"]`,
		`<<fake "one">>`,
		`<<fake [{"txt":"one"}]>>`,
		`<<fake [{"tool":"A","tools":[]}]>>`,
		`<<fake [{"tools":[{"input":{}}]}]>>`,
		`<<fake [7]>>`,
	} {
		c := newClient(t)
		if status, body := c.call("POST", "/v1/messages", turn(true, user(bad))); status != 400 || !strings.Contains(body, "steps") {
			t.Errorf("%s: %d %s", bad, status, body)
		}
		if status, _ := c.call("POST", "/v1/responses", block{"input": bad}); status != 400 {
			t.Errorf("%s: status %d from the other API", bad, status)
		}
	}
}

// The prompt of a subagent is a string in a tool call's input, and a separate script once the
// subagent sends it.
func TestNestedDirective(t *testing.T) {
	c := newClient(t)
	r := c.ask(user(`<<fake [{"tool":"Agent","input":{"prompt":"sub <<fake [\"sub done\"]>>"}},"done"]>>`))
	prompt := r.Content[0]["input"].(map[string]any)["prompt"]
	if got := c.text(user(prompt)); got != "sub done" {
		t.Errorf("the subagent is answered %q", got)
	}
}

func TestIdsAreDerived(t *testing.T) {
	const call = `<<fake [{"tools":[{"tool":"A"},{"tool":"B"}]}]>>`
	ids := func(messages ...msg) []string {
		r := newClient(t).ask(messages...)
		return []string{r.ID, r.Content[0]["id"].(string), r.Content[1]["id"].(string)}
	}
	first := ids(user(call))
	if diff := cmp.Diff(first, ids(user(call))); diff != "" {
		t.Errorf("a replay has other ids:\n%s", diff)
	}
	reminded := []any{block{"type": "text", "text": "<system-reminder>/tmp/1</system-reminder>"}, block{"type": "text", "text": call}}
	if diff := cmp.Diff(first, ids(user(reminded))); diff != "" {
		t.Errorf("a reminder changes the ids:\n%s", diff)
	}
	seen := map[string]bool{}
	for _, id := range append(first, ids(user(call), assistant("x"), user(call))...) {
		if seen[id] {
			t.Errorf("%s is used twice in one conversation", id)
		}
		seen[id] = true
	}
}

func TestSideCalls(t *testing.T) {
	c := newClient(t)
	const script = `<<fake [{"error":500,"times":1},"one"]>>`
	title := block{"model": "small", "max_tokens": 50, "messages": []msg{user("Title of: " + script)}}
	warm := turn(false, user(script))
	warm["max_tokens"] = 1
	summary := turn(false, user(script), user([]any{block{"type": "text", "text": "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nSummarise."}}))
	for name, body := range map[string]any{"title": title, "warm-up": warm, "summary": summary} {
		if status, got := c.call("POST", "/v1/messages", body); status != 200 || !strings.Contains(got, "ok") {
			t.Errorf("%s: %d %s", name, status, got)
		}
	}
	for _, r := range c.Requests() {
		if !r.Side || r.Call() {
			t.Errorf("request %d is not a side call", r.Seq)
		}
	}
	if status, _ := c.call("POST", "/v1/messages", turn(false, user(script))); status != 500 {
		t.Errorf("status %d: a side call used up the error", status)
	}
	scripted := turn(false, user(script), user([]any{block{"type": "text", "text": "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nSummarise. " + `<<fake ["in short"]>>`}}))
	if _, got := c.call("POST", "/v1/messages", scripted); !strings.Contains(got, "in short") {
		t.Errorf("a scripted summary: %s", got)
	}
}

func TestMessages(t *testing.T) {
	c := newClient(t)
	c.ask(user("plain"),
		assistant([]any{
			block{"type": "thinking", "thinking": "hm", "signature": "s"},
			block{"type": "tool_use", "id": "t1", "name": "Bash", "input": block{"command": "ls"}},
		}),
		user([]any{
			block{"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": []any{block{"type": "text", "text": "a"}, block{"type": "text", "text": "b"}}},
			block{"type": "text", "text": "marked", "cache_control": block{"type": "ephemeral"}},
			block{"type": "image", "source": "x"},
		}))
	want := []fakemodel.Message{
		{Role: "user", Blocks: []fakemodel.Block{{Type: "text", Text: "plain"}}},
		{Role: "assistant", Blocks: []fakemodel.Block{
			{Type: "thinking", Text: "hm"},
			{Type: "tool_use", ID: "t1", Name: "Bash", Input: `{"command":"ls"}`},
		}},
		{Role: "user", Blocks: []fakemodel.Block{
			{Type: "tool_result", ID: "t1", Text: "a\nb", Error: true},
			{Type: "text", Text: "marked"},
			{Type: "image", Text: `{"source":"x","type":"image"}`},
		}},
	}
	r := c.Calls()[0]
	if diff := cmp.Diff(want, r.Messages()); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if !r.HasText("mark") || r.HasText("hm") || len(r.Results()) != 1 || r.Model != "m" || r.Stream {
		t.Errorf("request %+v", r)
	}
}

func TestSystem(t *testing.T) {
	c := newClient(t)
	c.call("POST", "/v1/messages", block{"system": "one"})
	c.call("POST", "/v1/messages", block{"system": []any{block{"type": "text", "text": "a"}, block{"type": "text", "text": "b"}}})
	c.call("POST", "/v1/responses", block{"instructions": "do", "input": "hi"})
	var got []string
	for _, r := range c.Requests() {
		got = append(got, r.System())
	}
	if diff := cmp.Diff([]string{"one", "a\nb", "do"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestQuotedLines checks that a quoted prompt, complete or truncated, does not restart its
// script.
func TestQuotedLines(t *testing.T) {
	c := newClient(t)
	said := []msg{user(`go <<fake ["one","two"]>>`), assistant("one")}
	for _, text := range []string{"It said:\n> go <<fake [\"one\",\"two\"]>>\nGo on.", "> go <<fake [\"on\n> … 10 bytes left out …\n"} {
		if got := c.text(append(said, user(text))...); got != "two" {
			t.Errorf("after %q: %q", text, got)
		}
	}
	if got := c.text(append(said, user("> quoted\nanew <<fake [\"three\"]>>"))...); got != "three" {
		t.Errorf("a script behind a quote: %q", got)
	}
}
