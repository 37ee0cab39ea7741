package claude

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
	"github.com/google/uuid"
)

const opWrite = "write session"

// testedVersion is the version in records that follow no record of the agent.
const testedVersion = "2.1.332"

// Losses implements [transcript.ConversationWriter].
func (c *Transcripts) Losses(_ context.Context, conversation transcript.Conversation) (map[transcript.Loss]int, error) {
	var lost transcript.Conversation
	for _, m := range conversation.Messages {
		for _, p := range m.Parts {
			if p.Call != nil && sessionfile.ToolName(p.Call.Name) != p.Call.Name {
				lost.Lose(transcript.LostNames, 1)
			}
		}
	}
	return lost.Lost, nil
}

// WriteConversation implements [transcript.ConversationWriter]. Every block of a message is one
// record, and each record follows the one before it.
func (c *Transcripts) WriteConversation(ctx context.Context, conversation transcript.Conversation, p *segno.Position, to segno.Target, o segno.Objects) (segno.Source, error) {
	k := &cut{installer: installer{c: c, op: opWrite}, to: to, objects: o}
	err := error(nil)
	if p != nil {
		k.p = *p
		err = k.check()
	} else {
		err = k.checkTarget()
	}
	if err == nil && len(conversation.Messages) == 0 {
		err = segno.Errorf(segno.KindInvalid, opWrite, string(to.Session), "the conversation has no messages")
	}
	w := &continuation{cut: k, isNew: p == nil, messages: conversation.Messages, ids: sessionfile.CallIDs{Prefix: "toolu_"}}
	if err == nil && p != nil {
		var before transcript.Conversation
		before, err = c.ReadConversation(ctx, *p, "", o)
		w.ids.Use(before) // the agent drops a call that has the id of an earlier one
	}
	if err == nil {
		err = k.install(ctx, to.Session, w)
	}
	if err != nil {
		return segno.Source{}, sessionfile.IOError(opWrite, string(to.Session), err)
	}
	return segno.Source{Session: to.Session, Path: k.path, Dir: to.Dir}, nil
}

// continuation is a cut with messages behind it, or messages alone.
type continuation struct {
	*cut
	isNew    bool
	messages []transcript.Message
	version  string
	at       time.Time
	parent   string // the uuid of the newest record
	prompt   string // the id of the open turn
	records  int
	offset   int64
	calls    map[string]callRecord
	ids      sessionfile.CallIDs
}

// callRecord is the record of a call, by the id that the conversation has.
type callRecord struct{ id, uuid string }

func (k *continuation) writeTranscript(ctx context.Context) error {
	if k.isNew {
		k.graph = newGraph(k.path)
		k.graph.isWhole = true
	} else if err := k.cut.writeTranscript(ctx); err != nil {
		return err
	}
	k.version, k.parent, k.calls, k.offset = testedVersion, k.p.Leaf, map[string]callRecord{}, k.p.Offset
	if k.graph.version != "" {
		k.version = k.graph.version
	}
	for n, m := range k.messages {
		if err := k.message(n, m); err != nil {
			return err
		}
	}
	v := k.graph.load()
	head := v.continuesFrom(k.graph.index(k.parent))
	if head == none {
		return segno.Errorf(segno.KindInternal, opWrite, string(k.to.Session), "the agent would not continue from the last message")
	}
	return v.checkChain(head)
}

func (k *continuation) sidecars(ctx context.Context) ([]sidecar, error) {
	if k.isNew {
		return nil, nil
	}
	return k.cut.sidecars(ctx)
}

func (k *continuation) openSidecar(ctx context.Context, s sidecar) (io.ReadCloser, error) {
	return k.cut.openSidecar(ctx, s)
}

// wireRecord is one record, with the keys in the agent's order.
type wireRecord struct {
	Parent      *string         `json:"parentUuid"`
	IsSidechain bool            `json:"isSidechain"`
	PromptID    string          `json:"promptId,omitempty"`
	Type        string          `json:"type"`
	IsMeta      bool            `json:"isMeta,omitempty"`
	Message     any             `json:"message"`
	UUID        string          `json:"uuid"`
	Timestamp   string          `json:"timestamp"`
	Permission  string          `json:"permissionMode,omitempty"`
	Source      string          `json:"sourceToolAssistantUUID,omitempty"`
	UserType    string          `json:"userType"`
	Entrypoint  string          `json:"entrypoint"`
	Cwd         string          `json:"cwd"`
	Session     segno.SessionID `json:"sessionId"`
	Version     string          `json:"version"`
}

type wireMessage struct {
	ID      string `json:"id,omitempty"`
	Type    string `json:"type,omitempty"`
	Role    string `json:"role"`
	Model   string `json:"model,omitempty"`
	Content any    `json:"content"`
	Stop    string `json:"stop_reason,omitempty"`
	Usage   any    `json:"usage,omitempty"`
}

