package openai_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/openai"
	"github.com/dalsegno/segno/internal/testing/modelrig"
)

func TestTheRequestHoldsTheConversation(t *testing.T) {
	s := newServer(t, whole("stop", ok))
	_, _, err := modelrig.Ask(t, s.model(), agent.Request{
		System: "be brief",
		Messages: []agent.Message{
			agent.Text("old"),
			{Role: agent.Assistant, Parts: []agent.Part{{Text: "one"}, {Text: "two"}}},
			{Role: agent.User, Parts: []agent.Part{
				{Text: "look"},
				{Image: &agent.Blob{Type: "image/png", Data: []byte("png")}},
				{Image: &agent.Blob{Type: "image/jpeg", URL: "https://example.com/a.jpg"}},
				{Image: &agent.Blob{Type: "image/png", Name: "lost"}},
				{File: &agent.Blob{Type: "application/pdf", Name: "a.pdf", Data: []byte("%PDF")}},
				{File: &agent.Blob{Type: "text/csv", Name: "t.csv", Data: []byte("1,2")}},
				{File: &agent.Blob{Type: "application/zip", Name: "z.zip", Data: []byte{0xff, 0xfe}}},
			}},
			{Role: agent.Assistant, Model: "anthropic/claude", Parts: []agent.Part{
				{Thinking: &agent.Thinking{Text: "other thought", Data: json.RawMessage(`{"reasoning":"other thought"}`)}},
				{Call: &agent.Call{ID: "call_1", Name: "read", Args: json.RawMessage(`{"z":1,"a":"<x>"}`)}},
				{Call: &agent.Call{ID: "call_2", Name: "read", Args: json.RawMessage(`"{\"broken"`)}},
				{Call: &agent.Call{ID: "call_3", Name: "wait", Args: nil}},
			}},
			{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{Call: "call_1", Name: "read", Text: "seen",
				Parts: []agent.Part{{Image: &agent.Blob{Type: "image/gif", Data: []byte("gif")}}}}}}},
			{Role: agent.ToolRole, Parts: []agent.Part{
				{Result: &agent.Result{Call: "call_2", Name: "read", Text: "no JSON", Error: true}},
				{Result: &agent.Result{Call: "call_3", Name: "wait"}}}},
			{Role: agent.User, Parts: []agent.Part{{Text: " \n"}, {Text: "go on"}}},
		},
		Tools: []agent.ToolSpec{
			{Name: "read", Description: "reads", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)},
			{Name: "wait"},
		},
		MaxTokens: 99,
		Thread:    "thread-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	modelrig.SameJSON(t, s.Requests()[0], `{
		"model": "test", "max_tokens": 99, "stream": true, "stream_options": {"include_usage": true},
		"tools": [
			{"type": "function", "function": {"name": "read", "description": "reads", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}},
			{"type": "function", "function": {"name": "wait"}}
		],
		"messages": [
			{"role": "system", "content": "be brief"},
			{"role": "user", "content": "old"},
			{"role": "assistant", "content": "one\ntwo"},
			{"role": "user", "content": [
				{"type": "text", "text": "look"},
				{"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
				{"type": "image_url", "image_url": {"url": "https://example.com/a.jpg"}},
				{"type": "text", "text": "[image that cannot be shown: lost, image/png]"},
				{"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
				{"type": "text", "text": "File t.csv:\n1,2"},
				{"type": "text", "text": "[file that cannot be shown: z.zip, application/zip, 2 bytes]"}
			]},
			{"role": "assistant", "tool_calls": [
				{"type": "function", "id": "call_1", "function": {"name": "read", "arguments": "{\"z\":1,\"a\":\"<x>\"}"}},
				{"type": "function", "id": "call_2", "function": {"name": "read", "arguments": "{\"invalid_json\":\"{\\\"broken\"}"}},
				{"type": "function", "id": "call_3", "function": {"name": "wait", "arguments": "{}"}}
			]},
			{"role": "tool", "tool_call_id": "call_1", "content": "seen"},
			{"role": "tool", "tool_call_id": "call_2", "content": "error: no JSON"},
			{"role": "tool", "tool_call_id": "call_3", "content": "(no output)"},
			{"role": "user", "content": [
				{"type": "text", "text": "From read:"},
				{"type": "image_url", "image_url": {"url": "data:image/gif;base64,Z2lm"}},
				{"type": "text", "text": "go on"}
			]}
		]}`)
	if got := s.LastHeader().Get("Authorization"); got != "Bearer secret-key" {
		t.Errorf("the key was sent as %q", got)
	}
}

func TestALocalServerNeedsNoKey(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	s := newServer(t, whole("stop", ok))
	m := openai.New("test", openai.Options{BaseURL: s.URL + "/v1", HTTPClient: s.Client(), Effort: "low", MaxTokens: 5})
	if _, reply, err := modelrig.Ask(t, m, modelrig.Hello()); err != nil || reply.Message.Text() != "ok" || m.Name() != "openai/test" {
		t.Fatalf("%v, %v", reply, err)
	}
	modelrig.SameJSON(t, s.Requests()[0], `{"model": "test", "max_tokens": 5, "reasoning_effort": "low", "stream": true, "stream_options": {"include_usage": true},
		"messages": [{"role": "user", "content": "hello"}]}`)
}

// TestOpenAIsOwnParameters sends to OpenAI's host name, which a transport of this test redirects to
// loopback.
func TestOpenAIsOwnParameters(t *testing.T) {
	s := newServer(t, whole("stop", ok))
	hc := s.Redirect()
	m := openai.New("test", openai.Options{BaseURL: "https://api.openai.com/v1", Key: "secret-key", HTTPClient: hc, MaxTokens: 5})
	r := modelrig.Hello()
	r.Thread = "my thread"
	if _, _, err := modelrig.Ask(t, m, r); err != nil {
		t.Fatal(err)
	}
	modelrig.SameJSON(t, s.Requests()[0], `{"model": "test", "max_completion_tokens": 5, "stream": true, "stream_options": {"include_usage": true},
		"prompt_cache_key": "05e1d4ffa66ffa9ea865a86bb6b9b27d",
		"messages": [{"role": "user", "content": "hello"}]}`)
}

func TestThoughtsGoBackInTheirTurnOnly(t *testing.T) {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		s := newServer(t, whole("tool_calls", `{"`+name+`":"so 1 <"}`, `{"`+name+`":" 2"}`, `{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}]}`), whole("stop", ok))
		m := s.model()
		pieces, reply, err := modelrig.Ask(t, m, modelrig.Hello())
		if err != nil || strings.Join(pieces, "") != "~so 1 <~ 2" || reply.Message.Parts[0].Thinking.Text != "so 1 < 2" {
			t.Fatalf("%s: %q, %+v, %v", name, pieces, reply, err)
		}
		result := agent.Message{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{Call: "a", Name: "ls", Text: "x"}}}}
		log := []agent.Message{modelrig.Hello().Messages[0], reply.Message, result}
		if _, _, err := modelrig.Ask(t, m, agent.Request{Messages: log}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := modelrig.Ask(t, m, agent.Request{Messages: append(log, agent.Text("more"))}); err != nil {
			t.Fatal(err)
		}
		modelrig.SameJSON(t, s.Requests()[1], `{"model": "test", "stream": true, "stream_options": {"include_usage": true}, "messages": [
			{"role": "user", "content": "hello"},
			{"role": "assistant", "`+name+`": "so 1 < 2", "tool_calls": [{"type": "function", "id": "a", "function": {"name": "ls", "arguments": "{}"}}]},
			{"role": "tool", "tool_call_id": "a", "content": "x"}]}`)
		if strings.Contains(s.Requests()[2], "so 1") {
			t.Errorf("%s: an old thought was sent: %s", name, s.Requests()[2])
		}
	}
}

// sent returns the last request that a server received.
func sent(t *testing.T, r agent.Request) string {
	t.Helper()
	s := newServer(t, whole("stop", ok))
	if _, _, err := modelrig.Ask(t, s.model(), r); err != nil {
		t.Fatal(err)
	}
	return s.Requests()[0]
}

// calling is a conversation with calls that have results.
func calling(calls ...agent.Call) []agent.Message {
	called, results := agent.Message{Role: agent.Assistant}, agent.Message{Role: agent.ToolRole}
	for _, c := range calls {
		called.Parts = append(called.Parts, agent.Part{Call: &c})
		results.Parts = append(results.Parts, agent.Part{Result: &agent.Result{Call: c.ID, Name: c.Name, Text: "done"}})
	}
	return []agent.Message{agent.Text("do it"), called, results}
}

func TestArgumentsGoBackAsAnObject(t *testing.T) {
	for args, want := range map[string]string{
		`{"a": 1}`:            `{"a": 1}`,
		``:                    `{}`,
		`null`:                `{}`,
		`"{\"path\": \"<x"`:   `{"invalid_json":"{\"path\": \"<x"}`,
		`"{\"path\": \"x\"}"`: `{"invalid_json":"{\"path\": \"x\"}"}`,
		`[1, 2]`:              `{"invalid_json":"[1, 2]"}`,
		`7`:                   `{"invalid_json":"7"}`,
		`{"a":`:               `{"invalid_json":"{\"a\":"}`,
	} {
		var got struct {
			Messages []struct {
				Calls []struct{ Function struct{ Arguments string } } `json:"tool_calls"`
			}
		}
		body := sent(t, agent.Request{Messages: calling(agent.Call{ID: "a", Name: "ls", Args: json.RawMessage(args)})})
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if text := got.Messages[1].Calls[0].Function.Arguments; text != want {
			t.Errorf("%s went back as %s, want %s", args, text, want)
		}
	}
}

func TestNamesAndIDsThatTheAPIRefusesAreReplaced(t *testing.T) {
	long := strings.Repeat("x", 65)
	vllm := "chatcmpl-tool-0123456789abcdef0123456789abcdef"
	s := newServer(t, whole("stop", ok))
	_, _, err := modelrig.Ask(t, s.model(), agent.Request{Messages: calling(
		agent.Call{ID: vllm, Name: "multi_tool_use.parallel"}, agent.Call{ID: vllm + "0", Name: "multi_tool_use_parallel"},
		agent.Call{ID: "functions.read:0", Name: long}, agent.Call{ID: "", Name: long + "y"}, agent.Call{ID: "b", Name: "größe"}, agent.Call{ID: "c", Name: ""})})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Messages []struct {
			Calls []struct {
				ID       string
				Function struct{ Name string }
			} `json:"tool_calls"`
			For string `json:"tool_call_id"`
		}
	}
	if err := json.Unmarshal([]byte(s.Requests()[0]), &got); err != nil {
		t.Fatal(err)
	}
	fits := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	names, ids := map[string]bool{}, map[string]bool{}
	for i, c := range got.Messages[1].Calls {
		if !fits.MatchString(c.Function.Name) || len(c.ID) > 40 || c.ID == "" || names[c.Function.Name] || ids[c.ID] {
			t.Errorf("call %d is %q, named %q", i, c.ID, c.Function.Name)
		}
		if got.Messages[2+i].For != c.ID {
			t.Errorf("the result of call %q is that of %q", c.ID, got.Messages[2+i].For)
		}
		names[c.Function.Name], ids[c.ID] = true, true
	}
	if !names["multi_tool_use_parallel"] || !ids["functions.read:0"] {
		t.Errorf("what the API takes was changed: %v, %v", names, ids)
	}
}

func TestOddToolNameIsRestored(t *testing.T) {
	tools := []agent.ToolSpec{{Name: "fs.read"}, {Name: "fs_read"}}
	r := agent.Request{Messages: modelrig.Hello().Messages, Tools: tools}
	var got struct {
		Tools []struct{ Function struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(sent(t, r)), &got); err != nil {
		t.Fatal(err)
	}
	odd, plain := got.Tools[0].Function.Name, got.Tools[1].Function.Name
	if odd == "fs.read" || odd == plain {
		t.Fatalf("the tools are called %q and %q", odd, plain)
	}
	s := newServer(t, whole("tool_calls", `{"tool_calls":[{"index":0,"id":"a","function":{"name":"`+odd+`","arguments":"{}"}},{"index":1,"id":"b","function":{"name":"fs_read","arguments":"{}"}}]}`))
	_, reply, err := modelrig.Ask(t, s.model(), r)
	if err != nil {
		t.Fatal(err)
	}
	if calls := reply.Message.Calls(); calls[0].Name != "fs.read" || calls[1].Name != "fs_read" {
		t.Errorf("the calls are %+v", calls)
	}
}

func TestNoCallsNow(t *testing.T) {
	with := agent.Request{Messages: calling(agent.Call{ID: "a", Name: "ls"}), Tools: []agent.ToolSpec{{Name: "ls"}}, NoCalls: true}
	without := with
	without.Tools = nil
	if got := sent(t, with); !strings.Contains(got, `"tool_choice":"none"`) {
		t.Errorf("sent %s", got)
	}
	if got := sent(t, without); strings.Contains(got, "tool_choice") {
		t.Errorf("a choice of no tools was sent: %s", got)
	}
}

func TestEmptyAnswerJoinsUserMessages(t *testing.T) {
	modelrig.SameJSON(t, sent(t, agent.Request{Messages: []agent.Message{agent.Text("hi"), {Role: agent.Assistant}, agent.Text("again")}}),
		`{"model": "test", "stream": true, "stream_options": {"include_usage": true}, "messages": [{"role": "user", "content": "hi\nagain"}]}`)
}

func TestInvalidSchemaIsReported(t *testing.T) {
	s := newServer(t, whole("stop", ok))
	_, _, err := modelrig.Ask(t, s.model(), agent.Request{Messages: modelrig.Hello().Messages, Tools: []agent.ToolSpec{{Name: "ls", Schema: json.RawMessage(`{bad`)}}})
	if modelrig.IsTransient(err) || segno.KindOf(err) != segno.KindInvalid || len(s.Requests()) > 0 {
		t.Errorf("%T %v of kind %v", err, err, segno.KindOf(err))
	}
}
