package anthropic_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/anthropic"
)

func TestTheRequestHoldsTheConversation(t *testing.T) {
	s := newServer(t, whole("end_turn", text("ok")...))
	thought := `{"type":"thinking","thinking":"a < b","signature":"c2ln"}`
	hidden := `{"type":"redacted_thinking","data":"xyz"}`
	_, _, err := ask(t, s.model(), agent.Request{
		System: "be brief",
		Messages: []agent.Message{
			{Role: agent.User, Parts: []agent.Part{
				{Text: "look"},
				{Image: &agent.Blob{Type: "image/png", Data: []byte("png")}},
				{Image: &agent.Blob{Type: "image/jpeg", URL: "https://example.com/a.jpg"}},
				{Image: &agent.Blob{Type: "image/tiff", Name: "old", Data: []byte("tiff")}},
				{File: &agent.Blob{Type: "application/pdf", Name: "a.pdf", Data: []byte("%PDF")}},
				{File: &agent.Blob{Type: "application/pdf", URL: "https://example.com/b.pdf"}},
				{File: &agent.Blob{Type: "text/csv", Name: "t.csv", Data: []byte("1,2")}},
				{File: &agent.Blob{Type: "application/zip", Name: "z.zip", Data: []byte{0xff, 0xfe}}},
			}},
			{Role: agent.Assistant, Model: "anthropic/claude-test", Parts: []agent.Part{
				{Thinking: &agent.Thinking{Text: "a < b", Data: json.RawMessage(thought)}},
				{Thinking: &agent.Thinking{Data: json.RawMessage(hidden)}},
				{Text: "I look"},
				{Call: &agent.Call{ID: "toolu_1", Name: "read", Args: json.RawMessage(`{"z":1,"a":"<x>"}`)}},
				{Call: &agent.Call{ID: "functions.read:1", Name: "read", Args: nil}},
			}},
			{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{Call: "toolu_1", Name: "read", Text: "seen",
				Parts: []agent.Part{{Image: &agent.Blob{Type: "image/gif", Data: []byte("gif")}}}}}}},
			{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{Call: "functions.read:1", Name: "read", Error: true}}}},
			{Role: agent.User, Parts: []agent.Part{{Text: " \n"}, {Text: "go on"}}},
		},
		Tools: []agent.ToolSpec{
			{Name: "read", Description: "reads", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`)},
			{Name: "wait"},
		},
		MaxTokens: 99,
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, s.requests()[0], `{
		"model": "claude-test", "max_tokens": 99, "stream": true,
		"system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
		"tools": [
			{"name": "read", "description": "reads", "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}},
			{"name": "wait", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}
		],
		"messages": [
			{"role": "user", "content": [
				{"type": "text", "text": "look"},
				{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"}},
				{"type": "image", "source": {"type": "url", "url": "https://example.com/a.jpg"}},
				{"type": "text", "text": "[image that cannot be shown: old, image/tiff, 4 bytes]"},
				{"type": "document", "title": "a.pdf", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}},
				{"type": "document", "source": {"type": "url", "url": "https://example.com/b.pdf"}},
				{"type": "document", "title": "t.csv", "source": {"type": "text", "media_type": "text/plain", "data": "1,2"}},
				{"type": "text", "text": "[file that cannot be shown: z.zip, application/zip, 2 bytes]"}
			]},
			{"role": "assistant", "content": [
				`+thought+`, `+hidden+`,
				{"type": "text", "text": "I look"},
				{"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"z": 1, "a": "<x>"}},
				{"type": "tool_use", "id": "functions_read_1", "name": "read", "input": {}}
			]},
			{"role": "user", "content": [
				{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "seen"}, {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "Z2lm"}}]},
				{"type": "tool_result", "tool_use_id": "functions_read_1", "is_error": true, "content": [{"type": "text", "text": "error"}]},
				{"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}}
			]}
		]}`)
	if !strings.Contains(s.requests()[0], `"z":1,"a":`) {
		t.Error("the arguments' keys changed places, which spoils the prompt cache")
	}
	if got := s.headers[0].Get("X-Api-Key"); got != "secret-key" {
		t.Errorf("the key was sent as %q", got)
	}
}

func TestThoughtsOfOtherModelsStayBehind(t *testing.T) {
	s := newServer(t, whole("end_turn", text("ok")...))
	think := func(model, data string) agent.Message {
		return agent.Message{Role: agent.Assistant, Model: model, Parts: []agent.Part{{Text: "said"}, {Thinking: &agent.Thinking{Text: "secret thought", Data: json.RawMessage(data)}}}}
	}
	_, _, err := ask(t, s.model(), agent.Request{Messages: []agent.Message{
		agent.Text("a"), think("openai/gpt", `{"any":"thing"}`), agent.Text("b"),
		think("anthropic/claude-other", `{"type":"thinking","thinking":"secret thought","signature":"s"}`), agent.Text("c"),
		think("anthropic/claude-test", ``), agent.Text("d"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.requests()[0]; strings.Contains(got, "secret thought") || strings.Contains(got, "any") {
		t.Errorf("sent %s", got)
	}
}

func TestWhatIsSaidGoesBackAsItCame(t *testing.T) {
	blocks := []string{
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"is 1 < 2 & \"so\"?"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB+/=="}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"RED+/="}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"yes"}}`,
		`{"type":"content_block_stop","index":2}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_9","name":"add","input":{}}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"y\": 1.0,"}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":" \"x\": 12345678901234567890}"}}`,
		`{"type":"content_block_stop","index":3}`,
	}
	s := newServer(t, whole("tool_use", blocks...), whole("end_turn", text("ok")...))
	m := s.model()
	_, reply, err := ask(t, m, hello)
	if err != nil {
		t.Fatal(err)
	}
	log, err := json.Marshal(reply.Message) // as it is kept
	if err != nil {
		t.Fatal(err)
	}
	var kept agent.Message
	if err := json.Unmarshal(log, &kept); err != nil {
		t.Fatal(err)
	}
	result := agent.Message{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{Call: "toolu_9", Name: "add", Text: "3"}}}}
	if _, _, err = ask(t, m, agent.Request{Messages: []agent.Message{hello.Messages[0], kept, result}}); err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Messages []struct{ Content []json.RawMessage }
	}
	if err := json.Unmarshal([]byte(s.requests()[1]), &sent); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"type":"thinking","thinking":"is 1 < 2 & \"so\"?","signature":"EqQB+/=="}`,
		`{"type":"redacted_thinking","data":"RED+/="}`,
		`{"type":"text","text":"yes"}`,
		`{"type":"tool_use","id":"toolu_9","name":"add","input":{"y":1.0,"x":12345678901234567890}}`,
	}
	for i, w := range want {
		same(t, string(sent.Messages[1].Content[i]), w)
	}
	if got := string(sent.Messages[1].Content[3]); !strings.Contains(got, `"y":1.0,"x":12345678901234567890`) {
		t.Errorf("the arguments came back as %s", got)
	}
}

func TestThinkingIsAskedFor(t *testing.T) {
	s := newServer(t, whole("end_turn", text("ok")...))
	for _, m := range []agent.Model{s.model(anthropic.WithMaxTokens(500)), s.model(anthropic.WithThinking(2048)), s.model(anthropic.WithThinking(0))} {
		if _, _, err := ask(t, m, hello); err != nil {
			t.Fatal(err)
		}
	}
	messages := `"messages": [{"role": "user", "content": [{"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}]}]`
	same(t, s.requests()[0], `{"model": "claude-test", "max_tokens": 500, "stream": true, `+messages+`}`)
	same(t, s.requests()[1], `{"model": "claude-test", "max_tokens": 18432, "stream": true, "thinking": {"type": "enabled", "budget_tokens": 2048}, `+messages+`}`)
	same(t, s.requests()[2], `{"model": "claude-test", "max_tokens": 16384, "stream": true, "thinking": {"type": "adaptive"}, `+messages+`}`)
}
