package preamble

import (
	"encoding/json"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// question is an unanswered request for permission.
type question struct {
	turn    *turn
	request json.RawMessage // the options of the request
	call    json.RawMessage // the call that needs the permission, in the form of an intent
}

// maxQuestions is the number of open requests for permission that a Builder keeps.
const maxQuestions = 64

// addQuestion adds a request for permission. It keeps the description of the call, because
// the call itself may have no entry yet.
func (b *Builder) addQuestion(e segno.Entry) {
	id, ok := timeline.PermissionCall(e.ID)
	if !ok {
		return
	}
	ms := members(e.Body)
	c := members(get(ms, "toolCall"))
	q := question{turn: b.turn(e.Turn), request: encode(map[string]any{"options": get(ms, "options")}),
		call: encode(map[string]any{"title": TextOf(get(c, "title")), "kind": TextOf(get(c, "kind")), "input": get(c, "rawInput")})}
	if b.questions == nil || len(b.questions) >= maxQuestions {
		b.questions = map[string]question{}
	}
	b.questions[id] = q
}

// encode returns v as JSON, or nil if a part of it is not valid.
func encode(v any) json.RawMessage {
	body, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return body
}

// addAnswer adds the answer to a request for permission. If the user rejected the call, or
// cancelled the turn while the call waited, the call gets the state rejected or withdrawn.
func (b *Builder) addAnswer(e segno.Entry) {
	id, ok := timeline.PermissionCall(e.ID)
	if !ok {
		return
	}
	q := b.questions[id]
	delete(b.questions, id)
	decided, isRefusal := map[timeline.Permission]state{
		timeline.PermissionWithdrawn: withdrawn,
		timeline.PermissionRejected:  rejected,
	}[timeline.PermissionOf(q.request, e.Body)]
	if isRefusal {
		b.refuse(segno.Entry{ID: id, Turn: e.Turn}, q, decided)
	}
}

// refuse sets the state of a call that never ran to decided.
func (b *Builder) refuse(e segno.Entry, q question, decided state) {
	c := b.find(e)
	if c == nil {
		c = b.register(b.describe("", q.call), e.ID, b.turn(e.Turn))
	}
	// An agent reports a call that it did not make as failed.
	if !c.isReadOnly && (c.state == begun || c.state == failed) {
		b.end(c, decided)
		b.setDetails(c, c.input, "")
	}
}

// endQuestions ends the calls that still waited for an answer when the turn ended.
func (b *Builder) endQuestions(t *turn, decided state) {
	for id, q := range b.questions {
		if q.turn == t {
			delete(b.questions, id)
			b.refuse(segno.Entry{ID: id, Turn: t.number}, q, decided)
		}
	}
}

// cancelTurn ends the open calls of a turn that the user cancelled.
func (b *Builder) cancelTurn(t *turn) {
	t.isCancelled = true
	b.endQuestions(t, withdrawn)
	for _, c := range slices.Clone(b.running) {
		if c.turn == t {
			b.end(c, stopped)
		}
	}
}
