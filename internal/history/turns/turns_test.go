package turns_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/transcript"
)

func body(t *testing.T, v any) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func message(t *testing.T, author, text string) segno.Entry {
	return segno.Entry{Kind: segno.EntryMessage, Name: author, Body: body(t, text)}
}

// TestReadMergesAnnouncements reads a call that the agent announced three times before it ended.
func TestReadMergesAnnouncements(t *testing.T) {
	intent := func(text string) segno.Entry {
		return segno.Entry{Kind: segno.EntryIntent, ID: "c", Name: "execute", Body: json.RawMessage(text)}
	}
	entries := []segno.Entry{message(t, "user", "do it"), intent(`{"title":"A command in the terminal of the editor","kind":"execute"}`),
		intent(`{"title":"make","kind":"execute","input":{"command":"make test"}}`), intent(`{"title":"make test","kind":"execute","input":null}`),
		{Kind: segno.EntryResult, ID: "c", Body: json.RawMessage("{\"status\":\"completed\",\"content\":[{\"type\":\"content\",\"content\":{\"type\":\"text\",\"text\":\"```\\nok\\n```\"}}],\"output\":{\"exit_code\":2}}")},
		message(t, "user", "and this"), message(t, "agent", "Do"), message(t, "agent", "Done.")}
	got := turns.Read([]segno.Node{{Entries: entries}}, &segno.Checkpoint{})
	calls := got.Calls()
	if len(calls) != 1 || calls[0].Subject(80) != "make test" || calls[0].Result != "ok\n" || !calls[0].Failed || calls[0].Exit == nil || *calls[0].Exit != 2 {
		t.Errorf("calls: %+v", calls)
	}
	if got.Prompt != "do it" || got.Answer() != "Done." || len(got.Items) != 3 || got.Items[1].Text != "and this" {
		t.Errorf("%+v", got)
	}
}

// TestSubjects checks the subject of calls by their recorded inputs.
func TestSubjects(t *testing.T) {
	for _, x := range []struct{ tool, body, subject, input string }{
		{"Bash", `{"command":"go test\n./...","description":"tests"}`, "go test ./...", "command:\ngo test\n./...\ndescription: tests\n"},
		{"shell", `{"command":["bash","-lc","ls -l"]}`, "ls -l", ""},
		{"shell", `{"command":["ls","-l"]}`, "ls -l", ""},
		{"write", `{"filePath":"a.go","content":"x"}`, "a.go", ""},
		{"mcp__t__create_issue", `{"title":"Crash","body":"it fails"}`, "Crash", "title: Crash\nbody: it fails\n"},
		{"mcp__t__roll", `{"sides":6,"times":2}`, "sides: 6 times: 2", ""},
		{"other", `{"title":"Look around","kind":"other"}`, "Look around", "Look around"},
		{"other", `{"title":"Look","kind":"other","input":{"x":1}}`, "Look", "x: 1\n"},
		{"Write", `{"clipped":{"head":"{\"content\":\"xx","tail":"yy\"}","bytes":70000},"file_path":"/far/big"}`, "/far/big", ""},
		{"execute", `{"clipped":{"head":"{\"title\":\"Run it\",\"kind\":\"execute\",\"input\":{\"x","tail":"}","bytes":70000}}`, "Run it", ""},
		{"think", `{}`, "", ""},
	} {
		var got turns.Turn
		got.Add(segno.Entry{Kind: segno.EntryIntent, ID: "c", Name: x.tool, Body: json.RawMessage(x.body)})
		c := got.Calls()[0]
		if s := c.Subject(80); s != x.subject {
			t.Errorf("%s %s: subject %q, want %q", x.tool, x.body, s, x.subject)
		}
		if in := c.InputText(); x.input != "" && in != x.input {
			t.Errorf("%s %s: input %q, want %q", x.tool, x.body, in, x.input)
		}
	}
	long := turns.Call{Tool: "Bash", Input: body(t, map[string]string{"command": strings.Repeat("é", 500)})}
	if got := long.Subject(20); got != strings.Repeat("é", 20)+"…" {
		t.Errorf("a long subject: %q", got)
	}
}

