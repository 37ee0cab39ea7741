package proxy

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/internal/proxy/acp"
)

// The names of notes that only serve to show a conversation again.
const (
	noteShown   = "shown"   // a part of the content that another entry has only shortened
	noteThought = "thought" // a part of a thought of the agent
	noteContent = "content" // a content block of the agent that is not text
)

// How much is recorded to be shown again.
const (
	shownPart    = 8 << 10   // in one note
	maxShown     = 1 << 20   // of one message, prompt or content block
	maxShownCall = 256 << 10 // of the content of one call, of which a turn may make thousands
)

// shownNote is the body of a note with one of these names. It is an object, because a string as the body means
// a note for people.
type shownNote struct {
	Of      string          `json:"of,omitempty"` // the entry, see shownKey
	Text    string          `json:"text,omitempty"`
	Content json.RawMessage `json:"content,omitempty"`
}

// shownPrompt names the prompt of the turn.
const shownPrompt = "prompt"

// shownKey is the value of shownNote.Of for an entry.
func shownKey(kind segno.EntryKind, id string) string { return string(kind) + " " + id }

// shownNotes splits a text into notes. of names the entry that has the text shortened.
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

// shownInFull joins the texts in the notes among entries. The key of a text is the entry that has it
// shortened.
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

// promptNotes returns the notes with the complete prompt if its entry does not have it: the entry shortens a
// long prompt, and has only the names of attachments.
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

// entry returns the body of the result's entry. If the result is too long for one entry, the body has the
// beginning and the end of its text, and the notes in full have the complete content.
func (r callResult) entry(call string) (body json.RawMessage, full []segno.Entry) {
	if body = acp.Encode(r); len(body) <= segno.MaxUnclipped {
		return body, nil
	}
	text := turns.TextOf(r.Content)
	if strings.TrimSpace(text) == "" {
		text = turns.TextOf(r.Output)
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

// entryUpdates returns the updates that show an entry. full has the complete texts of shortened entries.
func entryUpdates(e segno.Entry, full map[string]string) []map[string]any {
	one := func(update map[string]any) []map[string]any {
		if update == nil {
			return nil
		}
		return []map[string]any{update}
	}
	switch {
	case e.Kind == segno.EntryMessage && e.Name == "user" && full[shownPrompt] != "":
		if updates := promptUpdates(full); len(updates) > 0 {
			return updates
		}
	case e.Kind == segno.EntryMessage && full[shownKey(e.Kind, e.ID)] != "":
		return one(textUpdate("agent_message_chunk", full[shownKey(e.Kind, e.ID)]))
	case e.Kind == segno.EntryResult && json.Valid([]byte(full[shownKey(e.Kind, e.ID)])):
		update := resultUpdate(e)
		update["content"] = json.RawMessage(full[shownKey(e.Kind, e.ID)])
		return one(update)
	case isOutputNote(e):
		return one(noteUpdate(e))
	}
	return one(entryUpdate(e))
}

// promptUpdates returns the updates that show the blocks of the prompt. It removes the prompt from full, because a later
// message of the user is not the prompt.
func promptUpdates(full map[string]string) (updates []map[string]any) {
	var blocks []json.RawMessage
	if json.Unmarshal([]byte(full[shownPrompt]), &blocks) != nil || len(blocks) == 0 {
		return nil
	}
	delete(full, shownPrompt)
	for _, block := range blocks {
		updates = append(updates, map[string]any{"sessionUpdate": "user_message_chunk", "content": block})
	}
	return updates
}

// isOutputNote reports whether an entry is a thought of the agent, or a block of its answer that is not text.
func isOutputNote(e segno.Entry) bool {
	return e.Kind == segno.EntryNote && (e.Name == noteThought || e.Name == noteContent)
}

// noteUpdate returns the update that shows an output note, or nil if the note is malformed.
func noteUpdate(e segno.Entry) map[string]any {
	var note shownNote
	switch err := json.Unmarshal(e.Body, &note); {
	case err != nil:
		return nil
	case e.Name == noteThought:
		return textUpdate("agent_thought_chunk", note.Text)
	}
	return map[string]any{"sessionUpdate": "agent_message_chunk", "content": note.Content}
}
