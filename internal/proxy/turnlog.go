package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/acp"
)

const (
	maxIntents   = 8        // how often one call's intent is recorded before its end: agents stream the input
	maxThought   = 64 << 10 // how many bytes of one thought are recorded
	maxFailText  = 8 << 10  // about how many bytes of the end of a turn's text are kept to recognize a failure
	maxMessages  = 200      // how many message ids a turn's note has, for a fork at its end
	maxNoteValue = 2 << 10  // how many bytes of JSON fit in a note beside other values

	partInterval = 500 * time.Millisecond // the interval of recording an unfinished message; a crash may lose that much
)

// turnLog converts the updates of a turn into entries.
type turnLog struct {
	emit     func(segno.Entry)
	partSoon func() // schedules recordPart; nil if a crash would lose nothing
	// began reports whether a call began in an earlier turn and has not ended; it is nil if that is
	// unknown.
	began func(id string) bool

	output
	usedIDs       map[string]bool // ids of calls before the prompt was sent again
	recoveries    int             // how often the prompt was sent again
	answered      bool            // the agent had output before the prompt was sent again
	activity      int             // updates that show that the agent works on the turn
	recorded      int             // messages that were recorded in full
	others        int             // thoughts and content blocks that were recorded
	partial       int             // how many bytes of the current message are recorded
	partialAt     time.Time
	messages      []string // the ids of all messages that have one
	callAfterText bool     // a tool call came after the last message

	plan, usage json.RawMessage // the newest
}

// output is the agent's output since the prompt was sent.
type output struct {
	stopped     acp.Message // the answer to the prompt
	calls       map[string]*call
	updates     int
	tail        []byte          // the end of all text
	text        strings.Builder // the text since the last entry
	isCut       bool            // there was more than is kept
	thought     strings.Builder // the thought since the last entry
	message     string          // the id of the current message
	systemError bool            // codex reported that the turn failed
}

func newTurnLog(emit func(segno.Entry)) turnLog {
	return turnLog{emit: emit, output: output{calls: map[string]*call{}}, usedIDs: map[string]bool{}}
}

// resetOutput forgets the output, because the prompt is sent again. The agent may then use the ids of
// calls again, for other calls.
func (t *turnLog) resetOutput() {
	for id := range t.calls {
		t.usedIDs[id] = true
	}
	t.answered = t.answered || len(t.tail) > 0 || len(t.calls) > 0
	t.output = output{calls: map[string]*call{}}
}

// add records an update of the turn.
func (t *turnLog) add(kind string, m acp.Message, update acp.Span) {
	switch kind {
	case "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan":
		t.activity++
	}
	if kind != "agent_thought_chunk" && kind != "usage_update" && kind != "session_info_update" {
		t.recordThought()
	}
	switch kind {
	case "agent_message_chunk":
		t.observeMessage(m, update)
	case "agent_thought_chunk":
		t.observeThought(m, update)
	case "tool_call", "tool_call_update":
		t.observeCall(m, update)
	case "plan":
		t.plan = append(t.plan[:0], m.Find(update, "entries").Of(m.Line)...)
	case "usage_update":
		t.usage = append(t.usage[:0], update.Of(m.Line)...)
	case "session_info_update":
		if status := m.Text(m.Find(update, "_meta", "codex", "threadStatus", "type")); status != "" {
			t.systemError = status == "systemError"
		}
	}
}

// observeMessage buffers text, and records any other content block at once.
func (t *turnLog) observeMessage(m acp.Message, update acp.Span) {
	content := m.Find(update, "content")
	if kind := m.Text(m.Find(content, "type")); kind == "text" || kind == "" {
		t.observeText(m, update)
		return
	}
	t.recordText()
	t.others++
	t.emit(contentNote(t.others, bytes.Clone(content.Of(m.Line))))
}

// observeThought buffers a thought. The log records it when something else follows.
func (t *turnLog) observeThought(m acp.Message, update acp.Span) {
	if t.thought.Len() == 0 {
		t.recordText()
	}
	text := m.Text(m.Find(update, "content", "text"))
	t.thought.WriteString(strings.ToValidUTF8(text[:min(len(text), maxThought-t.thought.Len())], ""))
}

// recordThought records the thought that ended.
func (t *turnLog) recordThought() {
	if text := t.thought.String(); text != "" {
		if len(text) >= maxThought-utf8.UTFMax {
			text += "\n… the rest is not recorded …"
		}
		t.others++
		for _, e := range shownNotes(noteThought, fmt.Sprint(t.others), text) {
			t.emit(e)
		}
	}
	t.thought.Reset()
}

