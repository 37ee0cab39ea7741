package preamble_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/preamble"
)

// permission adds a request for permission and, unless it is "", the client's answer,
// as the proxy records them.
func (l *threadWriter) permission(call, title, answer string) *threadWriter {
	l.add(segno.Entry{Kind: segno.EntryInterrupt, ID: "permission " + call, Name: title, Body: json.RawMessage(`{"sessionId":"s","options":[` +
		`{"optionId":"yes","name":"Allow","kind":"allow_once"},{"optionId":"no","name":"Reject","kind":"reject_once"}],` +
		`"toolCall":{"toolCallId":"` + call + `","title":"` + title + `","kind":"execute","rawInput":{"command":"` + title + `"}}}`)})
	if answer != "" {
		l.add(segno.Entry{Kind: segno.EntryDecision, ID: "permission " + call, Body: json.RawMessage(answer)})
	}
	return l
}

const (
	rejectedBody  = `{"outcome":{"outcome":"selected","optionId":"no"}}`
	allowedBody   = `{"outcome":{"outcome":"selected","optionId":"yes"}}`
	cancelledBody = `{"outcome":{"outcome":"cancelled"}}`
)

// Calls that the user refused or cancelled are neither failures nor interruptions.
func TestRefusedCallsAreTheUsersDecision(t *testing.T) {
	const deploy = `{"title":"make deploy","kind":"execute","input":{"command":"make deploy"}}`
	for _, c := range []struct {
		name        string
		add         func(l *threadWriter)
		want, never string
	}{
		{"rejected", func(l *threadWriter) {
			id := l.intent("Bash", deploy)
			l.permission(id, "make deploy", rejectedBody).result(id, "Bash", `{"status":"failed"}`).end()
		}, "- You asked to run “make deploy” with Bash, and the user rejected it: do not do it unless the user asks for it again.", "failed"},
		{"rejected, and the agent never announced the call", func(l *threadWriter) {
			l.permission("x", "make deploy", rejectedBody).end()
		}, "- You asked to run “make deploy”, and the user rejected it: do not do it unless the user asks for it again.", "unknown"},
		{"cancelled while it waited", func(l *threadWriter) {
			id := l.intent("Bash", deploy)
			l.permission(id, "make deploy", cancelledBody).note("end", `{"stop":"cancelled"}`).interrupted()
		}, "- You asked to run “make deploy” with Bash, and the user cancelled it before it was made: do not do it unless the user asks for it again.", "unknown"},
		{"cancelled while it ran", func(l *threadWriter) {
			l.intent("Bash", deploy)
			l.note("end", `{"stop":"cancelled"}`).interrupted()
		}, "- You began to run “make deploy” with Bash, and the user cancelled it while it ran; it may have had effects.", "unknown"},
		{"allowed", func(l *threadWriter) {
			id := l.intent("Bash", deploy)
			l.permission(id, "make deploy", allowedBody).result(id, "Bash", `{"status":"failed"}`).end()
		}, "- You ran “make deploy” with Bash, and it failed.", "rejected"},
	} {
		l := new(threadWriter).prompt("the task").reply("yes").end().prompt("deploy it")
		c.add(l)
		text := preamble.FromCommits(l.nodes).Text(preamble.Options{})
		if !strings.Contains(text, c.want) || strings.Contains(text, c.never) {
			t.Errorf("%s: want %q and not %q in\n%s", c.name, c.want, c.never, text)
		}
		if cancelled := strings.Contains(text, "The user cancelled this before you had finished; do not go on with it"); cancelled != strings.HasPrefix(c.name, "cancelled") {
			t.Errorf("%s: the turn is told as cancelled: %v\n%s", c.name, cancelled, text)
		}
		checkText(t, text, 0)
	}
}
