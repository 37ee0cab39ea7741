package agent

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// conversation is the messages of a thread's line, and the view of them that the model
// receives: all of them, or a summary and the messages after it.
type conversation struct {
	msgs     []Message
	callIDs  map[string]bool
	shown    []Message
	showSize int // of shown and the system prompt, in bytes
}

func newConversation() conversation { return conversation{callIDs: map[string]bool{"": true}} }

func (c *conversation) add(m Message) {
	c.msgs = append(c.msgs, m)
	for _, call := range m.Calls() {
		c.callIDs[call.ID] = true
	}
}

// isFinished reports whether the last message is an answer without calls.
func (c *conversation) isFinished() bool {
	if len(c.msgs) == 0 {
		return true
	}
	last := &c.msgs[len(c.msgs)-1]
	return last.Role == Assistant && len(last.Calls()) == 0
}

// lastReply returns the model's newest message, or nil.
func (c *conversation) lastReply() *Message {
	for i := len(c.msgs) - 1; i >= 0; i-- {
		if c.msgs[i].Role == Assistant {
			return &c.msgs[i]
		}
	}
	return nil
}

// lastText returns the text of the model's newest message.
func (c *conversation) lastText() string {
	if m := c.lastReply(); m != nil {
		return m.Text()
	}
	return ""
}

// openCalls returns the calls of the model's newest message that have no result, in order.
func (c *conversation) openCalls() (open []Call) {
	done := map[string]bool{}
	for i := len(c.msgs) - 1; i >= 0; i-- {
		m := &c.msgs[i]
		for _, p := range m.Parts {
			if p.Result != nil {
				done[p.Result.Call] = true
			}
		}
		if m.Role == Assistant {
			return slices.DeleteFunc(m.Calls(), func(c Call) bool { return done[c.ID] })
		}
	}
	return nil
}

// originalArgs returns the arguments of an open call as the model wrote them.
func (c *conversation) originalArgs(call string) json.RawMessage {
	for _, o := range c.openCalls() {
		if o.ID == call {
			return o.Args
		}
	}
	return nil
}

// uniqueCalls gives each call of a message an id that no other call of the line has, and
// arguments that are valid JSON. Some models count calls from zero in every message. Ids are compared in the form of the log,
// which has only UTF-8.
func (c *conversation) uniqueCalls(m *Message) (calls []Call) {
	used := map[string]bool{}
	for i := range m.Parts {
		if m.Parts[i].Call == nil {
			continue
		}
		call := *m.Parts[i].Call
		call.ID = strings.ToValidUTF8(call.ID, "\uFFFD")
		if used[call.ID] || c.callIDs[call.ID] {
			call.ID = "call_" + segno.NewID()
		}
		call.Args = normalizeArgs(call.Args)
		m.Parts[i].Call = &call
		used[call.ID] = true
		calls = append(calls, call)
	}
	return calls
}

// normalizeArgs encodes arguments as the log does, so that the model sees the same bytes now
// and after a restart. Invalid JSON becomes a string: the call is refused and recorded.
func normalizeArgs(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return json.RawMessage("{}")
	}
	if out, err := segno.Encode(args); err == nil {
		return out
	}
	out, err := segno.Encode(string(args))
	if err != nil {
		return json.RawMessage("null")
	}
	return out
}

// showAll rebuilds the view: the system prompt, the summary and the messages after it.
func (c *conversation) showAll(system string, s summary) {
	c.shown, c.showSize = nil, len(system)
	if s.Covers > len(c.msgs) {
		s = summary{}
	}
	if s.Covers > 0 {
		c.show(Text("Summary of the conversation so far:\n" + s.Text))
	}
	for _, m := range c.msgs[s.Covers:] {
		c.show(m)
	}
}

// show adds a message to the view. It joins the results of one message's calls, in the order
// of the calls.
func (c *conversation) show(m Message) {
	c.showSize += size(m.Parts)
	last := len(c.shown) - 1
	switch {
	case m.Role != ToolRole || last < 0:
		c.shown = append(c.shown, m)
		return
	case c.shown[last].Role != ToolRole:
		c.shown = append(c.shown, m)
		last++
	default:
		// Concat copies: a model may still hold the parts of an earlier request.
		c.shown[last].Parts = slices.Concat(c.shown[last].Parts, m.Parts)
	}
	if last > 0 {
		c.shown[last].Parts = sortResults(c.shown[last-1].Calls(), c.shown[last].Parts)
	}
}

// sortResults sorts results in the order of their calls. It returns parts unchanged if some
// part is not the result of a call.
func sortResults(calls []Call, parts []Part) []Part {
	order := make(map[string]int, len(calls))
	for i, c := range calls {
		order[c.ID] = i
	}
	for _, p := range parts {
		if p.Result == nil {
			return parts
		}
		if _, ok := order[p.Result.Call]; !ok {
			return parts
		}
	}
	return slices.SortedStableFunc(slices.Values(parts), func(a, b Part) int { return order[a.Result.Call] - order[b.Result.Call] })
}

// cutPoint returns the last index at or before at where no call waits for its result.
func (c *conversation) cutPoint(at int) int {
	for ; at > 0; at-- {
		if c.msgs[at].Role != ToolRole {
			return at
		}
	}
	return 0
}

// size estimates the bytes that parts take in a request.
func size(parts []Part) (n int) {
	const image = 4 * 1600 // about the price of one
	for i := range parts {
		p := &parts[i]
		n += len(p.Text)
		switch {
		case p.Call != nil:
			n += len(p.Call.Name) + len(p.Call.Args)
		case p.Result != nil:
			n += len(p.Result.Text) + size(p.Result.Parts)
		case p.Thinking != nil:
			n += len(p.Thinking.Text) + len(p.Thinking.Data)
		case p.Image != nil:
			n += image
		case p.File != nil:
			n += len(p.File.Data)
		}
	}
	return n
}
