package recording

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

// Items returns the conversation in a request: words, thoughts, calls and results, without the text that
// the agent adds about its settings and the directory.
func Items(messages []fakemodel.Message) (items []string) {
	for _, m := range messages {
		if m.Role == "system" || m.Role == "developer" {
			continue
		}
		for _, b := range m.Blocks {
			if item := itemOf(m.Role, b); item != "" {
				items = append(items, item)
			}
		}
	}
	return items
}

func itemOf(role string, b fakemodel.Block) string {
	switch b.Type {
	case "thinking":
		return encode("think", b.Text)
	case "tool_use":
		var input any
		_ = json.Unmarshal([]byte(b.Input), &input) // a call without input has none
		return encode("tool_use", b.ID, b.Name, input)
	case "tool_result":
		return encode("tool_result", b.ID, b.Text, b.Error)
	}
	text := strings.TrimSpace(b.Text)
	for _, start := range []string{"<system-reminder>", "<environment_context>", "<skills_instructions>", "<local-command-caveat>"} {
		if strings.HasPrefix(text, start) {
			return ""
		}
	}
	return encode(role, strings.TrimRight(b.Text, "\n")) // the agent joins messages of the user with line breaks
}

// Context returns the items that the agent sends if it continues from a record. "" means the record from
// which the agent would continue.
func (l *Claude) Context(leaf string) []string {
	var head string
	if leaf == "" {
		head = l.Head()
	} else {
		l.ApplyCompaction()
		head = l.Message(leaf)
	}
	var messages []any
	for _, r := range clean(l.Messages(head)) {
		messages = append(messages, r["message"])
	}
	return Items(request("/v1/messages", "messages", messages))
}

// request returns the messages of a request with these items.
func request(path, key string, items []any) []fakemodel.Message {
	body, err := json.Marshal(map[string]any{key: items})
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return fakemodel.Request{Method: http.MethodPost, Path: path, Body: body}.Messages()
}

// clean changes the messages of a loaded transcript as Claude Code does before it sends them: it omits
// calls without a result and errors of the API, and it answers a prompt that has no answer.
func clean(rows []Row) []Row {
	rows = slices.DeleteFunc(rows, func(r Row) bool { return !isMessage(r) })
	answered := map[any]bool{}
	for _, r := range rows {
		for _, b := range blocks(r) {
			answered[b["tool_use_id"]] = true
		}
	}
	var out []Row
	for _, r := range rows {
		list := blocks(r)
		kept := slices.DeleteFunc(slices.Clone(list), func(b Row) bool { return b["type"] == "tool_use" && !answered[b["id"]] })
		if len(kept) < len(list) {
			if len(kept) == 0 {
				continue
			}
			message := r["message"].(Row)
			r = Row{"type": r["type"], "message": Row{"role": message["role"], "content": kept}}
		}
		out = append(out, r)
	}
	if n := len(out); n > 0 && str(out[n-1], "type") == "user" {
		out = append(out, Row{"type": "assistant", "message": Row{"role": "assistant", "content": "No response requested."}})
	}
	return slices.DeleteFunc(out, func(r Row) bool { return r["isApiErrorMessage"] == true })
}

// blocks are the blocks of a message's content, none for a text.
func blocks(r Row) (out []Row) {
	m, _ := r["message"].(Row)
	content, _ := m["content"].([]any)
	for _, b := range content {
		if block, ok := b.(Row); ok {
			out = append(out, block)
		}
	}
	return out
}

// Records returns all records of the conversation that ends at a message, oldest first, as texts without
// the session's id.
func (l *Claude) Records(head string) []string {
	var out []string
	for _, r := range l.Messages(head) {
		delete(r, "sessionId")
		delete(r, "parentUuid") // records that a compaction re-attached are compared by order
		data, err := json.Marshal(r)
		if err != nil {
			panic(err) // it was decoded from JSON
		}
		out = append(out, string(data))
	}
	return out
}
