package codex

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
	"github.com/google/uuid"
)

// This file is a model of how Codex reads a line of a rollout. Codex decodes each line into a fixed type,
// and silently skips a line that does not fit. The tests in internal/testing/e2e/codex compare the model with
// versions 0.125.0 and 0.171.0.

// lineTypes are the types of the lines that at least one of the tested versions writes.
var lineTypes = []string{"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state", "token_usage_record"}

// contentTypes maps the type of a part of a message to the key that such a part requires.
var contentTypes = map[string]string{"input_text": "text", "output_text": "text", "input_image": "image_url"}

// itemTexts maps the type of a response item to its keys whose values must be strings.
var itemTexts = map[string][]string{
	"message": {"role"}, "function_call": {"name", "arguments", "call_id"}, "function_call_output": {},
	"custom_tool_call": {"name", "input", "call_id"}, "custom_tool_call_output": {},
}

// unreadable returns why Codex skips a line although the line has content for the model, or "".
func (r *record) unreadable() string {
	itemType := r.itemType()
	switch {
	case itemType == "":
		if string(r.typ) == "response_item" && !isObject(r.payload) {
			return "the line has no payload"
		}
		return ""
	case string(r.typ) != "response_item":
		return "the type of the line is not response_item, although it has an item for the model"
	case string(r.event) != itemType:
		return "the type of the item is not message, although it has the text of one"
	case r.timestamp == nil:
		return "the line has no timestamp"
	case r.hasBadOrdinal:
		return "the ordinal of the line is not a number"
	}
	for _, key := range itemTexts[itemType] {
		if jsonscan.RawText(r.value(key)) == nil {
			return "the " + strings.ReplaceAll(itemType, "_", " ") + " has no " + key
		}
	}
	switch {
	case itemType == "message":
		return unreadableContent(r.value("content"))
	case isResultType(itemType) && !r.hasOutput():
		return "the result has no output"
	}
	return ""
}

func (r *record) hasOutput() bool { return isText(r.value("output")) || isArray(r.value("output")) }

// unreadableContent returns why Codex skips a message with this content, or "".
func unreadableContent(content []byte) (why string) {
	if !isArray(content) {
		return "the content of the message is not an array"
	}
	jsonscan.Elements(content, 0, func(at jsonscan.Span) {
		if part := at.Of(content); !isReadablePart(part) {
			why = "the content of the message has a part without a known type, or without its text"
		}
	})
	return why
}

func isReadablePart(part []byte) bool {
	key, known := contentTypes[textAt(part, "type")]
	return known && isText(valueAt(part, key))
}

// itemType returns the type of response item in the payload of a line, or "" if the payload is not a type
// that the model can check.
func (r *record) itemType() string {
	switch _, known := itemTexts[string(r.event)]; {
	case string(r.typ) != "response_item" && slices.Contains(lineTypes, string(r.typ)):
		return ""
	case known:
		return string(r.event)
	case (string(r.role) == "user" || string(r.role) == "assistant") && len(r.readableParts(string(r.role))) > 0:
		return "message"
	}
	return ""
}

// readableParts returns the parts of a message's content that Codex reads. Content that is only a string counts as
// one part.
func (r *record) readableParts(role string) (parts [][]byte) {
	content := r.value("content")
	if isText(content) {
		kind := "input_text"
		if role == "assistant" {
			kind = "output_text"
		}
		return [][]byte{slices.Concat([]byte(`{"type":"`+kind+`","text":`), content, []byte{'}'})}
	}
	if isArray(content) {
		jsonscan.Elements(content, 0, func(at jsonscan.Span) {
			if part := at.Of(content); isReadablePart(part) {
				parts = append(parts, part)
			}
		})
	}
	return parts
}

// readable converts an unreadable line to a line that Codex reads. If the line has no time, it gets the time
// of the line before it. readable returns nil if the line has no content left for the model.
func (r *record) readable(line []byte, before string) []byte {
	itemType := r.itemType()
	item := r.itemChanges(itemType)
	if item == nil {
		return nil
	}
	head := map[string][]byte{}
	if string(r.typ) != "response_item" {
		head["type"] = []byte(`"response_item"`)
	}
	if r.timestamp == nil {
		head["timestamp"] = quote(before)
	}
	if r.hasBadOrdinal {
		head["ordinal"] = nil
	}
	if string(r.event) != itemType {
		item["type"] = quote(itemType)
	}
	if len(item) > 0 {
		head["payload"] = set(r.payload, item)
	}
	return set(line, head)
}

// itemChanges returns the values without which Codex cannot read the item of a line. It returns nil if the item
// has no content left for the model.
func (r *record) itemChanges(itemType string) map[string][]byte {
	switch {
	case itemType == "message":
		return r.messageChanges()
	case isResultType(itemType) && r.hasOutput():
		return map[string][]byte{}
	case resultType(itemType) != "" && r.text("call_id") != "":
		return r.callChanges(itemType)
	}
	return nil
}

