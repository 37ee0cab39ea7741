package agent_test

import "testing"

// TestKnownDefectsOfOtherAgents names losses that users of other checkpointed agents
// reported. It checks that nothing is lost here, on a store in memory and on one on disk.
func TestKnownDefectsOfOtherAgents(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(r *rig)
	}{
		{"an approved call is made once", approvedOnce},
		{"an edited call is made with the edited arguments", editedOnce},
		{"a rejected call is not made and the model hears why", rejectedNever},
		{"a person answers in the tool's place", respondedNever},
		{"without somebody to ask a run ends interrupted and not done", nobodyToAsk},
		{"whoever is there is asked after the question is durable", somebodyToAsk},
		{"several questions wait at once and are answered in any order", severalQuestions},
		{"what needs no leave is done while a question waits", othersGoOn},
		{"an approval survives a restart", approvalAfterRestart},
		{"a prompt over a question is refused and loses nothing", promptOverQuestion},

		{"a subagent's question is asked by the agent", taskApproved},
		{"a subagent hears of a rejection", taskRejected},
		{"questions of several subagents are told apart", tasksAtOnce},
		{"a subagent goes on where it stood after a restart", taskAfterRestart},

		{"leaving at the done event loses nothing", leaveAtDone},
		{"a loaded value is a copy", loadedCopies},
		{"the time of creation stays", createdStays},
		{"calls and results are in the saved messages", callsAreSaved},
		{"the count of steps goes on in the next run", stepsGoOn},
		{"threads with like names do not mix", likeNames},
		{"a run without a thread leaves nothing", unsavedRun},
		{"an error of the model loses no step before it", modelBreaksOff},
		{"todos and files come back with the thread", stateComesBack},
		{"a long result is put aside and can be read", longResult},
		{"images and files reach the model byte for byte", partsRoundTrip},
		{"a model that repeats its call ids mixes up nothing", repeatedIDs},
		{"a summary keeps the original and splits no call from its result", summaryKeepsOriginal},
		{"what a summary says is remembered", summaryRemembers},
	} {
		t.Run(c.name, func(t *testing.T) { eachStore(t, c.test) })
	}
}
