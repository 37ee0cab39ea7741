package opencode

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// stream builds the lines of a session and finds its turns.
type stream struct {
	sessionfile.Conversation
	version int             // 2 for a session of OpenCode 2
	isUsers map[string]bool // by the id of a message
}

func newStream(f facts) *stream {
	s := &stream{version: f.OpenCode, isUsers: map[string]bool{}}
	s.append(f)
	return s
}

// append adds a line.
func (s *stream) append(v any) {
	text, err := segno.Encode(v)
	if err != nil {
		panic("opencode: internal error: a line does not encode: " + err.Error())
	}
	s.Lines = append(append(s.Lines, text...), '\n')
}

var errNotJSON = errors.New("it is not a JSON object")

// add adds a message or a part.
func (s *stream) add(l line) error {
	if s.version == 2 {
		return s.addMessage(l)
	}
	var data map[string]json.RawMessage
	if json.Unmarshal(l.Data, &data) != nil || data == nil {
		return errNotJSON
	}
	var d struct {
		Role      string `json:"role"`
		Type      string `json:"type"`
		Text      string `json:"text"`
		Synthetic bool   `json:"synthetic"`
	}
	_ = json.Unmarshal(l.Data, &d) // a member of another type is not a prompt
	isMessage := l.Message == ""
	if isMessage {
		delete(data, "summary")
		var err error
		if l.Data, err = json.Marshal(data); err != nil {
			return err
		}
		s.isUsers[l.ID] = d.Role == "user"
	}
	s.append(l)
	last := len(s.Turns) - 1
	isNew := isMessage && d.Role == "user"
	switch {
	case isNew:
		s.Turns = append(s.Turns, sessionfile.Turn{Leaf: l.ID, Key: segno.TurnKey(l.ID)})
		last++
	case last < 0:
		return nil
	case isMessage:
		s.Turns[last].IsAnswered = true
	case s.isUsers[l.Message] && d.Type == "text" && !d.Synthetic:
		s.Turns[last].Prompt = strings.TrimPrefix(s.Turns[last].Prompt+"\n"+d.Text, "\n")
	}
	s.Turns[last].To = int64(len(s.Lines))
	return nil
}

// addMessage adds a message of OpenCode 2. One of a type that is not known belongs to the turn.
func (s *stream) addMessage(l line) error {
	if !json.Valid(l.Data) {
		return errNotJSON
	}
	if l.Type == "user" {
		var d struct {
			Text string `json:"text"`
		}
		if data := bytes.TrimSpace(l.Data); data[0] != '{' {
			return errNotJSON
		}
		_ = json.Unmarshal(l.Data, &d) // a text of another type is not a prompt
		s.Turns = append(s.Turns, sessionfile.Turn{Leaf: l.ID, Key: segno.TurnKey(l.ID), Prompt: d.Text})
	}
	s.append(l)
	last := len(s.Turns) - 1
	switch l.Type {
	case "agent-switched", "model-switched", "location-switched", "idle":
		return nil // it is no part of the conversation, and may follow the capture of the turn
	}
	if last >= 0 {
		s.Turns[last].To = int64(len(s.Lines))
		s.Turns[last].IsAnswered = s.Turns[last].IsAnswered || l.Type == "assistant"
	}
	return nil
}

// document is what 'opencode import' reads.
type document struct {
	Info     map[string]any    `json:"info"`
	Messages []documentMessage `json:"messages"`
}

type documentMessage struct {
	Info  object   `json:"info"`
	Parts []object `json:"parts"`
}

// object is a message or a part of one. Its values keep their bytes, because a model sees the input of a call: a decoded
// number may lose digits, and decoded names their order.
type object map[string]json.RawMessage

// text returns a member that is a string, or "".
func (o object) text(name string) (text string) {
	_ = json.Unmarshal(o[name], &text) // a member of another type is not a text
	return text
}

// setText sets a member to a string.
func (o object) setText(name, text string) error {
	value, err := segno.Encode(text)
	o[name] = value
	return err
}

// isVersion2 reports whether a stream is that of a session of OpenCode 2.
func isVersion2(lines []byte) bool {
	first, _, _ := bytes.Cut(lines, []byte("\n"))
	var f facts
	return json.Unmarshal(first, &f) == nil && f.OpenCode == 2
}

// documentOf returns the document of a stream for a session in dir. rename maps ids of messages and
// parts.
func documentOf(lines []byte, session, dir string, rename func(string) string) ([]byte, error) {
	first, rest, _ := bytes.Cut(lines, []byte("\n"))
	var f facts
	if err := json.Unmarshal(first, &f); err != nil {
		return nil, err
	}
	var doc document
	title := ""
	for text := range bytes.Lines(rest) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, err
		}
		data, err := objectOf(l, session, rename)
		if err != nil {
			return nil, err
		}
		if l.Message == "" {
			doc.Messages = append(doc.Messages, documentMessage{Info: data, Parts: []object{}})
			continue
		}
		if len(doc.Messages) == 0 {
			return nil, errors.New("a part precedes all messages")
		}
		last := &doc.Messages[len(doc.Messages)-1]
		last.Parts = append(last.Parts, data)
		if title == "" {
			title, _, _ = strings.Cut(data.text("text"), "\n")
		}
	}
	doc.Info = map[string]any{"id": session, "slug": f.Slug, "projectID": "global", "directory": dir, "title": title,
		"version": f.Version, "time": map[string]any{"created": f.Created, "updated": f.Created}}
	return segno.Encode(doc)
}

// objectOf returns the message or the part of a line for another session.
func objectOf(l line, session string, rename func(string) string) (object, error) {
	var data object
	if err := json.Unmarshal(l.Data, &data); err != nil {
		return nil, err
	}
	if data == nil {
		return nil, errNotJSON
	}
	ids := map[string]string{"id": rename(l.ID), "sessionID": session}
	if parent := data.text("parentID"); parent != "" {
		ids["parentID"] = rename(parent)
	}
	if l.Message != "" {
		ids["messageID"] = rename(l.Message)
	}
	for name, id := range ids {
		if err := data.setText(name, id); err != nil {
			return nil, err
		}
	}
	return data, nil
}
