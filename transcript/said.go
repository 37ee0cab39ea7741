package transcript

import (
	"encoding/json"
	"iter"
	"strings"
)

// said is what one record says, as far as turns depend on it.
type said struct {
	role   role
	text   string // of a prompt, as a person typed it
	key    string // the agent's id of the prompt
	source string // the uuid it had in the session it was copied from
}

// role is what a record does in a turn.
type role uint8

const (
	roleNone   role = iota
	rolePrompt      // begins a turn
	roleMaybe       // a slash command: begins one if the agent answers
	roleReply       // the agent's own words
	roleNotice      // words put into the agent's mouth: an error, "No response requested."
)

// readSaid returns what r says.
func readSaid(r *record) *said {
	out := &said{key: plain(r.promptID)}
	if r.forkedFrom != nil {
		out.source = plain(quoted(field(r.forkedFrom, "messageUuid")))
	}
	switch {
	case r.sidechain:
	case r.kind == kindAssistant:
		out.role = roleReply
		if string(field(r.message, "model")) == `"<synthetic>"` {
			out.role = roleNotice
		}
	case r.kind == kindUser && !r.meta && !r.summary:
		out.role, out.text = readPrompt(r)
	}
	if *out == (said{}) {
		return nil
	}
	return out
}

// readPrompt tells a prompt from the other things that are written as the
// user's: tool results, the output of commands, notes about an interruption.
func readPrompt(r *record) (role, string) {
	content := field(r.message, "content")
	words := spoken(content, "\n")
	switch {
	case holds(content, "tool_result"):
		return roleNone, ""
	case strings.HasPrefix(words, "[Request interrupted by user"), strings.HasPrefix(words, "<local-command-"),
		strings.HasPrefix(words, "<bash-stdout>"), strings.HasPrefix(words, "<bash-stderr>"),
		strings.HasPrefix(words, "<task-notification>"): // the report of a background task, which belongs to its turn
		return roleNone, ""
	case tagged(words) && !r.submitted:
		return roleMaybe, command(words)
	}
	return rolePrompt, words
}

// tagged reports whether words begin with a tag, as what commands write does.
func tagged(words string) bool {
	words = strings.TrimLeft(words, " \t\r\n")
	return len(words) > 1 && words[0] == '<' && words[1] >= 'a' && words[1] <= 'z'
}

// command turns the tags of a slash command into what was typed.
func command(words string) string {
	name := element(words, "command-name")
	if name == "" {
		return words
	}
	return strings.TrimSpace(name + " " + element(words, "command-args"))
}

// element returns what stands in the first such tag.
func element(words, tag string) string {
	_, after, _ := strings.Cut(words, "<"+tag+">")
	inside, _, found := strings.Cut(after, "</"+tag+">")
	if !found {
		return ""
	}
	return strings.TrimSpace(inside)
}

// spoken joins the texts of a message's content.
func spoken(content []byte, sep string) string {
	if words := quoted(content); words != nil {
		return plain(words)
	}
	var parts []string
	for block := range elements(content) {
		if string(field(block, "type")) == `"text"` {
			parts = append(parts, plain(quoted(field(block, "text"))))
		}
	}
	return strings.Join(parts, sep)
}

// holds reports whether a message's content has a block of a type.
func holds(content []byte, typ string) bool {
	for block := range elements(content) {
		if string(quoted(field(block, "type"))) == typ {
			return true
		}
	}
	return false
}

// field returns the value of an object's key, nil if there is none or obj is no
// object. obj must be JSON that was scanned before.
func field(obj []byte, name string) []byte {
	if len(obj) == 0 || obj[0] != '{' {
		return nil
	}
	var s scanner
	var out []byte
	for i := space(obj, 1); i < len(obj) && obj[i] == '"'; {
		end, ok := key(obj, i)
		if !ok {
			return nil
		}
		from := space(obj, end)
		to, err := s.value(obj, from)
		if err != nil {
			return nil
		}
		if strings.HasPrefix(string(obj[i+1:min(len(obj), i+2+len(name))]), name+`"`) {
			out = obj[from:to]
		}
		if i = space(obj, to); i < len(obj) && obj[i] == ',' {
			i = space(obj, i+1)
		}
	}
	return out
}

// elements yields the values of an array, none if it is none.
func elements(array []byte) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		if len(array) == 0 || array[0] != '[' {
			return
		}
		var s scanner
		for i := space(array, 1); i < len(array) && array[i] != ']'; {
			to, err := s.value(array, i)
			if err != nil || !yield(json.RawMessage(array[i:to])) {
				return
			}
			if i = space(array, to); i < len(array) && array[i] == ',' {
				i = space(array, i+1)
			}
		}
	}
}