// wireBlock is a block of a message.
type wireBlock struct {
	ToolUse string          `json:"tool_use_id,omitempty"`
	Type    string          `json:"type"`
	Text    string          `json:"text,omitempty"`
	ID      string          `json:"id,omitempty"`
	Name    string          `json:"name,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	Source  *wireSource     `json:"source,omitempty"`
	Content any             `json:"content,omitempty"` // a string or wireBlocks
	IsError bool            `json:"is_error,omitempty"`
}

// wireSource is the bytes of an image, or its URL.
type wireSource struct {
	Type  string `json:"type"`
	Media string `json:"media_type,omitempty"`
	Data  string `json:"data,omitempty"`
	URL   string `json:"url,omitempty"`
}

// id returns a UUID derived from the session and the place in it.
func (k *continuation) id(what string, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", k.to.Session, what, n))
	id := uuid.UUID(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id.String()
}

// record writes one record behind the newest one. Times ascend, because the agent orders the
// results of parallel calls by them.
func (k *continuation) record(kind string, m wireMessage, edit func(*wireRecord)) error {
	k.at = k.at.Add(time.Millisecond)
	w := wireRecord{Type: kind, Message: m, UUID: k.id("record", k.records), Timestamp: sessionfile.Timestamp(k.at),
		UserType: "external", Entrypoint: "cli", Cwd: k.to.Dir, Session: k.to.Session, Version: k.version}
	if k.parent != "" {
		w.Parent = &k.parent
	}
	if edit != nil {
		edit(&w)
	}
	data, err := segno.Encode(w)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if _, err := k.out.Write(data); err != nil {
		return err
	}
	var r record
	k.graph.parse(&r, sessionfile.Line{Bytes: bytes.Clone(data), Offset: k.offset, Number: k.records + 1})
	k.parent = w.UUID
	k.records++
	k.offset += int64(len(data))
	return nil
}

func (k *continuation) message(n int, m transcript.Message) error {
	if m.Time.After(k.at) {
		k.at = m.Time
	}
	if k.at.IsZero() {
		k.at = k.c.now()
	}
	if m.Role == transcript.Assistant {
		return k.answer(n, m)
	}
	if m.Prompt || k.prompt == "" {
		k.prompt = k.id("prompt", n)
	}
	var words []transcript.Part
	for _, p := range m.Parts {
		switch {
		case p.Result != nil:
			if err := k.result(p.Result); err != nil {
				return err
			}
		case p.Interruption:
			// The agent writes this record without a permission mode.
			mark := wireMessage{Role: "user", Content: []wireBlock{{Type: "text", Text: interruptMark + "]"}}}
			if err := k.record("user", mark, func(w *wireRecord) { w.PromptID = k.prompt }); err != nil {
				return err
			}
		default:
			words = append(words, p)
		}
	}
	content, ok := wireContent(words)
	if !ok {
		return nil
	}
	return k.record("user", wireMessage{Role: "user", Content: content}, func(w *wireRecord) {
		w.PromptID = k.prompt
		if w.IsMeta = !m.Prompt && n > 0; !w.IsMeta {
			w.Permission = "default" // as for every prompt that a user submits; otherwise the agent would take tags in it for a command
		}
	})
}

// answer writes the blocks of a message of the model.
func (k *continuation) answer(n int, m transcript.Message) error {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s answer %d", k.to.Session, n))
	message := wireMessage{ID: "msg_" + hex.EncodeToString(sum[:12]), Type: "message", Role: "assistant", Model: modelOf(m.Model), Stop: "end_turn", Usage: map[string]int{"input_tokens": 0, "output_tokens": 0}}
	for _, p := range m.Parts {
		if p.Call != nil {
			message.Stop = "tool_use"
		}
	}
	for _, p := range m.Parts {
		block := wireBlock{Type: "text", Text: p.Text}
		if c := p.Call; c == nil && strings.TrimSpace(p.Text) == "" {
			continue // the API rejects a text without words
		} else if c != nil {
			block = wireBlock{Type: "tool_use", ID: k.ids.New(c.ID), Name: sessionfile.ToolName(c.Name), Input: c.Input}
		}
		message.Content = []wireBlock{block}
		if err := k.record("assistant", message, nil); err != nil {
			return err
		}
		if p.Call != nil {
			k.calls[p.Call.ID] = callRecord{block.ID, k.parent}
		}
	}
	return nil
}

// modelOf returns the name of a Claude model unchanged, and the agent's name for a program in place of
// any other. On resume the agent continues with the model of the newest answer that no program wrote.
func modelOf(name string) string {
	if strings.HasPrefix(name, "claude-") {
		return name
	}
	return "<synthetic>"
}

func (k *continuation) result(r *transcript.Result) error {
	call, ok := k.calls[r.Call]
	if !ok {
		return nil // the agent drops a result without a call
	}
	content, _ := wireContent(r.Parts)
	block := wireBlock{ToolUse: call.id, Type: "tool_result", Content: content, IsError: r.IsError}
	return k.record("user", wireMessage{Role: "user", Content: []wireBlock{block}}, func(w *wireRecord) {
		w.PromptID, w.Source = k.prompt, call.uuid
	})
}

// wireContent encodes texts and images as the content of a message or of a result. A single text is only a string.
// ok is false if there is no content.
func wireContent(parts []transcript.Part) (content any, ok bool) {
	switch blocks := wireBlocks(parts); {
	case len(blocks) == 0:
		return "", false
	case len(blocks) == 1 && blocks[0].Type == "text":
		return blocks[0].Text, true
	default:
		return blocks, true
	}
}

// wireBlocks encodes texts and images.
func wireBlocks(parts []transcript.Part) (out []wireBlock) {
	for _, p := range parts {
		switch {
		case p.Image != nil && p.Image.URL != "":
			out = append(out, wireBlock{Type: "image", Source: &wireSource{Type: "url", URL: p.Image.URL}})
		case p.Image != nil:
			out = append(out, wireBlock{Type: "image", Source: &wireSource{Type: "base64", Media: p.Image.Type, Data: p.Image.Data}})
		case strings.TrimSpace(p.Text) != "":
			out = append(out, wireBlock{Type: "text", Text: p.Text})
		}
	}
	return out
}
