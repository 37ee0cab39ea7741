package agent

import "github.com/dalsegno/segno"

// callState is the state of an open call according to the log.
type callState struct {
	waits     bool               // a question about it, or about a part of its task, is open
	resumable bool               // it is a task, and a question of its subagent was answered or expired
	ended     bool               // a wait inside the call has ended, and the call did not run since
	decision  segno.DecisionKind // the decision that was not acted on yet, "" if none
	hasIntent bool               // an earlier attempt may have begun
	notBegun  bool               // this process knows that the attempt did not begin, or stopped at a wait that was not saved
	hasTool   bool
	policy    OnLost
}

// callAction is the next action of a run for an open call.
type callAction int

const (
	actionStart   callAction = iota // check the arguments, get approval, commit an intent, run
	actionWait                      // leave it: a question is open
	actionDecided                   // run it again or answer it, according to the decision
	actionNoTool                    // leave it: it is approved and this agent lacks the tool
	actionBegin                     // run it for the first time: its intent is committed
	actionRetry                     // run it again under the same key
	actionAsk                       // ask whether it happened
	actionResume                    // run it again: a wait inside it has ended
)

// nextAction decides how a run continues an open call. It is the whole policy of recovery. It
// depends only on the log, except that this process knows of calls that did not begin. A run after a
// crash therefore decides as the crashed one would have.
func nextAction(s callState) callAction {
	switch {
	case s.waits && !s.resumable:
		return actionWait
	case s.ended && s.hasTool:
		return actionResume
	case s.ended:
		return actionNoTool
	case (s.decision == segno.Approve || s.decision == segno.Edit) && !s.hasTool:
		return actionNoTool
	case s.decision != "":
		return actionDecided
	case !s.hasIntent:
		return actionStart
	case s.hasTool && s.notBegun:
		return actionBegin
	case s.policy == LostRetry:
		return actionRetry
	}
	return actionAsk // LostAsk and LostFail; a call with LostRerun has no intent
}

// callStateOf reads the state of an open call.
func (r *run) callStateOf(c Call, intent *intentBody, answer *segno.Answer) callState {
	t := r.toolOf(c.Name)
	s := callState{waits: r.isWaiting(c.ID), resumable: intent != nil && t.isTask && r.isTaskResumable(c.ID), ended: r.endedWait(c.ID) != nil, hasIntent: intent != nil,
		notBegun: r.registry.isNotBegun(r.intentAt(c.ID)) || intent != nil && r.registry.stoppedAt(r.thread, intent.Key).isWait, hasTool: t.Run != nil, policy: t.OnLost}
	if answer != nil {
		s.decision = answer.Decision.Kind
	}
	return s
}
