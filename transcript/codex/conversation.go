package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

var (
	_ transcript.ConversationReader = (*Transcripts)(nil)
	_ transcript.ConversationWriter = (*Transcripts)(nil)
)

const opRead = "read conversation"

// ReadConversation implements [transcript.ConversationReader]. It leaves out instructions of the
// developer and of Codex itself, such as the description of the directory: the other agent adds its own.
func (c *Transcripts) ReadConversation(ctx context.Context, p segno.Position, after string, o segno.Objects) (transcript.Conversation, error) {
	var items *itemReader
	err := sessionfile.FirstCopy(ctx, opRead, string(p.Session), c.copies(ctx, opRead, &p, o), func(from sessionfile.CopySource) (readErr, doErr error) {
		items = newItemReader(after)
		return from.EachLine(ctx, items.add)
	})
	if err != nil {
		return transcript.Conversation{}, err
	}
	if after != "" && items.mark < 0 {
		return transcript.Conversation{}, segno.Errorf(segno.KindNotFound, opRead, string(p.Session), "the model no longer sees turn %s", after)
	}
	return items.conversation(), nil
}

// item is one response item that the model sees.
type item struct {
	payload []byte
	time    time.Time
}

// itemReader collects the items that the model sees: all since the newest compaction.
type itemReader struct {
	history history
	items   []item
	words   map[string]bool // texts that are the user's, by their events
	after   string          // the turn behind which the conversation begins
	mark    int             // the number of items up to its end, -1 if the model does not see it
}

func newItemReader(after string) *itemReader {
	return &itemReader{history: history{ordinal: -1}, words: map[string]bool{}, after: after, mark: -1}
}

func (x *itemReader) add(l sessionfile.Line) error {
	var r record
	if r.parse(l.Bytes) != nil {
		return nil // Codex ignores the line, too
	}
	end := l.Offset + int64(len(l.Bytes))
	x.history.add(&r, l.Offset, end)
	at, _ := time.Parse(time.RFC3339Nano, string(r.timestamp)) // zero if it is not a time
	switch {
	case r.kind == kindPrompt:
		x.words[r.prompt()] = true
	case r.kind == kindCompacted:
		x.compact(&r, at)
	case string(r.typ) == "response_item":
		x.items = append(x.items, item{bytes.Clone(r.payload), at})
	}
	if turns := x.history.turns; x.after != "" && len(turns) > 0 {
		if last := turns[len(turns)-1]; last.key == x.after && last.to == end && r.kind != kindCompacted {
			x.mark = len(x.items)
		}
	}
	return nil
}

// compact replaces the items by those that the model sees after a compaction. Old versions record
// only a summary. Codex then sends the summary behind the user's own messages.
func (x *itemReader) compact(r *record, at time.Time) {
	before := x.items
	x.items, x.mark = nil, -1
	replacement := r.value("replacement_history")
	if len(replacement) > 0 && replacement[0] == '[' {
		jsonscan.Elements(replacement, 0, func(span jsonscan.Span) {
			x.items = append(x.items, item{bytes.Clone(span.Of(replacement)), at})
		})
		return
	}
	for _, i := range before {
		if textAt(i.payload, "type") == "message" && textAt(i.payload, "role") == "user" {
			x.items = append(x.items, i)
		}
	}
	if summary := r.text("message"); summary != "" {
		payload, err := json.Marshal(userItem(summary))
		if err == nil {
			x.items = append(x.items, item{payload, at})
		}
	}
}

func userItem(text string) wireItem {
	return wireItem{Type: "message", Role: "user", Content: []wirePart{{Type: "input_text", Text: &text}}}
}

// textAt returns the text at a path of keys in an object.
func textAt(object []byte, path ...string) string { return jsonscan.Text(valueAt(object, path...)) }

func valueAt(object []byte, path ...string) []byte {
	return jsonscan.Find(object, jsonscan.Span{To: len(object)}, path...).Of(object)
}

