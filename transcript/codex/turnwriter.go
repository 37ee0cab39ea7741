package codex

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// wireItem is a response item.
type wireItem struct {
	Type      string     `json:"type"`
	Role      string     `json:"role,omitempty"`
	Content   []wirePart `json:"content,omitempty"`
	Name      string     `json:"name,omitempty"`
	Arguments string     `json:"arguments,omitempty"`
	CallID    string     `json:"call_id,omitempty"`
	Output    any        `json:"output,omitempty"` // a string or wireParts
	size      int        // of the texts of an output
}

// wireMetadata is the part of a line beside its payload. When Codex loads a result with more tokens
// than the limit, it shortens the result. A text never has more tokens than bytes.
type wireMetadata struct {
	Limit int `json:"fallback_token_limit_override"`
}

// wirePart is a text or an image.
type wirePart struct {
	Type     string  `json:"type"`
	Text     *string `json:"text,omitempty"`
	ImageURL string  `json:"image_url,omitempty"`
}

// lineWriter encodes lines with ascending ordinals and times.
type lineWriter struct {
	isPaged bool
	ordinal int64 // of the next line
}

func (l *lineWriter) encode(kind string, payload any, at time.Time) ([]byte, error) {
	line := struct {
		Timestamp string        `json:"timestamp"`
		Ordinal   *int64        `json:"ordinal,omitempty"`
		Type      string        `json:"type"`
		Payload   any           `json:"payload"`
		Metadata  *wireMetadata `json:"metadata,omitempty"`
	}{Timestamp: sessionfile.Timestamp(at), Type: kind, Payload: payload}
	if item, ok := payload.(wireItem); ok && item.Type == "function_call_output" && l.isPaged {
		line.Metadata = &wireMetadata{Limit: item.size}
	}
	if l.isPaged {
		ordinal := l.ordinal
		line.Ordinal = &ordinal
	}
	l.ordinal++
	return segno.Encode(line)
}

// conversationWriter writes messages as the lines of turns.
type conversationWriter struct {
	k     *writer
	lines lineWriter
	at    time.Time
	turns int
	turn  string // the open turn, "" if none is
	last  string // the newest words of the model in it
	calls map[string]string
	ids   *sessionfile.CallIDs
	abort bool // the user interrupted the open turn
	err   error
}

// appendConversation writes the messages behind the existing lines. last is the ordinal of the last one.
func (k *writer) appendConversation(m *meta, last int64) error {
	w := &conversationWriter{k: k, lines: lineWriter{isPaged: m.isPaged, ordinal: last + 1}, calls: map[string]string{}, ids: &k.ids}
	messages := k.more.Messages
	hasPrompt := false
	for _, m := range messages {
		hasPrompt = hasPrompt || m.Prompt
	}
	for n, m := range messages {
		if m.Time.After(w.at) {
			w.at = m.Time
		}
		if !hasPrompt && m.Role == transcript.User { // a session without a prompt counts as empty
			m.Prompt, hasPrompt = true, true
		}
		if w.turn == "" || m.Prompt {
			w.endTurn()
			w.beginTurn(n)
		}
		w.message(m)
	}
	w.endTurn()
	return w.err
}

func (w *conversationWriter) line(kind string, payload any) {
	if w.err != nil {
		return
	}
	if w.at.IsZero() {
		w.at = time.Now()
	}
	w.write(w.lines.encode(kind, payload, w.at))
}

func (w *conversationWriter) write(data []byte, err error) {
	if err == nil {
		_, err = w.k.out.Write(append(data, '\n'))
	}
	w.err = err
}

func (w *conversationWriter) event(payload map[string]any) { w.line("event_msg", payload) }

// id returns a UUID that begins with the time, as Codex makes them.
func (w *conversationWriter) id(what string, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", w.k.session, what, n))
	id := uuid.UUID(sum[:16])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(max(w.at.UnixMilli(), 0)))
	copy(id[:6], ms[2:])
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id.String()
}

func (w *conversationWriter) beginTurn(n int) {
	w.turn, w.last, w.abort = w.id("turn", n), "", false
	w.turns++
	w.event(map[string]any{"type": "task_started", "turn_id": w.turn, "started_at": w.at.Unix(), "model_context_window": nil, "collaboration_mode_kind": "default"})
}

