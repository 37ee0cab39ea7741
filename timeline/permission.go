package timeline

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
)

// permissionPrefix begins the entry ID of a request for permission. The ID of the call follows
// it.
const permissionPrefix = "permission "

// PermissionID returns the entry ID of a request for permission to make a call and of its
// answer, an interrupt and a decision. Their bodies are the params and the result of
// session/request_permission of the Agent Client Protocol.
func PermissionID(call string) string { return permissionPrefix + call }

// PermissionCall returns the call of an entry ID that [PermissionID] made.
func PermissionCall(id string) (call string, ok bool) { return strings.CutPrefix(id, permissionPrefix) }

// Permission is the answer to a request for permission.
type Permission string

// The answers. Any other answer has the zero Permission.
const (
	PermissionGiven     Permission = "given"
	PermissionRejected  Permission = "rejected"
	PermissionWithdrawn Permission = "withdrawn" // the turn was cancelled while the question was open
)

// cancelled is the body of an answer that is [PermissionWithdrawn].
const cancelled = `{"outcome":{"outcome":"cancelled"}}`

// PermissionOf returns the answer to a request for permission, given the body of an interrupt
// and the body of its decision.
func PermissionOf(request, answer json.RawMessage) Permission {
	var said struct {
		Outcome struct {
			Outcome string `json:"outcome"`
			Option  string `json:"optionId"`
		} `json:"outcome"`
	}
	if json.Unmarshal(answer, &said) != nil {
		return ""
	}
	switch said.Outcome.Outcome {
	case "cancelled":
		return PermissionWithdrawn
	case "selected":
	default:
		return ""
	}
	var asked struct {
		Options []struct {
			ID   string `json:"optionId"`
			Kind string `json:"kind"` // allow_once, reject_always, …
		} `json:"options"`
	}
	if json.Unmarshal(request, &asked) == nil {
		for _, o := range asked.Options {
			if o.ID == said.Outcome.Option && strings.HasPrefix(o.Kind, "reject") {
				return PermissionRejected
			}
		}
	}
	return PermissionGiven
}

// permissions holds the answers to a turn's requests for permission, by call ID.
type permissions struct {
	refused map[string]bool      // calls that were not made
	given   map[string]time.Time // when the user first permitted a call
	open    map[string]bool      // requests without an answer
}

func permissionsOf(entries []segno.Entry) permissions {
	p := permissions{refused: map[string]bool{}, given: map[string]time.Time{}, open: map[string]bool{}}
	requests := map[string]json.RawMessage{}
	for _, e := range entries {
		call, ok := PermissionCall(e.ID)
		switch {
		case e.Kind == segno.EntryInterrupt && ok:
			requests[call], p.open[call] = e.Body, true
		case e.Kind == segno.EntryDecision && ok:
			answer := PermissionOf(requests[call], e.Body)
			if _, runs := p.given[call]; !runs { // a running command may ask again, for example to use the network
				p.refused[call] = answer == PermissionRejected || answer == PermissionWithdrawn
				if answer == PermissionGiven {
					p.given[call] = e.Time
				}
			}
			delete(p.open, call)
		}
	}
	return p
}

// shellCalls returns the number of commands that a turn with these entries ran. It does not
// count commands that the user did not permit. If resolved is set, every call that was made has
// a result, so it does not count commands without a result either.
func shellCalls(entries []segno.Entry, resolved bool) (n int) {
	p, ended := permissionsOf(entries), endedCalls(entries)
	for _, e := range entries {
		if e.Kind != segno.EntryIntent || !agents.IsShell(e.Name) || p.refused[e.ID] {
			continue
		}
		if ended[e.ID] || !p.open[e.ID] && !resolved {
			n++
		}
	}
	return n
}

// unmade returns decisions that record that the calls without a result were never made, because
// the user interrupted the turn at the request for permission.
func unmade(entries []segno.Entry) (decisions []segno.Entry) {
	ended := endedCalls(entries)
	for _, e := range entries {
		if e.Kind == segno.EntryIntent && e.ID != "" && !ended[e.ID] {
			ended[e.ID] = true
			decisions = append(decisions, segno.Entry{Kind: segno.EntryDecision, Session: e.Session, Time: e.Time,
				ID: PermissionID(e.ID), Body: json.RawMessage(cancelled)})
		}
	}
	return decisions
}

// endedCalls returns the calls that have a result.
func endedCalls(entries []segno.Entry) map[string]bool {
	ended := map[string]bool{}
	for _, e := range entries {
		if e.Kind == segno.EntryResult {
			ended[e.ID] = true
		}
	}
	return ended
}