// conversation turns the items behind the mark into messages. As Codex does, it supplies the result
// of a call that has none, and leaves out a result without a call.
func (x *itemReader) conversation() transcript.Conversation {
	b := &messageBuilder{words: x.words, results: map[string]bool{}, calls: map[string]bool{}}
	items := x.items[max(x.mark, 0):]
	for _, i := range items {
		if isOutput(textAt(i.payload, "type")) {
			b.results[textAt(i.payload, "call_id")] = true
		}
	}
	for _, i := range items {
		b.add(i)
	}
	b.flushMissing()
	return b.out
}

func isOutput(kind string) bool {
	return kind == "function_call_output" || kind == "custom_tool_call_output" || kind == "local_shell_call_output"
}

// messageBuilder groups items into messages.
type messageBuilder struct {
	out     transcript.Conversation
	words   map[string]bool
	results map[string]bool // calls that have a result
	calls   map[string]bool // calls so far without an added result
	missing []string        // calls of the newest message that have no result
}

func (b *messageBuilder) add(i item) {
	switch kind := textAt(i.payload, "type"); {
	case kind == "message":
		b.addMessage(i)
	case kind == "function_call", kind == "custom_tool_call", kind == "local_shell_call":
		b.addCall(i, kind)
	case isOutput(kind):
		b.addResult(i)
	case kind == "reasoning":
		b.out.Lose(transcript.LostReasoning, 1)
	case kind == "web_search_call", kind == "image_generation_call", strings.HasPrefix(kind, "tool_search"):
		b.out.Lose(transcript.LostServerTools, 1)
	case strings.HasPrefix(kind, "compaction"), strings.HasPrefix(kind, "context_compaction"):
		b.out.Lose(transcript.LostSummaries, 1)
	case kind == "ghost_snapshot": // of Codex's own undo
	default:
		b.out.Lose(transcript.LostOther, 1)
	}
}

// part adds a part to the newest message. It begins a new message if join is false or the newest one has another author.
func (b *messageBuilder) part(role transcript.Role, at time.Time, join bool, p transcript.Part) {
	last := len(b.out.Messages) - 1
	if join && last >= 0 && b.out.Messages[last].Role == role {
		b.out.Messages[last].Parts = append(b.out.Messages[last].Parts, p)
		return
	}
	b.flushMissing()
	b.out.Messages = append(b.out.Messages, transcript.Message{Role: role, Time: at, Parts: []transcript.Part{p}})
}

// flushMissing adds the result that Codex supplies for calls without one.
func (b *messageBuilder) flushMissing() {
	calls := b.missing
	b.missing = nil
	for n, id := range calls {
		b.part(transcript.User, time.Time{}, n > 0, transcript.Part{Result: &transcript.Result{Call: id, Parts: []transcript.Part{{Text: "aborted"}}}})
	}
}

