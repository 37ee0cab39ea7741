package agent

import (
	"testing"

	"github.com/dalsegno/segno"
)

func TestNextAction(t *testing.T) {
	for name, c := range map[string]struct {
		state callState
		want  callAction
	}{
		"new call":                                 {callState{hasTool: true}, actionStart},
		"new call of an unknown tool":              {callState{}, actionStart},
		"a question is open":                       {callState{waits: true, hasTool: true}, actionWait},
		"a question about a lost call is open":     {callState{waits: true, hasIntent: true, hasTool: true}, actionWait},
		"a task's question is open":                {callState{waits: true, hasIntent: true, hasTool: true, policy: LostRetry}, actionWait},
		"one of a task's questions was answered":   {callState{waits: true, resumable: true, hasIntent: true, hasTool: true, policy: LostRetry}, actionRetry},
		"approved":                                 {callState{decision: segno.Approve, hasTool: true}, actionDecided},
		"approved after the result was lost":       {callState{decision: segno.Approve, hasIntent: true, hasTool: true}, actionDecided},
		"approved, and the agent lacks the tool":   {callState{decision: segno.Approve}, actionNoTool},
		"edited, and the agent lacks the tool":     {callState{decision: segno.Edit}, actionNoTool},
		"rejected":                                 {callState{decision: segno.Reject, hasTool: true}, actionDecided},
		"rejected, and the agent lacks the tool":   {callState{decision: segno.Reject}, actionDecided},
		"answered in place of the tool":            {callState{decision: segno.Respond}, actionDecided},
		"decided, and a new question is open":      {callState{waits: true, decision: segno.Approve, hasTool: true}, actionWait},
		"lost, the tool asks":                      {callState{hasIntent: true, hasTool: true, policy: LostAsk}, actionAsk},
		"lost, the tool fails":                     {callState{hasIntent: true, hasTool: true, policy: LostFail}, actionAsk},
		"lost, the tool retries":                   {callState{hasIntent: true, hasTool: true, policy: LostRetry}, actionRetry},
		"lost, and the agent lacks the tool":       {callState{hasIntent: true}, actionAsk},
		"its intent is committed, it never began":  {callState{hasIntent: true, notBegun: true, hasTool: true}, actionBegin},
		"it never began, and the agent lacks it":   {callState{hasIntent: true, notBegun: true}, actionAsk},
		"approved again after it never began":      {callState{decision: segno.Approve, hasIntent: true, notBegun: true, hasTool: true}, actionDecided},
		"a task that never began, without waiting": {callState{hasIntent: true, notBegun: true, hasTool: true, policy: LostRetry}, actionBegin},
	} {
		if got := nextAction(c.state); got != c.want {
			t.Errorf("%s: action %d, want %d", name, got, c.want)
		}
	}
}