func (w *conversationWriter) endTurn() {
	switch {
	case w.turn == "":
		return
	case w.abort:
		w.event(map[string]any{"type": "turn_aborted", "turn_id": w.turn, "reason": "interrupted"})
	default:
		w.event(map[string]any{"type": "task_complete", "turn_id": w.turn, "last_agent_message": w.last})
	}
	w.turn = ""
}

func (w *conversationWriter) message(m transcript.Message) {
	if m.Role == transcript.Assistant {
		for n, p := range m.Parts {
			w.answer(n, p)
		}
		return
	}
	var words []wirePart
	for _, p := range m.Parts {
		switch {
		case p.Result != nil:
			w.result(p.Result)
		case p.Interruption:
			text := abortText
			words, w.abort = append(words, wirePart{Type: "input_text", Text: &text}), true
		default:
			words = append(words, wireParts([]transcript.Part{p}, "input_text")...)
		}
	}
	if len(words) > 0 {
		w.line("response_item", wireItem{Type: "message", Role: "user", Content: words})
	}
	if m.Prompt {
		w.showPrompt(m)
	}
}

// abortText is what Codex 0.169.0 tells the model after an interruption.
const abortText = abortMark + "\nThe user interrupted the previous turn on purpose. Any running unified exec processes may still be running in the background. If any tools/commands were aborted, they may have partially executed.\n</turn_aborted>"

// showPrompt writes the event of a prompt, which Codex shows to the user.
func (w *conversationWriter) showPrompt(m transcript.Message) {
	var texts []string
	for _, p := range m.Parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	text := strings.Join(texts, "\n")
	if !w.lines.isPaged {
		w.event(map[string]any{"type": "user_message", "message": text, "images": []string{}, "local_images": []string{}, "text_elements": []string{}})
		return
	}
	w.showItem(map[string]any{"type": "UserMessage", "id": w.id("prompt", w.turns),
		"content": []any{map[string]any{"type": "text", "text": text, "text_elements": []string{}}}})
}

func (w *conversationWriter) showItem(item map[string]any) {
	w.event(map[string]any{"type": "item_completed", "thread_id": string(w.k.session), "turn_id": w.turn, "item": item,
		"started_at_ms": w.at.UnixMilli(), "completed_at_ms": w.at.UnixMilli()})
}

// answer writes a text or a call of the model.
func (w *conversationWriter) answer(n int, p transcript.Part) {
	switch {
	case p.Call != nil:
		id := w.ids.New(p.Call.ID)
		w.calls[p.Call.ID] = id
		w.line("response_item", wireItem{Type: "function_call", Name: sessionfile.ToolName(p.Call.Name), Arguments: string(p.Call.Input), CallID: id})
	case p.Text != "":
		w.last = p.Text
		if w.lines.isPaged {
			w.showItem(map[string]any{"type": "AgentMessage", "id": fmt.Sprintf("msg_%d_%d", w.lines.ordinal, n), "content": []any{map[string]any{"type": "Text", "text": p.Text}}})
		} else {
			w.event(map[string]any{"type": "agent_message", "message": p.Text})
		}
		w.line("response_item", wireItem{Type: "message", Role: "assistant", Content: []wirePart{{Type: "output_text", Text: &p.Text}}})
	}
}

func (w *conversationWriter) result(r *transcript.Result) {
	id, ok := w.calls[r.Call]
	if !ok {
		return // Codex drops a result without a call
	}
	parts := wireParts(r.Parts, "input_text")
	var output any = parts
	if texts, ok := onlyTexts(parts); ok {
		output = strings.Join(texts, "\n")
	}
	w.line("response_item", wireItem{Type: "function_call_output", CallID: id, Output: output, size: max(textSize(r.Parts), maxResult)})
}

func onlyTexts(parts []wirePart) (texts []string, ok bool) {
	for _, p := range parts {
		if p.Text == nil {
			return nil, false
		}
		texts = append(texts, *p.Text)
	}
	return texts, true
}

// wireParts encodes texts and images.
func wireParts(parts []transcript.Part, kind string) (out []wirePart) {
	for _, p := range parts {
		switch {
		case p.Image != nil && p.Image.URL != "":
			out = append(out, wirePart{Type: "input_image", ImageURL: p.Image.URL})
		case p.Image != nil:
			out = append(out, wirePart{Type: "input_image", ImageURL: "data:" + p.Image.Type + ";base64," + p.Image.Data})
		case p.Text != "":
			out = append(out, wirePart{Type: kind, Text: &p.Text})
		}
	}
	return out
}