// addMessage adds a message of the user or the model.
func (b *messageBuilder) addMessage(i item) {
	role := transcript.Role(textAt(i.payload, "role"))
	if role == transcript.Assistant {
		if text := textOf(valueAt(i.payload, "content")); strings.TrimSpace(text) != "" {
			b.part(role, i.time, true, transcript.Part{Text: text})
		}
		return
	}
	if role != transcript.User {
		return // instructions from Codex for its own model
	}
	content := valueAt(i.payload, "content")
	isPrompt := b.words[textOf(content)]
	isOwn := isPrompt || textAt(firstOf(valueAt(i.payload, "internal_chat_message_metadata_passthrough", "content_item_metadata")), "provenance", "type") == "user"
	var parts []transcript.Part
	for _, p := range partsOf(content, &b.out) {
		switch {
		case isOwn || p.Image != nil:
			parts = append(parts, p)
		case strings.HasPrefix(p.Text, abortMark):
			parts = append(parts, transcript.Part{Interruption: true})
		case !isInstruction(p.Text):
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return
	}
	b.flushMissing()
	b.out.Messages = append(b.out.Messages, transcript.Message{Role: role, Prompt: isPrompt, Time: i.time, Parts: parts})
}

// abortMark begins the message with which Codex tells the model that the user interrupted a turn.
const abortMark = "<turn_aborted>"

// isInstruction reports whether Codex wrote a text in the user's name, to describe the directory or
// to pass on files with instructions. The other agent reads those files itself.
func isInstruction(text string) bool {
	for _, prefix := range []string{"<environment_context>", "<user_instructions>", "# AGENTS.md instructions for "} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

func (b *messageBuilder) addCall(i item, kind string) {
	id := textAt(i.payload, "call_id")
	name, input := textAt(i.payload, "name"), json.RawMessage(nil)
	switch kind {
	case "function_call":
		if space := textAt(i.payload, "namespace"); space != "" {
			name = space + name
		}
		input = objectOf("arguments", textAt(i.payload, "arguments"))
	case "custom_tool_call":
		input = wrap("input", textAt(i.payload, "input"))
	default:
		name, input = "local_shell", objectOf("action", string(valueAt(i.payload, "action")))
	}
	if id == "" || b.calls[id] {
		b.out.Lose(transcript.LostOther, 1)
		return
	}
	b.calls[id] = true
	b.part(transcript.Assistant, i.time, true, transcript.Part{Call: &transcript.Call{ID: id, Name: name, Input: input}})
	if !b.results[id] {
		b.missing = append(b.missing, id)
	}
}

// objectOf returns text if it is a JSON object. Otherwise it returns an object with text under name.
func objectOf(name, text string) json.RawMessage {
	if text == "" {
		return json.RawMessage("{}")
	}
	if at := strings.TrimSpace(text); at[:min(1, len(at))] == "{" && json.Valid([]byte(at)) {
		return json.RawMessage(at)
	}
	return wrap(name, text)
}

func wrap(name, text string) json.RawMessage {
	return json.RawMessage(`{"` + name + `":` + string(quote(text)) + `}`)
}

func (b *messageBuilder) addResult(i item) {
	id := textAt(i.payload, "call_id")
	if !b.calls[id] {
		return // Codex does not send it
	}
	b.calls[id] = false
	join := false
	if last := len(b.out.Messages) - 1; last >= 0 {
		parts := b.out.Messages[last].Parts
		join = len(parts) > 0 && parts[0].Result != nil
	}
	output := valueAt(i.payload, "output")
	if len(output) > 0 && output[0] == '{' { // the form of old versions
		output = valueAt(output, "content")
	}
	b.part(transcript.User, i.time, join, transcript.Part{Result: &transcript.Result{Call: id, Parts: partsOf(output, &b.out)}})
}

// firstOf returns the first element of an array, nil if there is none.
func firstOf(array []byte) (first []byte) {
	jsonscan.Elements(array, 0, func(at jsonscan.Span) {
		if first == nil {
			first = at.Of(array)
		}
	})
	return first
}

// textOf returns the texts of a message's content.
func textOf(content []byte) string {
	var texts []string
	for _, p := range partsOf(content, &transcript.Conversation{}) {
		if p.Image == nil {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// partsOf reads a string or an array of texts and images. Other elements count as lost.
func partsOf(content []byte, lost *transcript.Conversation) (parts []transcript.Part) {
	if jsonscan.RawText(content) != nil {
		return append(parts, transcript.Part{Text: jsonscan.Text(content)})
	}
	jsonscan.Elements(content, 0, func(at jsonscan.Span) {
		part := at.Of(content)
		switch kind := textAt(part, "type"); kind {
		case "input_text", "output_text", "text":
			parts = append(parts, transcript.Part{Text: textAt(part, "text")})
		case "input_image":
			if image := imageOf(textAt(part, "image_url")); image != nil {
				parts = append(parts, transcript.Part{Image: image})
			} else {
				lost.Lose(transcript.LostImages, 1)
			}
		case "input_file":
			lost.Lose(transcript.LostDocuments, 1)
		default:
			lost.Lose(transcript.LostOther, 1)
		}
	})
	return parts
}

// imageOf returns the image at a URL, which may be a data URL, or nil if there is none.
func imageOf(url string) *transcript.Image {
	data, isData := strings.CutPrefix(url, "data:")
	if !isData {
		if url == "" {
			return nil
		}
		return &transcript.Image{URL: url}
	}
	kind, data, ok := strings.Cut(data, ";base64,")
	if !ok || data == "" {
		return nil
	}
	return &transcript.Image{Type: kind, Data: data}
}
