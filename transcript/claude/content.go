package claude

import (
	"strings"

	"github.com/dalsegno/segno/internal/jsonscan"
)

// field returns the value of an object's key. It is nil if there is none, or if obj is not
// an object. obj must be well-formed JSON.
func field(obj []byte, name string) []byte {
	return jsonscan.Find(obj, jsonscan.Span{To: len(obj)}, name).Of(obj)
}

// textOf returns the text blocks of a message's content, joined by newlines.
func textOf(content []byte) string {
	if words := jsonscan.Inside(content); words != nil {
		return jsonscan.Decode(words)
	}
	var parts []string
	jsonscan.Elements(content, 0, func(at jsonscan.Span) {
		if block := at.Of(content); string(field(block, "type")) == `"text"` {
			parts = append(parts, jsonscan.Text(field(block, "text")))
		}
	})
	return strings.Join(parts, "\n")
}

// hasToolResult reports whether a message's content has the result of a tool.
func hasToolResult(content []byte) (found bool) {
	jsonscan.Elements(content, 0, func(at jsonscan.Span) {
		found = found || string(field(at.Of(content), "type")) == `"tool_result"`
	})
	return found
}

// turnPart is what a record says, as far as the division into turns depends on it.
type turnPart struct {
	role   role
	text   string // of a prompt, as the user typed it
	key    string // the agent's id of the prompt
	source string // the record's uuid in the session it was copied from
}

// role is what a record does in a turn.
type role uint8

const (
	roleNone    role = iota
	rolePrompt       // begins a turn
	roleCommand      // a slash command: begins a turn if the agent answers it
	roleReply        // the agent's own words
	roleNotice       // words that the program wrote as the agent's: an error, "No response requested."
)

// turnPartOf returns what r says, nil for nothing.
func turnPartOf(r *record) *turnPart {
	out := &turnPart{key: jsonscan.Decode(r.promptID), source: jsonscan.Text(field(r.forkedFrom, "messageUuid"))}
	switch {
	case r.isSidechain:
	case r.kind == kindAssistant:
		out.role = roleReply
		if string(field(r.message, "model")) == `"<synthetic>"` {
			out.role = roleNotice
		}
	case r.kind == kindUser && !r.isMeta && !r.isSummary:
		out.role, out.text = readPrompt(r)
	}
	if *out == (turnPart{}) {
		return nil
	}
	return out
}

// readPrompt distinguishes a prompt from the other records that the agent writes as the
// user's: tool results, the output of commands, notes about an interruption, and the
// report of a background task, which belongs to the turn that started it.
func readPrompt(r *record) (role, string) {
	content := field(r.message, "content")
	if hasToolResult(content) {
		return roleNone, ""
	}
	words := textOf(content)
	for _, prefix := range []string{interruptMark, "<local-command-", "<bash-stdout>", "<bash-stderr>", "<task-notification>"} {
		if strings.HasPrefix(words, prefix) {
			return roleNone, ""
		}
	}
	if beginsWithTag(words) && !r.isSubmitted {
		return roleCommand, typedCommand(words)
	}
	return rolePrompt, words
}

// beginsWithTag reports whether words begin with a tag, as the records of commands do.
func beginsWithTag(words string) bool {
	words = strings.TrimLeft(words, " \t\r\n")
	return len(words) > 1 && words[0] == '<' && words[1] >= 'a' && words[1] <= 'z'
}

// typedCommand turns the tags of a slash command into what the user typed.
func typedCommand(words string) string {
	name := element(words, "command-name")
	if name == "" {
		return words
	}
	return strings.TrimSpace(name + " " + element(words, "command-args"))
}

// element returns the text inside the first element with a tag.
func element(words, tag string) string {
	_, after, _ := strings.Cut(words, "<"+tag+">")
	inside, _, found := strings.Cut(after, "</"+tag+">")
	if !found {
		return ""
	}
	return strings.TrimSpace(inside)
}
