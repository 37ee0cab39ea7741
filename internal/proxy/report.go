package proxy

import (
	"fmt"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
)

// fail answers a request with an error of ours.
func (s *session) fail(m acp.Message, err error) {
	if m.IsRequest() {
		s.proxy.toClient(acp.Failure(m.IDText(), refusal(err)))
	}
}

// reply answers a request.
func (s *session) reply(m acp.Message, result any) {
	if m.IsRequest() {
		s.proxy.toClient(acp.Result(m.IDText(), acp.Encode(result)))
	}
}

// say sends the client an update of ours.
func (s *session) say(update map[string]any) {
	s.proxy.toClient(acp.Notification("session/update", acp.Encode(map[string]any{"sessionId": s.id, "update": update})))
}

// report tells the client's user one line.
func (s *session) report(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if s.replaying {
		s.reports = append(s.reports, line)
		return
	}
	s.proxy.logf("%s: %s", brief(s.id), line)
	s.proxy.mu.Lock()
	notices := s.proxy.notices
	s.proxy.mu.Unlock()
	if notices {
		s.say(map[string]any{"sessionUpdate": "notice", "severity": "warning", "title": "segno: " + line})
		return
	}
	s.say(spoken("segno: " + line + "\n\n"))
}

// reportLater keeps reports until the client has been shown the conversation that
// they are about; call the result then.
func (s *session) reportLater() (now func()) {
	s.replaying = true
	return func() {
		reports := s.reports
		s.replaying, s.reports = false, nil
		for _, line := range reports {
			s.report("%s", line)
		}
	}
}

// spoken is an update that a client shows as the agent's words. It is a message by
// itself: without an id a client adds it to what the agent says.
func spoken(text string) map[string]any {
	update := chunk("agent_message_chunk", text)
	update["messageId"] = "segno-" + segno.NewID()
	return update
}
