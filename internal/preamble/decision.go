package preamble

import (
	"encoding/json"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// question is a request for permission that may still be answered.
type question struct {
	request json.RawMessage // the options of the request
	call    json.RawMessage // what was asked about, in the shape of an intent
}

// permissionAsked remembers what the user was asked.
func (s *Builder) permissionAsked(e segno.Entry) {
	id, ok := timeline.PermissionCall(e.ID)
	if !ok {
		return
	}
	ms := members(e.Body)
	var q question
	call := members(get(ms, "toolCall"))
	if body, err := json.Marshal(map[string]any{"title": text(get(call, "title")), "kind": text(get(call, "kind")), "input": get(call, "rawInput")}); err == nil {
		q.call = body
	}
	if body, err := json.Marshal(map[string]any{"options": get(ms, "options")}); err == nil {
		q.request = body
	}
	if s.questions == nil || len(s.questions) >= keepTools {
		s.questions = map[string]question{}
	}
	s.questions[id] = q
}

// permissionAnswered makes a call that the user refused, or cancelled while it
// waited for the answer, the user's decision.
func (s *Builder) permissionAnswered(e segno.Entry) {
	id, ok := timeline.PermissionCall(e.ID)
	if !ok {
		return
	}
	q := s.questions[id]
	delete(s.questions, id)
	how := rejected
	switch timeline.PermissionOf(q.request, e.Body) {
	case timeline.PermissionWithdrawn:
		how = withdrawn
	case timeline.PermissionRejected:
	default:
		return
	}
	c := s.called(segno.Entry{ID: id, Turn: e.Turn})
	if c == nil {
		c = describe("", q.call)
		c.id, c.turn = id, s.turn(e.Turn).number
		s.keep(id, c)
		s.act(c)
	}
	s.decide(c, how)
}

// decide moves a call to those that the user decided against.
func (s *Builder) decide(c *effect, how state) {
	if c.looks || c.state != begun {
		return
	}
	s.begun.remove(c)
	c.state, c.answer = how, ""
	s.refused.add(c)
}

// cancel ends the calls that a turn had begun when the user cancelled it.
func (s *Builder) cancel(t *turn) {
	t.cancelled = true
	var of []*effect
	for _, c := range s.begun.recent {
		if c.turn == t.number {
			of = append(of, c)
		}
	}
	for _, c := range of {
		s.decide(c, stopped)
	}
}

// isCancelled reports whether a note says that the user cancelled the turn.
func isCancelled(body json.RawMessage) bool {
	return text(get(members(body), "stop")) == "cancelled"
}
