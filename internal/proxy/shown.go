package proxy

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/internal/preamble"
)

// The names of notes that only serve to show a conversation again.
const (
	noteShown   = "shown"   // a part of what another entry has only shortened
	noteThought = "thought" // a part of a thought of the agent
	noteContent = "content" // a content block of the agent that is not text
)

// How much is recorded to be shown again.
const (
	shownPart    = 8 << 10   // in one note
	maxShown     = 1 << 20   // of one message, prompt or content block
	maxShownCall = 256 << 10 // of the content of one call, of which a turn may make thousands
)

// shownNote is the body of a note of one of these names. It is an object, because a body that is a text is
// a note for people.
type shownNote struct {
	Of      string          `json:"of,omitempty"` // the entry, see shownKey
	Text    string          `json:"text,omitempty"`
	Content json.RawMessage `json:"content,omitempty"`
}

// shownPrompt names the prompt of the turn.
const shownPrompt = "prompt"

// shownKey names an entry whose complete content is in notes.
func shownKey(kind segno.EntryKind, id string) string { return string(kind) + " " + id }

// shownNotes are the notes with a text in parts. of is the entry that has it shortened.
func shownNotes(name, of, text string) (notes []segno.Entry) {
	for n := 0; text != ""; n++ {
		end := min(len(text), shownPart)
		for end < len(text) && !utf8.RuneStart(text[end]) {
			end--
		}
		notes = append(notes, segno.Entry{Kind: segno.EntryNote, Name: name, ID: fmt.Sprintf("%s %s %d", name, of, n),
			Body: acp.Encode(shownNote{Of: of, Text: text[:end]})})
		text = text[end:]
	}
	return notes
}

// shownInFull returns the texts in the notes among entries, by the entry that has them shortened.
func shownInFull(entries []segno.Entry) map[string]string {
	full := map[string]string{}
	for _, e := range entries {
		var note shownNote
		if e.Kind == segno.EntryNote && e.Name == noteShown && json.Unmarshal(e.Body, &note) == nil {
			full[note.Of] += note.Text
		}
	}
	return full
}

// isShortened reports whether a text is too long for an entry.
func isShortened(text string) bool { return len(acp.Encode(text)) > segno.MaxUnclipped }

// promptNotes are the notes with a prompt that its entry has only shortened: a long one, and one with
// attachments, of which the entry has the names.
func promptNotes(m acp.Message, text string) []segno.Entry {
	blocks, isShort := m.Find(m.Params, "prompt").Of(m.Line), !isShortened(text)
	m.Elements(m.Find(m.Params, "prompt"), func(block acp.Span) {
		isShort = isShort && m.Text(m.Find(block, "type")) == "text"
	})
	if isShort || len(blocks) > maxShown {
		return nil
	}
	return shownNotes(noteShown, shownPrompt, strings.ToValidUTF8(string(blocks), string(utf8.RuneError)))
}

// contentNote is the note with a content block.
func contentNote(n int, block json.RawMessage) segno.Entry {
	if len(block) > maxShown {
		block = acp.Encode(map[string]string{"type": "text", "text": "[content that was too large to record]"})
	}
	return segno.Entry{Kind: segno.EntryNote, Name: noteContent, ID: fmt.Sprint(noteContent, " ", n), Body: acp.Encode(shownNote{Content: block})}
}

// entry is the body of the result's entry. If the result is too long for one, the body has the two ends of its
// text, and notes have the content in full.
func (r callResult) entry(call string) (body json.RawMessage, full []segno.Entry) {
	if body = acp.Encode(r); len(body) <= segno.MaxUnclipped {
		return body, nil
	}
	text := preamble.TextOf(r.Content)
	if strings.TrimSpace(text) == "" {
		text = preamble.TextOf(r.Output)
		r.Content = acp.Encode(toolText(text))
	}
	if len(r.Content) <= maxShownCall {
		full = shownNotes(noteShown, shownKey(segno.EntryResult, call), string(r.Content))
	}
	const head, tail = 7 << 10, 3 << 10
	if len(text) > head+tail {
		text = fmt.Sprintf("%s\n… %d of %d bytes are left out …\n%s", text[:head], len(text)-head-tail, len(text), text[len(text)-tail:])
	}
	r.Content, r.Output = acp.Encode(toolText(strings.ToValidUTF8(text, string(utf8.RuneError)))), nil
	return segno.Clip(acp.Encode(r)), full
}

// entryUpdates are the updates that show an entry; full are the texts of shortened entries.
func entryUpdates(e segno.Entry, full map[string]string) []map[string]any {
	one := func(update map[string]any) []map[string]any {
		if update == nil {
			return nil
		}
		return []map[string]any{update}
	}
	switch {
	case e.Kind == segno.EntryMessage && e.Name == "user" && full[shownPrompt] != "":
		var blocks []json.RawMessage
		if json.Unmarshal([]byte(full[shownPrompt]), &blocks) != nil || len(blocks) == 0 {
			break
		}
		delete(full, shownPrompt) // a later message of the user is not the prompt
		var updates []map[string]any
		for _, block := range blocks {
			updates = append(updates, map[string]any{"sessionUpdate": "user_message_chunk", "content": block})
		}
		return updates
	case e.Kind == segno.EntryMessage && full[shownKey(e.Kind, e.ID)] != "":
		return one(textUpdate("agent_message_chunk", full[shownKey(e.Kind, e.ID)]))
	case e.Kind == segno.EntryResult && json.Valid([]byte(full[shownKey(e.Kind, e.ID)])):
		update := resultUpdate(e)
		update["content"] = json.RawMessage(full[shownKey(e.Kind, e.ID)])
		return one(update)
	case e.Kind == segno.EntryNote && (e.Name == noteThought || e.Name == noteContent):
		var note shownNote
		if json.Unmarshal(e.Body, &note) != nil {
			return nil
		}
		if e.Name == noteThought {
			return one(textUpdate("agent_thought_chunk", note.Text))
		}
		return one(map[string]any{"sessionUpdate": "agent_message_chunk", "content": note.Content})
	}
	return one(entryUpdate(e))
}