// TestResults checks the text and the outcome of recorded results.
func TestResults(t *testing.T) {
	for _, x := range []struct {
		body, text          string
		failed, interrupted bool
	}{
		{`{"response":{"stdout":"out","stderr":"err"},"exit":0}`, "out\nerr", false, false},
		{`{"error":"Exit code 3","exit":3}`, "Exit code 3", true, false},
		{`{"error":null,"response":"ok"}`, "ok", false, false},
		{`{"response":{"stdout":"half","interrupted":true}}`, "half", false, true},
		{`{"exit":1,"duration_ms":5}`, "", true, false},
		{`{"status":"failed","output":"no"}`, "no", true, false},
		{`{"error":false}`, "", false, false},
		{`{"response":{"cell_id":"c1","error":""}}`, `{"cell_id":"c1","error":""}`, false, false}, // NotebookEdit of Claude Code
		{`"plain"`, "plain", false, false},
		{`{"rows":3}`, `{"rows":3}`, false, false},
	} {
		r := turns.ReadResult(json.RawMessage(x.body))
		if r.Text != x.text || r.Failed() != x.failed || r.Interrupted != x.interrupted {
			t.Errorf("%s: %q, failed %t, interrupted %t", x.body, r.Text, r.Failed(), r.Interrupted)
		}
	}
}

// TestReadMessagesOfAGoAgent reads messages as package agent encodes them.
func TestReadMessagesOfAGoAgent(t *testing.T) {
	blob := &agent.Blob{Type: "image/png", Data: []byte("png"), URL: "u"}
	entry := func(m agent.Message) segno.Entry {
		return segno.Entry{Kind: segno.EntryMessage, Turn: 2, Name: string(m.Role), Body: body(t, m)}
	}
	c := &segno.Checkpoint{Kind: segno.CheckpointStep, Turn: 2, Step: 3, Prompt: "look"}
	got := turns.Read([]segno.Node{{Entries: []segno.Entry{
		{Kind: segno.EntryMessage, Turn: 1, Body: body(t, agent.Text("earlier"))},
		entry(agent.Message{Role: agent.User, Parts: []agent.Part{{Text: "look"}, {Image: blob}}}),
		entry(agent.Message{Role: agent.Assistant, Model: "m", Parts: []agent.Part{{Thinking: &agent.Thinking{Text: "hm"}}, {Text: "I look."}, {Text: "Now."},
			{Call: &agent.Call{ID: "1", Name: "read_file", Args: json.RawMessage(`{"path":"a.go"}`)}}}}),
		entry(agent.Message{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{Call: "1", Name: "read_file", Text: "no file", Error: true, Parts: []agent.Part{{Image: blob}}}}}}),
		{Kind: segno.EntryMessage, Turn: 2, Body: json.RawMessage(`[]`)},
	}}}, c)
	calls := got.Calls()
	if len(calls) != 1 || calls[0].Subject(80) != "a.go" || !calls[0].Failed || calls[0].Status != "failed" || calls[0].Result != "no file" || len(calls[0].Images) != 1 {
		t.Errorf("calls: %+v", calls)
	}
	isImage := func(i turns.Image) bool { return i.Type == blob.Type && string(i.Data) == "png" && i.URL == blob.URL }
	if got.Model != "m" || got.Answer() != "I look.\nNow." || len(got.Images) != 1 || !slices.ContainsFunc(got.Images, isImage) || len(got.Damage) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestUsageInEntries reads what a Go agent records, and what agents report over ACP: with the cached tokens in the input, and
// beside it.
func TestUsageInEntries(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	end := func(usage string) segno.Entry {
		return segno.Entry{Kind: segno.EntryNote, Name: "end", Body: json.RawMessage(`{"stop":"end_turn","usage":` + usage + `}`)}
	}
	c := &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1}
	for _, x := range []struct {
		entry segno.Entry
		want  transcript.Tokens
	}{
		{segno.Entry{Kind: segno.EntryUsage, Name: "m", Body: body(t, agent.Usage{Input: 9, Output: 2, CacheRead: 4})}, transcript.Tokens{Input: 9, Output: 2, CacheRead: n(4)}},
		{end(`{"inputTokens":50,"outputTokens":10,"cachedReadTokens":7,"cachedWriteTokens":3,"totalTokens":70}`), transcript.Tokens{Input: 60, Output: 10, CacheRead: n(7), CacheWrite: n(3)}},
		{end(`{"inputTokens":50,"outputTokens":10,"cachedReadTokens":7,"totalTokens":60}`), transcript.Tokens{Input: 50, Output: 10, CacheRead: n(7)}},
		{end(`null`), transcript.Tokens{}},
		{end(`{"inputTokens":0,"outputTokens":0,"totalTokens":0}`), transcript.Tokens{}},
		{segno.Entry{Kind: segno.EntryUsage, Name: "m", Body: json.RawMessage(`{}`)}, transcript.Tokens{}},
	} {
		got := turns.Read([]segno.Node{{Entries: []segno.Entry{x.entry}}}, c).Usage
		if len(got) == 0 {
			got = append(got, transcript.Usage{})
		}
		if diff := cmp.Diff(x.want, got[0].Tokens); diff != "" || len(got) != 1 {
			t.Errorf("%s: %s", x.entry.Body, diff)
		}
	}
}
