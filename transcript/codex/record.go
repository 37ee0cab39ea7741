package codex

import (
	"errors"
	"strconv"
	"strings"

	"github.com/dalsegno/segno/internal/jsonscan"
)

// kind is the type of a line. It distinguishes only types that matter to turns.
type kind uint8

const (
	kindOther     kind = iota
	kindNote           // a note of the program: neither the model nor a turn depends on it
	kindContext        // turn_context: the settings of the following turn
	kindStart          // a turn begins
	kindPrompt         // the user's words
	kindEnd            // a turn ends
	kindInput          // words that the agent sends in the user's or the developer's name
	kindOutput         // words and calls of the model, and results of tools
	kindCompacted      // replaces all earlier input of the model
)

// record is one line, of which only the top-level keys are decoded. Byte slices point into the line.
type record struct {
	kind      kind
	typ       []byte // the text of a string
	timestamp []byte
	payload   []byte // a whole value
	event     []byte // the text of the payload's type
	role      []byte // the role of a message
	item      []byte // the item of an event; a whole value
	ordinal   int64  // -1 if there is none

	hasBadOrdinal bool // the ordinal is not a number, so Codex skips the line
}

var errNotJSON = errors.New("not JSON")

// parse reads a line into r.
func (r *record) parse(line []byte) error {
	*r = record{ordinal: -1}
	at := jsonscan.SkipSpace(line, 0)
	end, ok := jsonscan.Members(line, at, func(key []byte, value jsonscan.Span) {
		v := value.Of(line)
		switch string(key) {
		case "type":
			r.typ = jsonscan.RawText(v)
		case "timestamp":
			r.timestamp = jsonscan.RawText(v)
		case "payload":
			r.payload = v
		case "ordinal":
			n, err := strconv.ParseInt(string(v), 10, 64)
			if r.hasBadOrdinal = err != nil; err == nil {
				r.ordinal = n
			}
		}
	})
	if !ok || jsonscan.SkipSpace(line, end) < len(line) {
		*r = record{ordinal: -1}
		return errNotJSON
	}
	jsonscan.Members(r.payload, 0, func(key []byte, value jsonscan.Span) {
		switch v := value.Of(r.payload); string(key) {
		case "type":
			r.event = jsonscan.RawText(v)
		case "role":
			r.role = jsonscan.RawText(v)
		case "item":
			r.item = v
		}
	})
	r.kind = r.kindOf()
	return nil
}

// eventKinds maps the type of an event to the kind of its event_msg line. user_message and
// agent_message are from versions without item_completed.
var eventKinds = map[string]kind{
	"task_started": kindStart, "turn_started": kindStart, "user_message": kindPrompt,
	"task_complete": kindEnd, "turn_complete": kindEnd, "turn_aborted": kindEnd,
	"agent_message": kindOutput, "token_count": kindNote, "thread_settings_applied": kindNote,
}

func (r *record) kindOf() kind {
	switch string(r.typ) {
	case "turn_context":
		return kindContext
	case "compacted":
		return kindCompacted
	case "token_usage_record":
		return kindNote
	case "response_item":
		if string(r.event) == "message" && string(r.role) != "assistant" {
			return kindInput
		}
		return kindOutput
	case "event_msg":
		if string(r.event) == "item_completed" && jsonscan.Text(jsonscan.Find(r.item, jsonscan.Span{To: len(r.item)}, "type").Of(r.item)) == "UserMessage" {
			return kindPrompt
		}
		return eventKinds[string(r.event)]
	}
	return kindOther
}

// value returns the value at a path of keys in the payload, or nil if there is none.
func (r *record) value(path ...string) []byte {
	return jsonscan.Find(r.payload, jsonscan.Span{To: len(r.payload)}, path...).Of(r.payload)
}

// text returns the decoded string at a path of keys in the payload, or "".
func (r *record) text(path ...string) string { return jsonscan.Text(r.value(path...)) }

// prompt returns the user's words in a line of kindPrompt.
func (r *record) prompt() string {
	if words := r.text("message"); words != "" {
		return words
	}
	content := r.value("item", "content")
	var parts []string
	jsonscan.Elements(content, 0, func(at jsonscan.Span) {
		part := at.Of(content)
		if text := jsonscan.Find(part, jsonscan.Span{To: len(part)}, "text"); !text.IsZero() {
			parts = append(parts, jsonscan.Text(text.Of(part)))
		}
	})
	return strings.Join(parts, "\n")
}
