package anthropic_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/anthropic"
	"github.com/dalsegno/segno/internal/testing/modelrig"
)

func TestTheRequestHoldsTheConversation(t *testing.T) {
	s := newServer(t, whole("end_turn", text("ok")...))
	thought := `{"type":"thinking","thinking":"a < b","signature":"c2ln"}`
	hidden := `{"type":"redacted_thinking","data":"xyz"}`
	_, _, err := modelrig.Ask(t, s.model(), agent.Request{
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
	modelrig.SameJSON(t, s.Requests()[0], `{
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
				{"type": "text", "text": "[file that cannot be shown: z.zip, application/zip, 2 bytes]", "cache_control": {"type": "ephemeral"}}
			]},
			{"role": "assistant", "content": [
				`+thought+`, `+hidden+`,
				{"type": "text", "text": "I look"},
				{"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"z": 1, "a": "<x>"}},
				{"type": "tool_use", "id": "functions_read_1_08bea971", "name": "read", "input": {}}
			]},
			{"role": "user", "content": [
				{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "seen"}, {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "Z2lm"}}]},
				{"type": "tool_result", "tool_use_id": "functions_read_1_08bea971", "is_error": true, "content": [{"type": "text", "text": "error"}]},
				{"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}}
			]}
		]}`)
	if !strings.Contains(s.Requests()[0], `"z":1,"a":`) {
		t.Error("the arguments' keys changed places, which spoils the prompt cache")
	}
	if got := s.LastHeader().Get("X-Api-Key"); got != "secret-key" {
		t.Errorf("the key was sent as %q", got)
	}
}

func TestThoughtsOfOtherModelsStayBehind(t *testing.T) {
	s := newServer(t, whole("end_turn", text("ok")...))
	think := func(model, data string) agent.Message {
		return agent.Message{Role: agent.Assistant, Model: model, Parts: []agent.Part{{Text: "said"}, {Thinking: &agent.Thinking{Text: "secret thought", Data: json.RawMessage(data)}}}}
	}
	_, _, err := modelrig.Ask(t, s.model(), agent.Request{Messages: []agent.Message{
		agent.Text("a"), think("openai/gpt", `{"any":"thing"}`), agent.Text("b"),
		think("anthropic/claude-other", `{"type":"thinking","thinking":"secret thought","signature":"s"}`), agent.Text("c"),
		think("anthropic/claude-test", ``), agent.Text("d"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Requests()[0]; strings.Contains(got, "secret thought") || strings.Contains(got, "any") {
		t.Errorf("sent %s", got)
	}
}

func TestBlocksAreReturnedUnchanged(t *testing.T) {
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
	_, reply, err := modelrig.Ask(t, m, modelrig.Hello())
	if err != nil {
		t.Fatal(err)
	}
	log, err := json.Marshal(reply.Message) // as the log stores it
	if err != nil {
		t.Fatal(err)
	}
	var kept agent.Message
	if err := json.Unmarshal(log, &kept); err != nil {
		t.Fatal(err)
	}
	result := agent.Message{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{Call: "toolu_9", Name: "add", Text: "3"}}}}
	if _, _, err = modelrig.Ask(t, m, agent.Request{Messages: []agent.Message{modelrig.Hello().Messages[0], kept, result}}); err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Messages []struct{ Content []json.RawMessage }
	}
	if err := json.Unmarshal([]byte(s.Requests()[1]), &sent); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"type":"thinking","thinking":"is 1 < 2 & \"so\"?","signature":"EqQB+/=="}`,
		`{"type":"redacted_thinking","data":"RED+/="}`,
		`{"type":"text","text":"yes"}`,
		`{"type":"tool_use","id":"toolu_9","name":"add","input":{"y":1.0,"x":12345678901234567890}}`,
	}
	for i, w := range want {
		modelrig.SameJSON(t, string(sent.Messages[1].Content[i]), w)
	}
	if got := string(sent.Messages[1].Content[3]); !strings.Contains(got, `"y":1.0,"x":12345678901234567890`) {
		t.Errorf("the arguments came back as %s", got)
	}
}

func TestThinkingIsAskedFor(t *testing.T) {
	s := newServer(t, whole("end_turn", text("ok")...))
	for _, m := range []agent.Model{s.model(anthropic.Options{MaxTokens: 500}), s.model(anthropic.Options{ThinkingBudget: 2048}), s.model(anthropic.Options{Thinking: true})} {
		if _, _, err := modelrig.Ask(t, m, modelrig.Hello()); err != nil {
			t.Fatal(err)
		}
	}
	messages := `"messages": [{"role": "user", "content": [{"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}]}]`
	modelrig.SameJSON(t, s.Requests()[0], `{"model": "claude-test", "max_tokens": 500, "stream": true, `+messages+`}`)
	modelrig.SameJSON(t, s.Requests()[1], `{"model": "claude-test", "max_tokens": 18432, "stream": true, "thinking": {"type": "enabled", "budget_tokens": 2048}, `+messages+`}`)
	modelrig.SameJSON(t, s.Requests()[2], `{"model": "claude-test", "max_tokens": 16384, "stream": true, "thinking": {"type": "adaptive"}, `+messages+`}`)
}

func TestCacheLifetimeIsAskedFor(t *testing.T) {
	for lifetime, want := range map[time.Duration]string{0: `{"type":"ephemeral"}`, 5 * time.Minute: `{"type":"ephemeral"}`, time.Hour: `{"type":"ephemeral","ttl":"1h"}`} {
		r := agent.Request{System: "be brief", Messages: modelrig.Hello().Messages, Tools: []agent.ToolSpec{{Name: "read"}}}
		body := sent(t, r, anthropic.Options{CacheLifetime: lifetime})
		if n, all := strings.Count(body, `"cache_control":`+want), strings.Count(body, "cache_control"); n != 3 || all != 3 {
			t.Errorf("%s: %d of %d marks are %s in %s", lifetime, n, all, want, body)
		}
	}
}

// sent returns the request that a server received.
func sent(t *testing.T, r agent.Request, opts ...anthropic.Options) string {
	t.Helper()
	s := newServer(t, whole("end_turn", text("ok")...))
	if _, _, err := modelrig.Ask(t, s.model(opts...), r); err != nil {
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

// wire is a request as the API reads it.
type wire struct {
	Tools []struct {
		Name   string
		Schema json.RawMessage `json:"input_schema"`
	}
	Choice struct{ Type string } `json:"tool_choice"`
	Think  struct{ Type string } `json:"thinking"`
	Most   int                   `json:"max_tokens"`
	System []struct {
		Mark json.RawMessage `json:"cache_control"`
	}
	Messages []struct {
		Role    string
		Content []struct {
			Type, ID, Name string
			Input          json.RawMessage
			For            string          `json:"tool_use_id"`
			Mark           json.RawMessage `json:"cache_control"`
		}
	}
}

func read(t *testing.T, body string) (w wire) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &w); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestCallsNeedTools(t *testing.T) {
	messages := calling(agent.Call{ID: "a", Name: "ls"}, agent.Call{ID: "b", Name: "fs.read"}, agent.Call{ID: "c", Name: "ls"})
	none := read(t, sent(t, agent.Request{Messages: messages}))
	if len(none.Tools) != 2 || none.Tools[0].Name != "ls" || none.Tools[1].Name != none.Messages[1].Content[1].Name || string(none.Tools[0].Schema) != `{"type":"object"}` || none.Choice.Type != "none" {
		t.Errorf("without tools: %+v, choice %q", none.Tools, none.Choice.Type)
	}
	own := agent.Request{Messages: messages, Tools: []agent.ToolSpec{{Name: "ls"}}}
	if got := read(t, sent(t, own)); len(got.Tools) != 1 || got.Choice.Type != "" {
		t.Errorf("with tools: %+v, choice %q", got.Tools, got.Choice.Type)
	}
	own.NoCalls = true
	if got := read(t, sent(t, own)); len(got.Tools) != 1 || got.Choice.Type != "none" {
		t.Errorf("no calls now: %+v, choice %q", got.Tools, got.Choice.Type)
	}
	if got := sent(t, agent.Request{Messages: modelrig.Hello().Messages, NoCalls: true}); strings.Contains(got, "tool") {
		t.Errorf("no tools at all: %s", got)
	}
}

func TestArgumentsGoBackAsAnObject(t *testing.T) {
	for args, want := range map[string]string{
		`{"a": 1}`:          `{"a":1}`,
		``:                  `{}`,
		`null`:              `{}`,
		`"{\"path\": \"<x"`: `{"invalid_json":"{\"path\": \"<x"}`,
		`[1, 2]`:            `{"invalid_json":"[1, 2]"}`,
		`{"a":`:             `{"invalid_json":"{\"a\":"}`,
	} {
		got := read(t, sent(t, agent.Request{Messages: calling(agent.Call{ID: "a", Name: "ls", Args: json.RawMessage(args)})}))
		modelrig.SameJSON(t, string(got.Messages[1].Content[0].Input), want)
	}
}

func TestNamesAndIDsThatTheAPIRefusesAreReplaced(t *testing.T) {
	long := strings.Repeat("x", 65)
	got := read(t, sent(t, agent.Request{Messages: calling(
		agent.Call{ID: "a.b", Name: "multi_tool_use.parallel"}, agent.Call{ID: "a_b", Name: "multi_tool_use_parallel"},
		agent.Call{ID: "a:b", Name: long}, agent.Call{ID: "", Name: long + "y"}, agent.Call{ID: long, Name: "größe"}, agent.Call{ID: long + "y", Name: ""})}))
	fits := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	names, ids := map[string]bool{}, map[string]bool{}
	for i, c := range got.Messages[1].Content {
		if !fits.MatchString(c.Name) || !fits.MatchString(c.ID) || names[c.Name] || ids[c.ID] {
			t.Errorf("call %d is %q, named %q", i, c.ID, c.Name)
		}
		if result := got.Messages[2].Content[i]; result.For != c.ID {
			t.Errorf("the result of call %q is that of %q", c.ID, result.For)
		}
		names[c.Name], ids[c.ID] = true, true
	}
	if !names["multi_tool_use_parallel"] || !ids["a_b"] {
		t.Errorf("what the API takes was changed: %v, %v", names, ids)
	}
}

func TestOddToolNameIsRestored(t *testing.T) {
	r := agent.Request{Messages: modelrig.Hello().Messages, Tools: []agent.ToolSpec{{Name: "fs.read"}, {Name: "fs_read"}}}
	tools := read(t, sent(t, r)).Tools
	odd, plain := tools[0].Name, tools[1].Name
	if odd == "fs.read" || odd == plain {
		t.Fatalf("the tools are called %q and %q", odd, plain)
	}
	s := newServer(t, whole("tool_use",
		`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"`+odd+`","input":{}}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"b","name":"fs_read","input":{}}}`,
		`{"type":"content_block_stop","index":1}`))
	_, reply, err := modelrig.Ask(t, s.model(), r)
	if err != nil {
		t.Fatal(err)
	}
	if calls := reply.Message.Calls(); calls[0].Name != "fs.read" || calls[1].Name != "fs_read" {
		t.Errorf("the calls are %+v", calls)
	}
}

// TestEachStepFindsTheCacheOfTheLast sends steps with more calls than the distance that the
// API searches back in its cache.
func TestEachStepFindsTheCacheOfTheLast(t *testing.T) {
	r := agent.Request{System: "be brief", Tools: []agent.ToolSpec{{Name: "ls"}}, Messages: modelrig.Hello().Messages}
	var before int // where the previous request was marked
	for step := range 4 {
		got := read(t, sent(t, r))
		var at []int
		blocks := 0
		for _, m := range got.Messages {
			for _, b := range m.Content {
				if blocks++; b.Mark != nil {
					at = append(at, blocks)
				}
			}
		}
		if len(at) > 2 || len(at) == 0 || at[len(at)-1] != blocks || step > 0 && at[0] != before {
			t.Errorf("step %d: of %d blocks %v are marked, before it was the %dth", step, blocks, at, before)
		}
		before = blocks
		var calls []agent.Call
		for i := range 12 {
			calls = append(calls, agent.Call{ID: fmt.Sprintf("%d-%d", step, i), Name: "ls"})
		}
		r.Messages = append(r.Messages, calling(calls...)[1:]...)
	}
}

func TestThinkingIsAskedForWhereItMayBe(t *testing.T) {
	thought := agent.Part{Thinking: &agent.Thinking{Text: "hm", Data: json.RawMessage(`{"type":"thinking","thinking":"hm","signature":"s"}`)}}
	step := func(model, id string, first ...agent.Part) []agent.Message {
		all := calling(agent.Call{ID: id, Name: "ls"})[1:]
		all[0].Model, all[0].Parts = model, append(first, all[0].Parts...)
		return all
	}
	mine, other := "anthropic/claude-test", "openai/other"
	for name, c := range map[string]struct {
		messages [][]agent.Message
		thinks   bool
	}{
		"a turn begins":            {[][]agent.Message{modelrig.Hello().Messages}, true},
		"in its midst":             {[][]agent.Message{modelrig.Hello().Messages, step(mine, "a", thought)}, true},
		"later":                    {[][]agent.Message{modelrig.Hello().Messages, step(mine, "a", thought), step(mine, "b")}, true},
		"another model's":          {[][]agent.Message{modelrig.Hello().Messages, step(other, "a", thought)}, false},
		"without a thought":        {[][]agent.Message{modelrig.Hello().Messages, step(mine, "a")}, false},
		"the turn after":           {[][]agent.Message{modelrig.Hello().Messages, step(mine, "a"), modelrig.Hello().Messages, step(mine, "b", thought)}, true},
		"asked after another's":    {[][]agent.Message{modelrig.Hello().Messages, step(other, "a"), {{Role: agent.Assistant, Model: other, Parts: []agent.Part{{Text: "done"}}}}, modelrig.Hello().Messages}, true},
		"the turn after a thought": {[][]agent.Message{modelrig.Hello().Messages, step(mine, "a", thought), modelrig.Hello().Messages, step(other, "b")}, false},
	} {
		r := agent.Request{Messages: slices.Concat(c.messages...), Tools: []agent.ToolSpec{{Name: "ls"}}, MaxTokens: 100}
		got := read(t, sent(t, r, anthropic.Options{ThinkingBudget: 2048}))
		if thinks := got.Think.Type == "enabled"; thinks != c.thinks || thinks != (got.Most == 2148) {
			t.Errorf("%s: thinking is %q, %d tokens", name, got.Think.Type, got.Most)
		}
		if got := read(t, sent(t, r, anthropic.Options{Thinking: true})); got.Think.Type != "adaptive" {
			t.Errorf("%s: a model that decides itself was asked for %q", name, got.Think.Type)
		}
	}
}

func TestInvalidSchemaIsReported(t *testing.T) {
	s := newServer(t, whole("end_turn", text("ok")...))
	_, _, err := modelrig.Ask(t, s.model(), agent.Request{Messages: modelrig.Hello().Messages, Tools: []agent.ToolSpec{{Name: "ls", Schema: json.RawMessage(`{bad`)}}})
	if modelrig.IsTransient(err) || segno.KindOf(err) != segno.KindInvalid || len(s.Requests()) > 0 {
		t.Errorf("%T %v of kind %v", err, err, segno.KindOf(err))
	}
}