func (r *record) messageChanges() map[string][]byte {
	changes, role := map[string][]byte{}, string(r.role)
	if r.role == nil {
		role = "user"
		if bytes.Contains(r.value("content"), []byte(`"output_text"`)) {
			role = "assistant"
		}
		changes["role"] = quote(role)
	}
	parts := r.readableParts(role)
	if len(parts) == 0 {
		return nil
	}
	if unreadableContent(r.value("content")) != "" {
		changes["content"] = slices.Concat([]byte{'['}, bytes.Join(parts, []byte{','}), []byte{']'})
	}
	return changes
}

func (r *record) callChanges(itemType string) map[string][]byte {
	changes := map[string][]byte{}
	if !isText(r.value("name")) {
		changes["name"] = []byte(`"unknown"`)
	}
	for _, key := range []string{"arguments", "input"} {
		if slices.Contains(itemTexts[itemType], key) && !isText(r.value(key)) {
			arguments := r.value(key)
			if !isObject(arguments) {
				arguments = []byte("{}")
			}
			changes[key] = quote(string(arguments))
		}
	}
	return changes
}

// set returns an object with new values for some keys. It adds missing keys, in the order of their names.
func set(object []byte, values map[string][]byte) []byte {
	out := edit(object, values)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if valueAt(object, key) == nil {
			separator := []byte{','}
			if len(out) == 2 {
				separator = nil
			}
			out = slices.Concat(out[:len(out)-1], separator, quote(key), []byte{':'}, values[key], []byte{'}'})
		}
	}
	return out
}

// metaProblem returns why Codex does not resume a session with this first line, or "".
func metaProblem(line []byte) string {
	m, err := parseMeta(line)
	switch {
	case err != nil:
		return "the session has no session_meta"
	case uuid.Validate(m.id) != nil:
		return "the id in the session_meta is not one of a session"
	}
	for _, key := range []string{"timestamp", "cwd", "originator", "cli_version"} {
		if !isText(m.field("payload", key)) {
			return "the session_meta has no " + key
		}
	}
	if m.field("timestamp") == nil || !json.Valid(m.field("payload")) {
		return "the session_meta has no time"
	}
	return ""
}

func isText(value []byte) bool   { return jsonscan.RawText(value) != nil }
func isArray(value []byte) bool  { return len(value) > 0 && value[0] == '[' }
func isObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }

// readingOf returns the part of a session's rollout that Codex reads.
func readingOf(ctx context.Context, session segno.SessionID, in io.Reader) (out transcript.Reading, err error) {
	l := sessionfile.NewLineReader(in, 0)
	x := &loading{out: &out, session: session, calls: map[string]bool{}}
	for at := range l.All() {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		x.add(at)
	}
	out.Messages = len(out.Lines)
	switch torn, err := l.End(); {
	case err != nil:
		return out, err
	case !x.hasLine && torn == 0:
		x.refuse("it is empty")
	case !x.hasLine:
		x.refuse("it has no complete line")
	case x.isPaged && x.ordinal < 0:
		x.refuse("its last line has no ordinal")
	}
	return out, nil
}

// loading is the state of one reading of a rollout.
type loading struct {
	out     *transcript.Reading
	session segno.SessionID
	record  record
	calls   map[string]bool // the calls that Codex sends
	hasLine bool
	isPaged bool
	ordinal int64 // of the newest line
}

// refuse stores why Codex does not resume the session. The first reason counts.
func (x *loading) refuse(why string) { x.out.Refusal = cmp.Or(x.out.Refusal, why) }

func (x *loading) add(at sessionfile.Line) {
	if !utf8.Valid(at.Bytes) {
		x.refuse("it is not UTF-8")
	}
	line := bytes.TrimRight(at.Bytes, "\r\n")
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	if !x.hasLine {
		x.hasLine = true
		x.refuse(metaProblem(line))
		m, _ := parseMeta(line)
		if x.isPaged = m.isPaged; !strings.EqualFold(m.id, string(x.session)) {
			x.refuse("it continues session " + m.id + " instead, whose id is in the first line")
		}
	}
	if x.record.parse(line) != nil {
		return
	}
	if !x.record.hasBadOrdinal {
		x.ordinal = x.record.ordinal
	}
	switch {
	case x.record.kind == kindCompacted:
		x.out.Total++
		x.out.Lines = []int{at.Number}
	case x.record.isForModel():
		x.out.Total++
		if x.isSent(at.Number) {
			x.out.Lines = append(x.out.Lines, at.Number)
		}
	}
}

// isSent reports whether Codex sends the item of the current line, whose number is for the reason of a refusal.
func (x *loading) isSent(line int) bool {
	id, itemType := x.record.text("call_id"), string(x.record.event)
	switch isResult := isResultType(itemType); {
	case x.record.unreadable() != "":
		return false
	case isResult && id == "":
		x.refuse("the API rejects the result in line " + strconv.Itoa(line) + ", which names no call")
		return false
	case isResult:
		return x.calls[id] // Codex leaves out a result without a call
	case resultType(itemType) != "":
		x.calls[id] = true
	}
	return true
}

// isForModel reports whether a line is a message, a call or a result that Codex sends to the model if it can read
// the line.
func (r *record) isForModel() bool {
	return r.itemType() != "" && string(r.role) != "developer" && string(r.role) != "system"
}