// observeText buffers the agent's text. It records a message when another one follows, because only then
// is the message known to be complete.
func (t *turnLog) observeText(m acp.Message, update acp.Span) {
	if id := m.Text(m.Find(update, "messageId")); id != t.message {
		t.recordText()
		if t.message = id; id != "" {
			t.messages, t.callAfterText = append(t.messages, id), false
		}
	}
	text := m.Text(m.Find(update, "content", "text"))
	if room := maxShown - t.text.Len(); len(text) <= room && !t.isCut {
		t.text.WriteString(text)
	} else if !t.isCut { // later chunks must not follow a gap
		t.isCut = true
		t.text.WriteString(strings.ToValidUTF8(text[:room], ""))
		t.text.WriteString("\n… the rest is not recorded …")
	}
	if t.partSoon != nil {
		t.partSoon()
	}
	if t.tail = append(t.tail, text...); len(t.tail) > 2*maxFailText {
		t.tail = append(t.tail[:0], t.tail[len(t.tail)-maxFailText:]...) // errors come last
	}
}

// recordText records the current message, which is now complete.
func (t *turnLog) recordText() {
	if text := t.text.String(); strings.TrimSpace(text) != "" {
		id := ""
		if t.partial > 0 || isShortened(text) {
			id = t.messageID()
		}
		if t.recordMessage(id, text); isShortened(text) {
			for _, e := range shownNotes(noteShown, shownKey(segno.EntryMessage, id), strings.ToValidUTF8(text, string(utf8.RuneError))) {
				t.emit(e)
			}
		}
	}
	t.text.Reset()
	t.partial, t.isCut, t.recorded = 0, false, t.recorded+1
}

// recordPart records the current message so far. A later entry with the same id replaces it.
func (t *turnLog) recordPart() {
	if text := t.text.String(); len(text) > t.partial && strings.TrimSpace(text) != "" {
		t.partial, t.partialAt = len(text), time.Now()
		t.recordMessage(t.messageID(), text)
	}
}

func (t *turnLog) recordMessage(id, text string) {
	t.emit(segno.Entry{Kind: segno.EntryMessage, Name: "agent", ID: id, Body: clipText(text)})
}

// messageID is the id of the entry of the current message.
func (t *turnLog) messageID() string { return fmt.Sprintf("said %d", t.recorded+1) }

// clipText encodes a text as an entry's body, shortened if necessary.
func clipText(text string) json.RawMessage {
	return segno.Clip(acp.Encode(strings.ToValidUTF8(text, string(utf8.RuneError))))
}

// call is the state of one tool call, collected from the agent's updates.
type call struct {
	id      string
	name    string // the tool's name, or the kind of the call
	intent  callIntent
	result  callResult
	stale   bool // the input changed since the intent was recorded
	intents int  // how often the intent was recorded; the last one counts
	ended   bool // the result was recorded
}

