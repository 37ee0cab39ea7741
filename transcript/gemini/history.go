package gemini

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// maxDamage is how many damaged lines are listed.
const maxDamage = 10

// session is a session file with the state that its lines describe.
type session struct {
	sessionfile.Conversation
	title    string
	messages []string
	has      map[string]int // how often messages has an id
	end      int64          // behind the last message
	turnOf   map[string]int
}

type record struct {
	Session  segno.SessionID `json:"sessionId"`
	Kind     string          `json:"kind"`
	Summary  string          `json:"summary"`
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Content  json.RawMessage `json:"content"`
	RewindTo string          `json:"$rewindTo"`
	Set      *struct {
		Summary  string `json:"summary"`
		Messages []struct {
			ID string `json:"id"`
		} `json:"messages"`
	} `json:"$set"`
}

// parse reads whole lines. It reports lines that are not JSON as damage; Gemini CLI ignores them.
func parse(lines []byte) *session {
	s := &session{has: map[string]int{}, turnOf: map[string]int{}}
	s.Lines = lines
	at, number := int64(0), 0
	for line := range bytes.Lines(lines) {
		from := at
		at += int64(len(line))
		number++
		var r record
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := json.Unmarshal(line, &r); err != nil || !utf8.Valid(line) {
			if len(s.Damage) < maxDamage {
				s.Damage = append(s.Damage, segno.Damage{Line: number, Offset: from, Why: "not JSON"})
			}
			continue
		}
		s.add(r, at)
	}
	return s
}

// add applies a line that ends at the offset to.
func (s *session) add(r record, to int64) {
	switch {
	case r.RewindTo != "":
		s.rewind(r.RewindTo)
		s.end = to
	case r.ID != "":
		s.addMessage(r, to)
	case r.Set != nil:
		if r.Set.Summary != "" {
			s.title = r.Set.Summary
		}
		if r.Set.Messages != nil {
			s.messages = s.messages[:0]
			s.has = map[string]int{} // not cleared, which would take as long as the largest size that it had
			for _, m := range r.Set.Messages {
				s.messages = append(s.messages, m.ID)
				s.has[m.ID]++
			}
		}
	}
}

func (s *session) addMessage(r record, to int64) {
	s.end = to
	if s.has[r.ID] == 0 {
		s.messages = append(s.messages, r.ID)
		s.has[r.ID]++
	}
	if prompt := promptOf(r); prompt != "" {
		if _, known := s.turnOf[r.ID]; !known {
			s.Turns = append(s.Turns, sessionfile.Turn{Leaf: r.ID, Prompt: prompt})
		}
	}
	last := len(s.Turns) - 1
	if last < 0 {
		return
	}
	if _, known := s.turnOf[r.ID]; !known {
		s.turnOf[r.ID] = last
	}
	s.Turns[last].To = to
	s.Turns[last].IsAnswered = s.Turns[last].IsAnswered || r.Type == "gemini"
}

// rewind removes a message and those behind it. Like Gemini CLI, it removes all if there is no such message.
func (s *session) rewind(id string) {
	i := max(0, slices.Index(s.messages, id))
	for _, removed := range s.messages[i:] {
		s.has[removed]--
	}
	s.messages = s.messages[:i]
	turn, known := s.turnOf[id]
	switch {
	case !known:
		s.Turns = nil
	case s.Turns[turn].Leaf == id:
		s.Turns = s.Turns[:turn]
	default:
		s.Turns = s.Turns[:turn+1]
	}
	for id, turn := range s.turnOf {
		if turn >= len(s.Turns) {
			delete(s.turnOf, id)
		}
	}
}

// promptOf returns the text of a message that the user wrote. It returns "" for results of
// tools, commands of the terminal, and context that Gemini CLI adds.
func promptOf(r record) string {
	if r.Type != "user" {
		return ""
	}
	text := textOf(r.Content)
	for _, prefix := range []string{"/", "?", "<session_context>", "<hook_context>"} {
		if strings.HasPrefix(strings.TrimSpace(text), prefix) {
			return ""
		}
	}
	return text
}

type part struct {
	Text string `json:"text"`
}

// textOf returns the text of a message's content, which is a string, a part, or a list of both.
func textOf(content json.RawMessage) string {
	var list []json.RawMessage
	if json.Unmarshal(content, &list) == nil {
		var b strings.Builder
		for _, item := range list {
			b.WriteString(textOf(item))
		}
		return b.String()
	}
	var text string
	var p part
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	_ = json.Unmarshal(content, &p) // a part without a text is not a prompt
	return p.Text
}

// isSame reports whether two sessions of the same file have the same turns, and other has all messages of s. When Gemini CLI resumes
// a session, it adds a message beside each call.
func (s *session) isSame(other *session) bool {
	return slices.Equal(s.turnLeaves(), other.turnLeaves()) && s.lastTo() == other.lastTo() && hasInOrder(other.messages, s.messages)
}

// hasInOrder reports whether all has the elements of some, in the same order.
func hasInOrder(all, some []string) bool {
	for _, id := range all {
		if len(some) > 0 && id == some[0] {
			some = some[1:]
		}
	}
	return len(some) == 0
}

func (s *session) turnLeaves() (leaves []string) {
	for _, t := range s.Turns {
		leaves = append(leaves, t.Leaf)
	}
	return leaves
}

// lastTo returns the end of the newest turn.
func (s *session) lastTo() int64 {
	if len(s.Turns) == 0 {
		return 0
	}
	return s.Turns[len(s.Turns)-1].To
}
