package proxy

// The recovery ladder works on facts and results only, so that a table test can cover each
// path through it without processes. The type attachment collects the facts, takes the
// steps and reports their results.

// recoveryStep is one step of the recovery ladder, which gets a session of the agent whose
// conversation ends at the thread's head. The constants are in the order of preference.
type recoveryStep int

const (
	stepKeep    recoveryStep = iota // the process has the session loaded, up to its newest turn
	stepUnload                      // the process has an old state of the session: the agent closes it, to read it again
	stepReopen                      // the agent resumes or loads the session
	stepRebuild                     // the transcript is rebuilt up to the head, as a new session
	stepFork                        // the agent forks a session that continued after the head
	stepNew                         // a new session receives the conversation as a preamble

	stepRestart // the agent is started again
	stepDone    // the session is found
	stepGiveUp  // there is none: the last error is final
)

// stepResult is the result of a recovery step.
type stepResult int

const (
	stepSucceeded stepResult = iota
	stepRefused              // the agent refused, or the step is not possible here
	stepEnded                // the agent's process ended
	stepFailed               // the error applies to every other step too
)

// maxDeaths is how often the agent may end while it opens a session. After two ends, the
// proxy does not ask it to open the same session again.
const maxDeaths = 3

// recoveryState contains the facts that decide the next recovery step. [recoveryState.next]
// chooses a step, and [recoveryState.after] is the state after its result. Both are pure.
type recoveryState struct {
	loaded     bool // the process has the thread's session loaded
	current    bool // the loaded session has the newest turn
	hasSession bool // a session of the thread's chain ends at the head
	canRebuild bool // the head's checkpoint has a position in a transcript of this agent
	canFork    bool // the agent can fork, and there is a complete turn to fork at

	refused map[recoveryStep]bool // since the agent was started last
	deaths  int
	ended   bool // the agent's process must be started again
	done    bool
	failed  bool
}

// next is the step to take.
func (st recoveryState) next() recoveryStep {
	possible := map[recoveryStep]bool{stepReopen: st.hasSession, stepRebuild: st.canRebuild, stepFork: st.canFork}
	switch {
	case st.done:
		return stepDone
	case st.failed || st.deaths > maxDeaths || st.refused[stepNew]:
		return stepGiveUp
	case st.ended:
		return stepRestart
	case st.loaded && st.current:
		return stepKeep
	case st.loaded:
		return stepUnload
	}
	for _, step := range []recoveryStep{stepReopen, stepRebuild, stepFork} {
		if possible[step] && !st.refused[step] {
			return step
		}
	}
	return stepNew
}

// after is the state after a step. When the agent's process ends, the ladder begins again
// with a new process. After the second end, it skips the session.
func (st recoveryState) after(step recoveryStep, result stepResult) recoveryState {
	switch {
	case result == stepFailed:
		st.failed = true
	case result == stepEnded:
		st.deaths++
		st.loaded, st.ended, st.refused = false, true, nil
		st.hasSession = st.hasSession && st.deaths < 2
	case step == stepUnload: // a session that the agent does not close cannot be read again
		st.loaded, st.hasSession = false, st.hasSession && result == stepSucceeded
	case step == stepRestart:
		st.ended = false
	case result == stepSucceeded:
		st.done = true
	default:
		refused := map[recoveryStep]bool{step: true}
		for s := range st.refused {
			refused[s] = true
		}
		st.refused = refused
	}
	return st
}
