package turns

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
)

// Source reads turns from a store: their entries, or the agent's transcript for a turn whose commit has none, because segno
// began to record the session later. It keeps the last session that it read, so reading the turns of a session from the
// newest to the oldest costs little more than reading one.
type Source struct {
	Store       segno.Store
	Transcripts map[string]segno.Transcript // by agent; may be nil

	session segno.SessionID
	offset  int64   // of the turn that was read last
	talk    []*Turn // the turns before it
}

// maxTranscript is the size of the largest transcript that is read for a turn.
const maxTranscript = 64 << 20

// complete adds the conversation of a turn without entries.
func (s *Source) complete(ctx context.Context, t *Turn, c *segno.Checkpoint) error {
	p := c.Session
	if c.Kind != segno.CheckpointTurn || p == nil || p.Leaf == "" || p.Log.IsZero() || p.Offset > maxTranscript {
		return nil
	}
	reader, ok := s.Transcripts[p.Agent].(transcript.ConversationReader)
	if !ok {
		return nil
	}
	at := -1
	if s.session == p.Session && p.Offset < s.offset {
		at = newest(s.talk, t.Prompt)
	}
	if at < 0 { // the model no longer saw the turn at the later position
		talk, err := reader.ReadConversation(ctx, *p, "", s.Store.Objects())
		if ctx.Err() != nil || segno.KindOf(err) == segno.KindCorrupt {
			return err
		}
		if s.talk = OfMessages(talk.Messages); err != nil {
			s.talk = nil // such as a conversation without a message
		}
		at = newest(s.talk, t.Prompt)
	}
	s.session, s.offset = p.Session, p.Offset
	if at < 0 {
		return nil
	}
	found := s.talk[at:]
	s.talk = s.talk[:at]
	t.Start, t.Model, t.Images, t.Items = found[0].Start, found[0].Model, found[0].Images, found[0].Items
	for _, more := range found[1:] { // prompts that the user typed while the turn ran, or that have no checkpoint
		t.Items = append(t.Items, Item{Author: User, Time: more.Start, Text: more.Prompt, Images: more.Images})
		t.Items = append(t.Items, more.Items...)
	}
	return nil
}

// newest returns the index of the newest turn with a prompt, or -1.
func newest(all []*Turn, prompt string) int {
	for i := len(all) - 1; i >= 0; i-- {
		if strings.TrimSpace(all[i].Prompt) == strings.TrimSpace(prompt) {
			return i
		}
	}
	return -1
}

// OfMessages divides messages of a transcript into turns. Messages before the first prompt, such as a summary, are in no turn.
func OfMessages(messages []transcript.Message) (all []*Turn) {
	for i := range messages {
		m := &messages[i]
		switch {
		case m.Prompt:
			all = append(all, &Turn{Start: m.Time, Prompt: TextOfParts(m.Parts), Images: ImagesOf(m.Parts)})
		case len(all) > 0:
			all[len(all)-1].AddTranscript(m, i)
		}
	}
	return all
}

// AddTranscript adds a message of a transcript, which has a number in the turn.
func (t *Turn) AddTranscript(m *transcript.Message, number int) {
	author := User
	if m.Role == transcript.Assistant {
		author = Agent
	}
	if m.Model != "" {
		t.Model = m.Model
	}
	for _, p := range m.Parts {
		switch {
		case p.Text != "":
			t.Items = append(t.Items, Item{Author: author, Time: m.Time, Text: p.Text, Message: number})
		case p.Image != nil:
			t.Items = append(t.Items, Item{Author: author, Time: m.Time, Images: ImagesOf([]transcript.Part{p}), Message: number})
		case p.Interruption:
			t.Items = append(t.Items, Item{Author: Segno, Time: m.Time, Text: "The user interrupted the turn."})
		case p.Call != nil:
			c := &Call{ID: p.Call.ID, Tool: p.Call.Name, Input: p.Call.Input, Start: m.Time}
			t.Items = append(t.Items, Item{Author: Agent, Time: m.Time, Call: c, Message: number})
		case p.Result != nil:
			if c := t.Call(p.Result.Call); c != nil {
				c.Done, c.End, c.Failed = true, m.Time, p.Result.IsError
				c.Result, c.Images = TextOfParts(p.Result.Parts), ImagesOf(p.Result.Parts)
			}
		}
	}
}

// TextOfParts returns the texts of parts, one on each line.
func TextOfParts(parts []transcript.Part) string {
	var all []string
	for _, p := range parts {
		if p.Text != "" {
			all = append(all, p.Text)
		}
	}
	return strings.Join(all, "\n")
}

// ImagesOf returns the images of parts.
func ImagesOf(parts []transcript.Part) (out []Image) {
	for _, p := range parts {
		if p.Image == nil {
			continue
		}
		data, err := base64.StdEncoding.DecodeString(p.Image.Data)
		if err != nil {
			data = nil
		}
		out = append(out, Image{Type: p.Image.Type, Data: data, URL: p.Image.URL})
	}
	return out
}
