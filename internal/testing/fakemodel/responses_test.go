package fakemodel_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

func input(items ...any) block { return block{"model": "m", "stream": true, "input": items} }

func userItem(text string) block {
	return block{"type": "message", "role": "user", "content": []any{block{"type": "input_text", "text": text}}}
}

// outputOf returns the items of a streamed response, checked against those that
// its last event repeats.
func outputOf(t *testing.T, all []event) []any {
	t.Helper()
	items := []any{}
	for _, e := range all {
		if e.name == "response.output_item.done" {
			items = append(items, e.data["item"])
		}
	}
	last := all[len(all)-1]
	if all[0].name != "response.created" || last.name != "response.completed" {
		t.Fatalf("the stream goes from %s to %s", all[0].name, last.name)
	}
	if diff := cmp.Diff(last.data["response"].(map[string]any)["output"], any(items)); diff != "" {
		t.Errorf("completed with other items:\n%s", diff)
	}
	return items
}

func TestResponses(t *testing.T) {
	c := newClient(t)
	items := []any{
		block{"type": "message", "role": "developer", "content": []any{block{"type": "input_text", "text": "rules"}}},
		userItem(`<<fake [{"thinking":"hm","text":"I look","tools":[{"tool":"shell","input":{"command":["ls"]}},{"tool":"apply_patch","input":"*** Begin"}]},"done",{"raw":[{"type":"odd"}]},{"empty":true}]>>`),
	}
	first := outputOf(t, c.stream("/v1/responses", input(items...)))
	var types []any
	for _, it := range first {
		types = append(types, it.(map[string]any)["type"])
	}
	if diff := cmp.Diff([]any{"reasoning", "message", "function_call", "custom_tool_call"}, types); diff != "" {
		t.Fatal(diff)
	}
	call, custom := first[2].(map[string]any), first[3].(map[string]any)
	if call["arguments"] != `{"command":["ls"]}` || custom["input"] != "*** Begin" || call["call_id"] == custom["call_id"] {
		t.Errorf("calls %v and %v", call, custom)
	}

	// Results between the calls must not split one model call into two.
	items = append(items, first[0], first[1], call,
		block{"type": "function_call_output", "call_id": call["call_id"], "output": "a.txt"},
		custom,
		block{"type": "custom_tool_call_output", "call_id": custom["call_id"], "output": []any{block{"type": "input_text", "text": "patched"}}})
	second := outputOf(t, c.stream("/v1/responses", input(items...)))
	if text := textOf(second); text != "done" {
		t.Errorf("second step: %q", text)
	}
	items = append(items, second...)
	for _, want := range []string{"odd", ""} {
		out := outputOf(t, c.stream("/v1/responses", input(append(items, userItem("go on"))...)))
		if want != "" && (len(out) != 1 || out[0].(map[string]any)["type"] != want) || want == "" && len(out) != 0 {
			t.Errorf("got %v, want %q", out, want)
		}
		items = append(items, userItem("go on"), block{"type": "message", "role": "assistant", "content": []any{block{"type": "output_text", "text": "x"}}})
	}

	want := []fakemodel.Message{
		{Role: "developer", Blocks: []fakemodel.Block{{Type: "text", Text: "rules"}}},
		{Role: "user", Blocks: []fakemodel.Block{{Type: "text", Text: items[1].(block)["content"].([]any)[0].(block)["text"].(string)}}},
		{Role: "assistant", Blocks: []fakemodel.Block{
			{Type: "thinking", Text: "hm"},
			{Type: "text", Text: "I look"},
			{Type: "tool_use", ID: call["call_id"].(string), Name: "shell", Input: `{"command":["ls"]}`},
			{Type: "tool_use", ID: custom["call_id"].(string), Name: "apply_patch", Input: "*** Begin"},
		}},
		{Role: "user", Blocks: []fakemodel.Block{
			{Type: "tool_result", ID: call["call_id"].(string), Text: "a.txt"},
			{Type: "tool_result", ID: custom["call_id"].(string), Text: "patched"},
		}},
	}
	if diff := cmp.Diff(want, c.Calls()[1].Messages()); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func textOf(items []any) string {
	if len(items) != 1 {
		return ""
	}
	content, _ := items[0].(map[string]any)["content"].([]any)
	if len(content) != 1 {
		return ""
	}
	return content[0].(map[string]any)["text"].(string)
}

func TestResponsesWhole(t *testing.T) {
	c := newClient(t)
	status, body := c.call("POST", "/v1/responses", block{"input": `<<fake ["hi"]>>`})
	var r struct {
		Status string
		Output []any
	}
	if err := json.Unmarshal([]byte(body), &r); err != nil || status != 200 || r.Status != "completed" || textOf(r.Output) != "hi" {
		t.Errorf("%d %v %s", status, err, body)
	}
}

func TestResponsesFailures(t *testing.T) {
	c := newClient(t)
	if status, body := c.call("POST", "/v1/responses", block{"stream": true, "input": `<<fake [{"error":429}]>>`}); status != 429 || !strings.Contains(body, "rate_limit_error") {
		t.Errorf("%d %s", status, body)
	}
	resp, err := c.open(c.ctx, "POST", "/v1/responses", block{"stream": true, "input": `<<fake [{"drop":true,"text":"abcd"}]>>`})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := events(resp.Body)
	if err == nil || len(all) == 0 || all[len(all)-1].data["delta"] != "ab" {
		t.Errorf("dropped: %v %v", all, err)
	}
	if resp, err := c.open(c.ctx, "POST", "/v1/responses", block{"input": `<<fake [{"drop":true}]>>`}); err == nil {
		resp.Body.Close()
		t.Error("a dropped answer arrives")
	}
}

// TestTitleIsASideCall checks that a request for a title does not advance the script of the
// conversation that it quotes.
func TestTitleIsASideCall(t *testing.T) {
	c := newClient(t)
	script := `go <<fake [{"error":429,"times":1},"done"]>>`
	title := userItem("Your task is to generate a very short title for a conversation.\n\nUser's first message:\n" + script)
	if got := outputOf(t, c.stream("/v1/responses", input(title))); len(got) != 1 {
		t.Errorf("the title is %v", got)
	}
	if n := len(c.Calls()); n != 0 {
		t.Errorf("%d model calls, want none", n)
	}
	if status, _ := c.call("POST", "/v1/responses", input(userItem(script))); status != 429 {
		t.Errorf("the script's first step was answered with status %d", status)
	}
}
