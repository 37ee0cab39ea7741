package transcript_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/claude"
	"github.com/dalsegno/segno/transcript/codex"
)

// TestEqualCallIDs writes a conversation in which two calls have the same id, and more messages with
// that id behind the agent's own session. Some models count their calls from the beginning of each
// answer. No result may be lost.
func TestEqualCallIDs(t *testing.T) {
	call := func(n int) []transcript.Message {
		return []transcript.Message{
			{Role: transcript.User, Prompt: true, Parts: []transcript.Part{text(fmt.Sprint("prompt ", n))}},
			{Role: transcript.Assistant, Parts: []transcript.Part{{Call: &transcript.Call{ID: "call_1", Name: "shell", Input: json.RawMessage(`{}`)}}}},
			{Role: transcript.User, Parts: []transcript.Part{{Result: &transcript.Result{Call: "call_1", Parts: []transcript.Part{text(fmt.Sprint("result ", n))}}}}},
		}
	}
	for _, name := range []string{claude.Agent, codex.Agent} {
		h := newHomes(t)
		p := h.write(name, transcript.Conversation{Messages: append(call(1), call(2)...)}, nil, firstID)
		p = h.write(name, transcript.Conversation{Messages: append(call(3), call(4)...)}, &p, secondID)
		c := h.read(name, p, "")
		ids, got := map[string]bool{}, strings.Join(items(c), "")
		for _, m := range c.Messages {
			for _, part := range m.Parts {
				if part.Call != nil {
					ids[part.Call.ID] = true
				}
			}
		}
		if len(ids) != 4 {
			t.Errorf("%s: the calls have the ids %v", name, ids)
		}
		for n := 1; n <= 4; n++ {
			if strings.Count(got, fmt.Sprint(`"result `, n, `"`)) != 1 {
				t.Errorf("%s: result %d is not in the conversation:\n%s", name, n, got)
			}
		}
	}
}

// TestWordlessMessages writes messages of the user that have no words. An agent that loads a message
// without content fails.
func TestWordlessMessages(t *testing.T) {
	for _, name := range []string{claude.Agent, codex.Agent} {
		h := newHomes(t)
		c := transcript.Conversation{Messages: []transcript.Message{
			{Role: transcript.User, Prompt: true, Parts: []transcript.Part{text("begin")}},
			{Role: transcript.Assistant, Parts: []transcript.Part{text("begun")}},
			{Role: transcript.User, Prompt: true, Parts: []transcript.Part{text(" ")}},
			{Role: transcript.Assistant, Parts: []transcript.Part{text("one")}},
			{Role: transcript.User, Prompt: true, Parts: []transcript.Part{text(""), text("\n")}},
			{Role: transcript.Assistant, Parts: []transcript.Part{text("two"), text("")}},
		}}
		p := h.write(name, c, nil, firstID)
		got := strings.Join(items(h.read(name, p, "")), "")
		for _, word := range []string{"begin", "begun", "one", "two"} {
			if !strings.Contains(got, `"`+word+`"`) {
				t.Errorf("%s: %q is missing in %s", name, word, got)
			}
		}
		data, err := os.ReadFile(p.Path)
		if err != nil {
			t.Fatal(err)
		}
		for _, empty := range []string{`"content":null`, `"content":""`, `"content":" "`, `"content":[]`, `"text":""}`, `{"type":"text"}`} {
			if name == claude.Agent && strings.Contains(string(data), empty) {
				t.Errorf("%s wrote %s:\n%s", name, empty, data)
			}
		}
	}
}
