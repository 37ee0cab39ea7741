package preamble

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// Builder collects the words and calls of a thread, for [Builder.Text]. The zero Builder is ready to use.
// Its size is bounded, whatever the thread's length. It is not for concurrent use.
type Builder struct {
	// Dir is the directory of the session. The text contains paths below it as relative paths.
	Dir string

	turns []*turn // oldest first
	older tallies // older calls, which are only counted
	plan  []todo  // the newest one

	shown string // the notes so far with the complete prompt of the newest turn

	promptBytes, replyBytes, detailBytes, callCount int // in turns
	briefPrompts, briefReplies                      int // how many turns, from the first, have shortened ones

	calls     map[string]*call    // of the newest turn, by id
	running   []*call             // calls without a result, of any turn, oldest first
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
		if cp.Interrupted {
			b.endQuestions(t, unanswered)
		}
	case cp.Kind == segno.CheckpointRestore:
		b.addCall(b.turn(cp.Turn), restored(cp.Label))
	}
}

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
		} else if e.Name == "content" { // of the agent, and not text
			b.addReply(e.Turn, TextOf(get(members(e.Body), "content")))
		} else if e.Name == "shown" {
			b.addAttachments(e)
		} else if e.Name == "end" && TextOf(get(members(e.Body), "stop")) == "cancelled" {
			b.cancelTurn(b.turn(e.Turn))
		}
	}
}

// addUserMessage adds words of the user. If the number is 0 and the newest turn has ended, the words begin the
// next turn.
func (b *Builder) addUserMessage(number int, words string) {
	if n := len(b.turns); number == 0 && n > 0 && b.turns[n-1].isEnded {
		b.beginTurn(0)
	}
	b.addPrompt(b.turn(number), words)
}

// addPrompt adds words to a turn's prompt.
func (b *Builder) addPrompt(t *turn, words string) {
	b.promptBytes -= len(t.prompt)
	t.prompt = joinWords(t.prompt, StripPreamble(words))
	b.promptBytes += len(t.prompt)
	b.shortenOldest()
}

// addAttachments adds the texts that the user attached to a prompt. The notes with the complete prompt contain
// them, as parts of its JSON.
func (b *Builder) addAttachments(e segno.Entry) {
	const most = 1 << 20
	note := members(e.Body)
	if TextOf(get(note, "of")) != "prompt" || len(b.shown) > most {
		return
	}
	b.shown += TextOf(get(note, "text"))
	var blocks []json.RawMessage
	if !strings.HasSuffix(strings.TrimSpace(b.shown), "]") || json.Unmarshal([]byte(b.shown), &blocks) != nil {
		return
	}
	b.shown = ""
	for _, block := range blocks {
		resource := members(get(members(block), "resource"))
		if text := TextOf(get(resource, "text")); text != "" {
			b.addPrompt(b.turn(e.Turn), TextOf(get(resource, "uri"))+":\n"+text)
		}
	}
}

// addReply adds words of the agent.
func (b *Builder) addReply(number int, words string) {
	t := b.turn(number)
	b.replyBytes -= len(t.reply)
	t.reply = joinWords(t.reply, words)
	b.replyBytes += len(t.reply)
	b.shortenOldest()
}

// shortenOldest keeps the words of all turns within their limits. The newest turn stays as it is.
func (b *Builder) shortenOldest() {
	for ; b.promptBytes > maxPromptBytes && b.briefPrompts < len(b.turns)-1; b.briefPrompts++ {
		t := b.turns[b.briefPrompts]
		b.promptBytes -= len(t.prompt)
		t.prompt = clip(t.prompt, briefSize)
		b.promptBytes += len(t.prompt)
	}
	for ; b.replyBytes > maxReplyBytes && b.briefReplies < len(b.turns)-1; b.briefReplies++ {
		t := b.turns[b.briefReplies]
		b.replyBytes -= len(t.reply)
		t.reply = clip(t.reply, briefSize)
		b.replyBytes += len(t.reply)
	}
}

// turn returns the turn with a number. A number higher than any so far begins a new turn.
// Entries without a number belong to the newest turn.
func (b *Builder) turn(number int) *turn {
	for _, t := range slices.Backward(b.turns) {
		if number == 0 || t.number == number {
			return t
		}
	}
	if n := len(b.turns); n > 0 && number < b.turns[n-1].number {
		return b.turns[n-1]
	}
	return b.beginTurn(number)
}

// beginTurn begins a turn. If there are too many, it drops the older half after the first two.
func (b *Builder) beginTurn(number int) *turn {
	b.shown = ""
	b.calls = nil // b.running has the calls of earlier turns that still run
	if len(b.turns) == maxTurns {
		const from, to = 2, maxTurns / 2
		for _, t := range b.turns[from:to] {
			b.promptBytes -= len(t.prompt)
			b.replyBytes -= len(t.reply)
			b.countCalls(t)
		}
		b.turns = slices.Delete(b.turns, from, to)
		b.briefPrompts, b.briefReplies = max(0, b.briefPrompts-to+from), max(0, b.briefReplies-to+from)
	}
	t := &turn{number: number}
	b.turns = append(b.turns, t)
	return t
}

// addCall adds a call to a turn. If there are too many calls, it replaces older ones by counts.
func (b *Builder) addCall(t *turn, c *call) {
	c.turn = t
	t.calls = append(t.calls, c)
	if b.callCount++; b.callCount <= maxCalls {
		return
	}
	for _, t := range b.turns {
		if b.callCount <= maxCalls/2 {
			break
		}
		b.countCalls(t)
	}
	b.older.trim()
}

