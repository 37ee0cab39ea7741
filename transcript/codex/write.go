package codex

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/sessionfile"
	"github.com/dalsegno/segno/transcript"
	"github.com/google/uuid"
)

const opWrite = "write session"

const (
	// testedVersion is written into a session if the home has no session to take the version from.
	testedVersion = "0.169.0"
	// maxResult is the size of the longest result that Codex surely sends whole to every model.
	maxResult = 10_000
	// maxName is the length of the longest id or name of a call.
	maxName = 64
)

// Losses implements [transcript.ConversationWriter].
func (c *Transcripts) Losses(conversation transcript.Conversation) map[transcript.Loss]int {
	var lost transcript.Conversation
	for _, m := range conversation.Messages {
		for _, p := range m.Parts {
			switch {
			case p.Call != nil && sessionfile.ToolName(p.Call.Name, maxName) != p.Call.Name:
				lost.Lose(transcript.LostNames, 1)
			case p.Result != nil:
				size := 0
				for _, part := range p.Result.Parts {
					size += len(part.Text)
				}
				if size > maxResult {
					lost.Lose(transcript.LostLengths, 1)
				}
				if p.Result.IsError {
					lost.Lose(transcript.LostErrors, 1)
				}
			}
		}
	}
	return lost.Lost
}

// WriteConversation implements [transcript.ConversationWriter]. The new session has the form of the
// newest session of the home: with an ordinal in each line, or without.
func (c *Transcripts) WriteConversation(ctx context.Context, conversation transcript.Conversation, p *segno.Position, to segno.Target, o segno.Objects) (segno.Source, error) {
	if len(conversation.Messages) == 0 {
		return segno.Source{}, segno.Errorf(segno.KindInvalid, opWrite, string(to.Session), "the conversation has no messages")
	}
	k := &writer{c: c, op: opWrite, session: to.Session, dir: to.Dir, more: &conversation}
	if p == nil {
		if err := k.writeNew(ctx, to); err != nil {
			return segno.Source{}, sessionfile.IOError(opWrite, string(to.Session), err)
		}
		return segno.Source{Session: to.Session, Path: k.path, Dir: to.Dir}, nil
	}
	if err := checkCut(*p, to); err != nil {
		return segno.Source{}, err
	}
	err := sessionfile.FirstCopy(ctx, opWrite, string(p.Session), c.copies(ctx, opWrite, p, o), func(from sessionfile.CopySource) (readErr, doErr error) {
		return k.write(ctx, from)
	})
	return segno.Source{Session: to.Session, Path: k.path, Dir: to.Dir}, err
}

// writeNew writes a session that begins with the conversation.
func (k *writer) writeNew(ctx context.Context, to segno.Target) error {
	if !filepath.IsAbs(to.Dir) {
		return segno.Errorf(segno.KindInvalid, k.op, string(to.Session), "the directory is not absolute")
	}
	if err := checkNewSession(k.op, to.Session); err != nil {
		return err
	}
	line, err := k.c.newMeta(ctx, to, k.more.Messages[0].Time)
	if err != nil {
		return err
	}
	m, err := parseMeta(line)
	if err != nil {
		return err
	}
	defer func() {
		if k.out != nil {
			k.out.Close()
		}
	}()
	if err := k.create(ctx, &m); err != nil {
		return err
	}
	if _, err := k.out.Write(append(line, '\n')); err != nil {
		return err
	}
	if err := k.appendConversation(&m, 0); err != nil {
		return err
	}
	return k.publish()
}

// wireMeta is the payload of the first line of a rollout.
type wireMeta struct {
	SessionID  string `json:"session_id,omitempty"`
	ID         string `json:"id"`
	Timestamp  string `json:"timestamp"`
	Cwd        string `json:"cwd"`
	Originator string `json:"originator"`
	Version    string `json:"cli_version"`
	Source     string `json:"source"`
	Provider   string `json:"model_provider,omitempty"`
	Mode       string `json:"history_mode,omitempty"`
}

// newMeta returns the first line of a new session. Codex lists sessions of its current model
// provider only, so the provider is that of the newest session.
func (c *Transcripts) newMeta(ctx context.Context, to segno.Target, at time.Time) ([]byte, error) {
	newest, err := c.newestMeta(ctx)
	if err != nil {
		return nil, err
	}
	if at.IsZero() {
		at = time.Now()
	}
	payload := wireMeta{ID: string(to.Session), Timestamp: timestamp(at), Cwd: to.Dir, Originator: "codex_cli_rs", Version: testedVersion, Source: "cli"}
	if newest == nil || newest.isPaged {
		payload.SessionID, payload.Mode = payload.ID, "paginated"
	}
	if newest != nil {
		payload.Version, payload.Provider = newest.version, string(textAt(newest.line, "payload", "model_provider"))
	}
	l := lineWriter{isPaged: payload.Mode != ""}
	return l.encode("session_meta", payload, at)
}

// newestMeta returns the first line of the newest session that has a readable one, nil if there is none.
func (c *Transcripts) newestMeta(ctx context.Context) (*meta, error) {
	x, err := readIndex(ctx, c.home)
	if err != nil {
		return nil, err
	}
	var found *meta
	name := ""
	for _, r := range x.byID {
		base := filepath.Base(r.path)
		if base <= name || ctx.Err() != nil {
			continue
		}
		if p, m, err := openPiece(ctx, r, -1); err == nil {
			p.Close()
			found, name = &m, base
		}
	}
	return found, ctx.Err()
}

func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// wireItem is a response item.
type wireItem struct {
	Type      string     `json:"type"`
	Role      string     `json:"role,omitempty"`
	Content   []wirePart `json:"content,omitempty"`
	Name      string     `json:"name,omitempty"`
	Arguments string     `json:"arguments,omitempty"`
	CallID    string     `json:"call_id,omitempty"`
	Output    any        `json:"output,omitempty"` // a string or wireParts
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
		Timestamp string `json:"timestamp"`
		Ordinal   *int64 `json:"ordinal,omitempty"`
		Type      string `json:"type"`
		Payload   any    `json:"payload"`
	}{Timestamp: timestamp(at), Type: kind, Payload: payload}
	if l.isPaged {
		ordinal := l.ordinal
		line.Ordinal = &ordinal
	}
	l.ordinal++
	return sessionfile.EncodeLine(line)
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
	abort bool // the user interrupted the open turn
	err   error
}

// appendConversation writes the messages behind the lines so far. last is the ordinal of the last one.
func (k *writer) appendConversation(m *meta, last int64) error {
	w := &conversationWriter{k: k, lines: lineWriter{isPaged: m.isPaged, ordinal: last + 1}, calls: map[string]string{}}
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
	data, err := w.lines.encode(kind, payload, w.at)
	if err == nil {
		_, err = w.k.out.Write(append(data, '\n'))
	}
	w.err = err
}

func (w *conversationWriter) event(payload map[string]any) { w.line("event_msg", payload) }

// id returns a UUID as Codex makes them: it begins with the time.
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

// answer writes words or a call of the model.
func (w *conversationWriter) answer(n int, p transcript.Part) {
	switch {
	case p.Call != nil:
		id := sessionfile.CallID("call_", maxName, p.Call.ID)
		w.calls[p.Call.ID] = id
		w.line("response_item", wireItem{Type: "function_call", Name: sessionfile.ToolName(p.Call.Name, maxName), Arguments: string(p.Call.Input), CallID: id})
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
	w.line("response_item", wireItem{Type: "function_call_output", CallID: id, Output: output})
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
