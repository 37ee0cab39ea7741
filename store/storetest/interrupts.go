package storetest

import (
	"encoding/json"

	"github.com/dalsegno/segno"
)

// question is an interrupt that waits, about a call with these arguments.
func (f *fixture) question(a segno.Address, args string, allowed ...segno.DecisionKind) segno.Interrupt {
	return segno.Interrupt{ID: f.id("interrupt"), Thread: a.ID(), Call: f.id("call"), Tool: "send_email", Args: json.RawMessage(args),
		ArgsHash: segno.HashOf([]byte(args)), Reason: segno.ReasonApproval, Question: "may it?", Allowed: allowed, Asked: f.now()}
}

func (f *fixture) copied(i segno.Interrupt) segno.Interrupt {
	f.Helper()
	data, err := json.Marshal(i)
	f.ok(err)
	var out segno.Interrupt
	f.ok(json.Unmarshal(data, &out))
	return out
}
