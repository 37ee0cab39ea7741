package preamble

import (
	"encoding/json"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// Builder collects the words and calls of a thread, for [Builder.Text]. The zero Builder is ready to use.
// Its size is bounded, whatever the thread's length. It is not for concurrent use.
type Builder struct {
	task          string // the first words of the user
	turns         turns
	done          callList
	begun         callList // calls whose outcome is unknown
	refused       callList // calls that the user decided against
	readOnlyCalls int      // number of calls that change nothing
	plan          []todo   // the newest one

	calls     map[string]*call    // of the newest turn, by id
	questions map[string]question // open requests for permission, by the call's id
}

// FromCommits returns a Builder of a thread's line, oldest commit first, with entries.
func FromCommits(nodes []segno.Node) *Builder {
	b := new(Builder)
	for _, n := range nodes {
		b.Add(n)
	}
	return b
}

// Add adds the next commit of the line.
func (b *Builder) Add(n segno.Node) {
	for _, e := range n.Entries {
		b.addEntry(e)
	}
	switch cp := n.Checkpoint; {
	case cp == nil:
	case cp.Kind == segno.CheckpointTurn:
		t := b.turn(cp.Turn)
		if t.prompt == "" { // no entry has the prompt
			b.addPrompt(t, cp.Prompt)
		}
		t.isEnded, t.isInterrupted = true, cp.Interrupted
	case cp.Kind == segno.CheckpointRestore:
		b.done.add(restored(cp.Turn, cp.Label))
	}
}

// isEmpty reports whether no call is known that may have had effects.
func (b *Builder) isEmpty() bool { return b.done.isEmpty() && b.begun.isEmpty() && b.refused.isEmpty() }

// addEntry adds one entry. Hooks and the proxy record the same kinds of entries with
// different bodies; intent.go reads both.
func (b *Builder) addEntry(e segno.Entry) {
	switch e.Kind {
	case segno.EntryMessage:
		if e.Name == "user" {
			b.addUserMessage(e.Turn, TextOf(e.Body))
		} else if e.Name == "agent" {
			b.addReply(e.Turn, TextOf(e.Body))
		}
	case segno.EntryIntent:
		b.addIntent(e)
	case segno.EntryResult:
		b.addResult(e)
	case segno.EntryInterrupt:
		b.addQuestion(e)
	case segno.EntryDecision:
		b.addAnswer(e)
	case segno.EntryNote:
		if e.Name == "plan" {
			b.setPlan(e.Body)
		} else if e.Name == "end" && TextOf(get(members(e.Body), "stop")) == "cancelled" {
			b.cancelTurn(b.turn(e.Turn))
		}
	}
}

// addUserMessage adds words of the user. Without a turn's number, after a turn ended,
// they begin the next one.
func (b *Builder) addUserMessage(number int, words string) {
	if n := len(b.turns.list); number == 0 && n > 0 && b.turns.list[n-1].isEnded {
		b.beginTurn(0)
	}
	t := b.turn(number)
	t.isFirst = t.isFirst && t.prompt == ""
	b.addPrompt(t, words)
}

// addPrompt adds words to a turn's prompt. The first words of all are the task.
func (b *Builder) addPrompt(t *turn, words string) {
	words = StripPreamble(words)
	b.turns.update(t, func() { t.prompt = joinWords(t.prompt, words) })
	if b.task == "" && b.turns.count == 1 {
		b.task = joinWords("", words)
	}
}

// addReply adds words of the agent.
func (b *Builder) addReply(number int, words string) {
	t := b.turn(number)
	b.turns.update(t, func() { t.reply = joinWords(t.reply, words) })
}

// turn returns the turn with a number. A number higher than any so far begins a new turn.
// Entries without a number belong to the newest turn.
func (b *Builder) turn(number int) *turn {
	list := b.turns.list
	for i := len(list) - 1; i >= 0; i-- {
		if number == 0 || list[i].number == number {
			return &list[i]
		}
	}
	if n := len(list); n > 0 && number < list[n-1].number {
		return &list[n-1]
	}
	return b.beginTurn(number)
}

// beginTurn begins a turn. Calls of earlier turns that still run are found in b.begun.
func (b *Builder) beginTurn(number int) *turn {
	b.calls = nil
	return b.turns.begin(number)
}

// turnsBefore returns the turns except for the open one.
func (b *Builder) turnsBefore(open int) turns {
	past := b.turns
	if n := len(past.list); n > 0 && open != 0 && past.list[n-1].number == open {
		past.list = past.list[:n-1]
		past.count--
	}
	return past
}

// addIntent adds a call that begins, or a later report about one that began. An agent may
// report a call more than once, for example first with a title and then with its input.
// Until the call ends, the report with the longer input counts. A call that one of the
// reports shows to be an effect does not count as read-only.
func (b *Builder) addIntent(e segno.Entry) {
	now := describe(e.Name, e.Body)
	b.turn(e.Turn) // it may begin a turn
	if now.isReadOnly {
		_, _, input, _ := readIntent(e.Body)
		b.setPlan(input)
	}
	if before := b.calls[e.ID]; e.ID != "" && before != nil {
		switch {
		case before.isReadOnly && !now.isReadOnly:
			b.readOnlyCalls--
		case before.isReadOnly || now.isReadOnly:
			return
		case before.state == begun:
			if b.begun.remove(before); before.inputSize > 0 && before.inputSize >= now.inputSize {
				now = before
			}
		case now.subject == "" || now.subject == before.subject:
			return // one call, reported twice; another call would have another subject
		}
	}
	b.register(now, e.ID, e.Turn)
	if !now.isReadOnly {
		b.begun.add(now)
	}
}

// register makes a call of a turn known by its id and counts it.
func (b *Builder) register(c *call, id string, number int) *call {
	t := b.turn(number)
	c.id, c.turn = id, t.number
	if c.id != "" {
		if b.calls == nil || len(b.calls) >= maxCalls {
			b.calls = map[string]*call{}
		}
		b.calls[c.id] = c
	}
	if c.isReadOnly {
		b.readOnlyCalls++
	} else {
		t.hasEffects = true
	}
	return c
}

// setPlan replaces the list of things to do by the one in raw, if there is one.
func (b *Builder) setPlan(raw json.RawMessage) {
	if list := readTodos(raw); list != nil {
		b.plan = list
	}
}

// addResult adds the result of a call.
func (b *Builder) addResult(e segno.Entry) {
	c := b.find(e)
	if c == nil { // its intent was not recorded
		c = b.register(describe(e.Name, nil), e.ID, e.Turn)
	}
	if c.isReadOnly || c.state != begun {
		return
	}
	b.begun.remove(c)
	if c.setResult(e.Body); c.state == begun {
		b.begun.add(c)
	} else {
		b.done.add(c)
	}
}

// find returns the call that a result belongs to, or nil. It may have begun in an earlier
// turn, in the background.
func (b *Builder) find(e segno.Entry) *call {
	b.turn(e.Turn)
	if c := b.calls[e.ID]; e.ID != "" && c != nil {
		return c
	}
	for _, c := range slices.Backward(b.begun.recent) {
		if c.id == e.ID && (e.ID != "" || c.tool == toolName(e.Name)) {
			return c
		}
	}
	return nil
}

// question is a request for permission without an answer.
type question struct {
	request json.RawMessage // the options of the request
	call    json.RawMessage // the call it asks for, in the shape of an intent
}

// maxQuestions is how many open requests for permission a Builder keeps.
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
	q := question{request: encode(map[string]any{"options": get(ms, "options")}),
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
// cancelled the turn while the call waited, the call becomes the user's decision.
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
	if !isRefusal {
		return
	}
	c := b.find(segno.Entry{ID: id, Turn: e.Turn})
	if c == nil {
		c = b.register(describe("", q.call), id, e.Turn)
	}
	b.refuse(c, decided)
}

// refuse moves a call to those that the user decided against.
func (b *Builder) refuse(c *call, decided state) {
	if c.isReadOnly || c.state != begun {
		return
	}
	b.begun.remove(c)
	c.state, c.answer = decided, ""
	b.refused.add(c)
}

// cancelTurn ends the open calls of a turn that the user cancelled.
func (b *Builder) cancelTurn(t *turn) {
	t.isCancelled = true
	for _, c := range slices.Clone(b.begun.recent) {
		if c.turn == t.number {
			b.refuse(c, stopped)
		}
	}
}