// callIntent is the body of a call's intent.
type callIntent struct {
	Title     string          `json:"title,omitempty"`
	Kind      string          `json:"kind,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Locations json.RawMessage `json:"locations,omitempty"`
}

// callResult is the body of a call's result. Only the results of hooks have an Error.
type callResult struct {
	Status  string          `json:"status"`
	Content json.RawMessage `json:"content,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// observeCall records a tool call: the intent at once and again when the input changes, the
// result when the call ends.
func (t *turnLog) observeCall(m acp.Message, update acp.Span) {
	id := m.Text(m.Find(update, "toolCallId"))
	if id == "" {
		return
	}
	c := t.calls[id]
	if c == nil && m.Text(m.Find(update, "sessionUpdate")) == "tool_call_update" && t.began != nil && t.began(id) {
		t.endEarlierCall(id, m, update)
		return
	}
	t.callAfterText = true
	if c == nil {
		c = t.beginCall(id)
	}
	c.stale = c.merge(m, update) || c.stale
	ends := !c.ended && c.result.isFinal()
	if c.intents == 0 || c.stale && !c.ended && (ends || c.intents < maxIntents) {
		c.stale = false
		c.intents++
		t.emit(segno.Entry{Kind: segno.EntryIntent, ID: c.id, Name: c.name, Body: segno.Clip(acp.Encode(c.intent))})
	}
	if ends {
		c.ended = true
		t.emitResult(c)
		c.result.Content, c.result.Output, c.intent.Input = nil, nil, nil // a turn may make thousands
	}
}

// beginCall adds a call. Its id in the record differs from the agent's if an earlier call of the turn has the same id.
func (t *turnLog) beginCall(id string) *call {
	t.recordText()
	c := &call{id: id}
	if t.usedIDs[id] {
		c.id = fmt.Sprintf("%s (%d)", id, t.recoveries)
	}
	t.calls[id] = c
	return c
}

// methodWrite is the method with which an agent lets the client write a file.
const methodWrite = "fs/write_text_file"

// writeID is the id in [turnLog.calls] of a write for which the agent sent a request with an id.
func writeID(request string) string { return methodWrite + " " + request }

// beginWrite records that the client begins to write a file for the agent, unless a running call names the file. An agent need not
// report such a write as a call.
func (t *turnLog) beginWrite(request, path string) {
	if path == "" || t.isNamed(path) {
		return
	}
	t.callAfterText = true
	c := t.beginCall(writeID(request))
	c.name, c.intents = methodWrite, 1
	c.intent = callIntent{Title: "Write " + filepath.Base(path), Kind: "edit", Input: acp.Encode(map[string]string{"path": path})}
	t.emit(segno.Entry{Kind: segno.EntryIntent, ID: c.id, Name: c.name, Body: segno.Clip(acp.Encode(c.intent))})
}

// endWrite records the client's answer to a request to write a file.
func (t *turnLog) endWrite(request string, isDone bool) {
	c := t.calls[writeID(request)]
	if c == nil || c.ended {
		return
	}
	if c.ended, c.result.Status = true, "failed"; isDone {
		c.result.Status = "completed"
	}
	t.emitResult(c)
}

// isNamed reports whether a running call names a file.
func (t *turnLog) isNamed(path string) bool {
	quoted := acp.Encode(path)
	for _, c := range t.calls {
		if !c.ended && (bytes.Contains(c.intent.Locations, quoted) || bytes.Contains(c.intent.Input, quoted)) {
			return true
		}
	}
	return false
}

func (t *turnLog) emitResult(c *call) {
	body, full := c.result.entry(c.id)
	t.emit(segno.Entry{Kind: segno.EntryResult, ID: c.id, Name: c.name, Body: body})
	for _, e := range full {
		t.emit(e)
	}
}

func (r callResult) isFinal() bool { return r.Status == "completed" || r.Status == "failed" }

// endEarlierCall records the end of a call that began in an earlier turn: it ran in the background.
func (t *turnLog) endEarlierCall(id string, m acp.Message, update acp.Span) {
	c := &call{id: id}
	if c.merge(m, update); c.result.isFinal() {
		t.emitResult(c)
	}
}

// merge adds an update to the call. It reports whether the input or the name changed: some agents send
// these in parts.
func (c *call) merge(m acp.Message, update acp.Span) (changed bool) {
	name, input := c.name, c.intent.Input
	setText := func(into *string, path ...string) bool {
		text := m.Text(m.Find(update, path...))
		if text != "" {
			*into = text
		}
		return text != ""
	}
	setJSON := func(into *json.RawMessage, key string) {
		if at := m.Find(update, key); !at.IsZero() && string(at.Of(m.Line)) != "null" {
			*into = bytes.Clone(at.Of(m.Line))
		}
	}
	setText(&c.intent.Title, "title")
	setText(&c.intent.Kind, "kind")
	if !setText(&c.name, "_meta", "claudeCode", "toolName") && !setText(&c.name, "name") && c.name == "" {
		c.name = c.intent.Kind
	}
	setJSON(&c.intent.Input, "rawInput")
	setJSON(&c.intent.Locations, "locations")
	setJSON(&c.result.Content, "content")
	setJSON(&c.result.Output, "rawOutput")
	setText(&c.result.Status, "status")
	return c.name != name || !bytes.Equal(c.intent.Input, input)
}

// endNote is the body of the note that records a turn's end.
type endNote struct {
	Messages []string        `json:"messages,omitempty"` // the ids of the agent's messages, oldest first
	Behind   bool            `json:"behind,omitempty"`   // a fork at the last of them would lack a part of the turn
	Stop     string          `json:"stop,omitempty"`
	Usage    json.RawMessage `json:"usage,omitempty"`
	Context  json.RawMessage `json:"context,omitempty"` // the last usage_update
	Error    json.RawMessage `json:"error,omitempty"`
}

// endNoteOf reads the note of a turn's end.
func endNoteOf(entries []segno.Entry) (e endNote) {
	for _, x := range entries {
		if x.Kind == segno.EntryNote && x.Name == "end" {
			_ = json.Unmarshal(x.Body, &e) // a clipped note names no message
		}
	}
	return e
}

// stopDisconnected is the stop reason in the note of a turn that ended because the client left.
const stopDisconnected = "disconnected"

// addEnd records the newest plan, and the stop reason of the turn. If stop is "", the reason is the one
// in the agent's answer.
func (t *turnLog) addEnd(stop string) {
	if t.plan != nil {
		t.emit(segno.Entry{Kind: segno.EntryNote, Name: "plan", Body: segno.Clip(t.plan)})
	}
	short := func(raw json.RawMessage) json.RawMessage {
		if len(raw) > maxNoteValue {
			return nil
		}
		return raw
	}
	a := t.stopped
	end := endNote{Messages: t.messages[max(0, len(t.messages)-maxMessages):], Behind: t.callAfterText || t.recoveries > 0,
		Stop:  a.Text(a.Find(a.Result, "stopReason")),
		Usage: short(a.Find(a.Result, "usage").Of(a.Line)), Context: short(t.usage), Error: short(a.Error.Of(a.Line))}
	if stop != "" {
		end.Stop = stop
	}
	t.emit(segno.Entry{Kind: segno.EntryNote, Name: "end", Body: segno.Clip(acp.Encode(end))})
}

// note returns an entry with a text of the proxy.
func note(text string) segno.Entry {
	return segno.Entry{Kind: segno.EntryNote, Name: "segno", Body: clipText(text)}
}
