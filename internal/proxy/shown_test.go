package proxy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/testing/acptest"
)

// shownText joins the texts of the updates of one kind, in the order of arrival.
func shownText(c *acptest.Client, from int, kind string) string {
	var b strings.Builder
	for _, m := range c.Messages()[from:] {
		if m.Update() == kind && !strings.HasPrefix(m.Content(), "segno: ") {
			b.WriteString(m.Content())
		}
	}
	return b.String()
}

// TestLoadShowsAllThatWasShown runs a turn with content that is not text or is too long for an entry: a long prompt
// with an attached text and a picture, a thought, an answer of 40 kB in chunks and one chunk of 300 kB, a picture
// from the agent and a long result of a tool. A load from the record shows all of it completely and in order.
func TestLoadShowsAllThatWasShown(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	t.Parallel()
	r := newRig(t, none)
	c, s := r.session()
	long := func(word string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%s %d ü\n", word, i)
		}
		return b.String()
	}
	prompt, thought, first, chunk, result := long("prompt", 3000), long("thought", 900), long("answer", 2000), long("chunk", 26_000), long("result", 4000)
	raw := func(update map[string]any) acptest.Step { return acptest.Step{Raw: acp.Encode(update)} }
	say := func(text string) acptest.Step {
		return raw(map[string]any{"sessionUpdate": "agent_message_chunk", "messageId": "m1", "content": map[string]any{"type": "text", "text": text}})
	}
	content := func(text string) []any {
		return []any{map[string]any{"type": "content", "content": map[string]any{"type": "text", "text": text}}}
	}
	directive := acptest.Directive(acptest.Step{Thought: thought}, say(first), say(chunk), say("the end of the answer"),
		raw(map[string]any{"sessionUpdate": "agent_message_chunk", "content": map[string]any{"type": "image", "mimeType": "image/png", "data": "aGVsbG8="}}),
		raw(map[string]any{"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "make", "kind": "execute", "status": "pending"}),
		raw(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "failed", "content": content(result)}),
		acptest.Say("last words"))
	if _, err := c.Call(r.ctx, "session/prompt", map[string]any{"sessionId": s, "prompt": []any{
		map[string]any{"type": "text", "text": prompt + directive},
		map[string]any{"type": "resource", "resource": map[string]any{"uri": "file:///notes.md", "text": "the fact in the attached notes"}},
		map[string]any{"type": "image", "mimeType": "image/png", "data": "d29ybGQ="}}}); err != nil {
		t.Fatal(err)
	}
	c = r.comeBack(c, "load", s)
	if got := shownText(c, 0, "user_message_chunk"); !strings.HasPrefix(got, prompt) {
		t.Errorf("the prompt is shown with %d bytes, want %d", len(got), len(prompt))
	}
	if got := shownText(c, 0, "agent_thought_chunk"); got != thought {
		t.Errorf("the thought is shown with %d bytes, want %d", len(got), len(thought))
	}
	if got, want := shownText(c, 0, "agent_message_chunk"), first+chunk+"the end of the answer"+"last words"; got != want {
		t.Errorf("the answer is shown with %d bytes, want %d", len(got), len(want))
	}
	var order []string
	for _, m := range c.Messages() {
		block := m.Find(m.Params, "update", "content")
		switch kind := m.Text(m.Find(block, "type")); {
		case kind == "image" || kind == "resource":
			order = append(order, m.Update()+" "+kind+" "+m.Text(m.Find(block, "data"))+m.Text(m.Find(block, "resource", "text")))
		case m.Update() == "tool_call_update":
			var blocks []struct{ Content struct{ Text string } }
			if err := json.Unmarshal(block.Of(m.Line), &blocks); err != nil || len(blocks) != 1 || blocks[0].Content.Text != result {
				t.Errorf("the result is shown as %.200s", m.Line)
			}
			order = append(order, "result "+m.Text(m.Find(m.Params, "update", "status")))
		}
	}
	want := []string{"user_message_chunk resource the fact in the attached notes", "user_message_chunk image d29ybGQ=",
		"agent_message_chunk image aGVsbG8=", "result failed"}
	if fmt.Sprint(order) != fmt.Sprint(want) {
		t.Errorf("shown are %q, want %q", order, want)
	}
	r.say(c, s, "beta")
	r.wantSeen([]string{"the fact in the attached notes"})
}
