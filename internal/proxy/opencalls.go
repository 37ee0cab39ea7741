package proxy

import "slices"

// openCalls are the tool calls that a client was shown and that have no final status, by
// the agent's ids, oldest first.
type openCalls []string

// see takes an update of a call.
func (o *openCalls) see(kind, id, status string) {
	switch {
	case id == "":
	case status == "completed" || status == "failed":
		*o = slices.DeleteFunc(*o, func(open string) bool { return open == id })
	case (kind == "tool_call" || status != "") && !slices.Contains(*o, id):
		*o = append(*o, id)
	}
}

// closeCalls gives the calls that the client was shown without a final status one: the
// agent that made them works on them no more. The record has no result of them.
func (s *session) closeCalls() {
	for _, id := range s.calls {
		s.say(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "failed",
			"_meta": map[string]any{"segno": map[string]any{"outcome": "unknown"}}})
	}
	s.calls = nil
}