// countCalls replaces calls of a turn by counts, as many as exceed the limit.
func (b *Builder) countCalls(t *turn) {
	n := len(t.calls)
	if t == b.turns[len(b.turns)-1] {
		n = min(n, max(0, b.callCount-maxCalls/2))
	}
	for _, c := range t.calls[:n] {
		b.setDetails(c, "", "")
		b.older.add(c)
		c.turn = nil
	}
	b.callCount -= n
	t.calls = slices.Clone(t.calls[n:]) // a shorter array
}

// setDetails sets the input and the answer of a call. If there are too many details, the oldest are
// dropped.
func (b *Builder) setDetails(c *call, input, answer string) {
	b.detailBytes += len(input) + len(answer) - len(c.input) - len(c.answer)
	if c.input, c.answer = input, answer; b.detailBytes <= maxDetailBytes {
		return
	}
	for _, t := range b.turns {
		for _, old := range t.calls {
			if old == c || b.detailBytes <= maxDetailBytes/2 {
				return
			}
			b.detailBytes -= len(old.input) + len(old.answer)
			old.input, old.answer = "", ""
		}
	}
}

// removeCall removes a call of a turn.
func (b *Builder) removeCall(c *call) {
	if c.turn == nil {
		return
	}
	if i := slices.Index(c.turn.calls, c); i >= 0 {
		c.turn.calls = slices.Delete(c.turn.calls, i, i+1)
		b.detailBytes -= len(c.input) + len(c.answer)
		b.callCount--
	}
}

// addIntent adds a call that begins, or a later report about a call that has begun. An agent may report a call
// more than once, for example first with a title and then with its input. Until the call ends, the report with
// the longer input counts. If one of the reports shows that the call has an effect, the call does not count as
// a lookup.
func (b *Builder) addIntent(e segno.Entry) {
	now := b.describe(e.Name, e.Body)
	t := b.turn(e.Turn)
	if now.isReadOnly {
		_, _, input, _ := readIntent(e.Body)
		b.setPlan(input)
	}
	if before := b.calls[e.ID]; e.ID != "" && before != nil {
		switch {
		case before.isReadOnly && !now.isReadOnly:
			t.forgetLookup(before.subject)
		case before.isReadOnly:
			if now.isReadOnly && now.inputSize > before.inputSize {
				t.forgetLookup(before.subject)
				t.lookUp(now.subject)
				before.describeAs(now)
			}
			return
		case now.isReadOnly:
			return
		case before.state == begun:
			if before.inputSize == 0 || before.inputSize < now.inputSize {
				before.describeAs(now)
				b.setDetails(before, now.input, "")
			}
			return
		case now.subject == "" || now.subject == before.subject:
			return // a second report of the same call; another call would have another subject
		}
	}
	b.register(now, e.ID, t)
}

// register adds a call to a turn and to the index of calls by id.
func (b *Builder) register(c *call, id string, t *turn) *call {
	c.id = id
	if c.id != "" {
		if b.calls == nil || len(b.calls) >= maxCalls {
			b.calls = map[string]*call{}
		}
		b.calls[c.id] = c
	}
	switch {
	case c.isThought:
	case c.isReadOnly:
		t.lookUp(c.subject)
	default:
		input := c.input
		c.input = ""
		b.addCall(t, c)
		b.setDetails(c, input, "")
		if b.running = append(b.running, c); len(b.running) > maxCalls {
			b.running = slices.Delete(b.running, 0, maxCalls/2)
		}
	}
	return c
}

// setPlan replaces the todo list by the one in raw, if there is one.
func (b *Builder) setPlan(raw json.RawMessage) {
	if list := readTodos(raw); list != nil {
		b.plan = list
	}
}

// addResult adds the result of a call.
func (b *Builder) addResult(e segno.Entry) {
	c := b.find(e)
	if c == nil { // its intent was not recorded
		c = b.register(b.describe(e.Name, nil), e.ID, b.turn(e.Turn))
	}
	if c.isReadOnly || c.state != begun || c.turn == nil {
		return
	}
	end, answer := readResult(e.Body)
	if end == begun {
		b.setDetails(c, c.input, answer)
		return
	}
	b.end(c, end)
	if end != done || !c.isOfFile() {
		b.setDetails(c, c.input, answer)
		return
	}
	if strings.Contains(answer, "\n") || len(answer) > inlineAnswer || strings.Contains(answer, path.Base(c.subject)) {
		answer = "" // the answer repeats the file or its name
	}
	if b.setDetails(c, "", answer); answer == "" { // the file has the content
		b.mergeInto(c)
	}
}

// end sets the final state of a call.
func (b *Builder) end(c *call, end state) {
	c.state = end
	b.running = slices.DeleteFunc(b.running, func(r *call) bool { return r == c })
}

// mergeInto removes an earlier change of the same file in the same turn, because one line is enough for both.
func (b *Builder) mergeInto(c *call) {
	for _, before := range c.turn.calls {
		if before != c && before.state == done && before.answer == "" && before.verb == c.verb && before.subject == c.subject && before.tool == c.tool {
			c.times += before.times
			b.removeCall(before)
			return
		}
	}
}

// find returns the call of a result, or nil. The call may have begun in an earlier turn, in the background.
func (b *Builder) find(e segno.Entry) *call {
	b.turn(e.Turn)
	if c := b.calls[e.ID]; e.ID != "" && c != nil {
		return c
	}
	for _, c := range slices.Backward(b.running) {
		if c.id == e.ID && (e.ID != "" || c.tool == toolName(e.Name)) {
			return c
		}
	}
	return nil
}
