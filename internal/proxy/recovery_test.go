package proxy

import (
	"slices"
	"testing"
)

// TestRecoverySteps compares the steps of the recovery ladder, up to stepDone or
// stepGiveUp, for states and the results of the steps.
func TestRecoverySteps(t *testing.T) {
	const ok, refused, ended, failed = stepSucceeded, stepRefused, stepEnded, stepFailed
	all := recoveryState{hasSession: true, canRebuild: true, canFork: true}
	loaded := recoveryState{loaded: true, hasSession: true}
	for name, c := range map[string]struct {
		state   recoveryState
		results []stepResult // a missing result means stepSucceeded
		want    []recoveryStep
	}{
		"loaded and current":          {recoveryState{loaded: true, current: true, hasSession: true}, nil, []recoveryStep{stepKeep, stepDone}},
		"loaded, cannot be recorded":  {recoveryState{loaded: true, current: true, hasSession: true}, []stepResult{failed}, []recoveryStep{stepKeep, stepGiveUp}},
		"stale, closed":               {loaded, nil, []recoveryStep{stepUnload, stepReopen, stepDone}},
		"stale, not closed":           {loaded, []stepResult{refused}, []recoveryStep{stepUnload, stepNew, stepDone}},
		"stale, cannot be read again": {recoveryState{loaded: true, hasSession: true, canRebuild: true}, []stepResult{refused}, []recoveryStep{stepUnload, stepRebuild, stepDone}},
		"reopened":                    {all, nil, []recoveryStep{stepReopen, stepDone}},
		"no session":                  {recoveryState{canRebuild: true}, nil, []recoveryStep{stepRebuild, stepDone}},
		"no session, no transcript":   {recoveryState{canFork: true}, nil, []recoveryStep{stepFork, stepDone}},
		"nothing":                     {recoveryState{}, nil, []recoveryStep{stepNew, stepDone}},
		"current, but not loaded":     {recoveryState{current: true, hasSession: true}, nil, []recoveryStep{stepReopen, stepDone}},
		"every step refused": {all, []stepResult{refused, refused, refused, refused},
			[]recoveryStep{stepReopen, stepRebuild, stepFork, stepNew, stepGiveUp}},
		"a login is wanted": {all, []stepResult{failed}, []recoveryStep{stepReopen, stepGiveUp}},
		"ended once":        {all, []stepResult{ended}, []recoveryStep{stepReopen, stepRestart, stepReopen, stepDone}},
		"ended twice, without the session": {all, []stepResult{ended, ok, ended},
			[]recoveryStep{stepReopen, stepRestart, stepReopen, stepRestart, stepRebuild, stepDone}},
		"refused, then ended: from the top": {all, []stepResult{refused, ended},
			[]recoveryStep{stepReopen, stepRebuild, stepRestart, stepReopen, stepDone}},
		"ends each time": {recoveryState{}, []stepResult{ended, ok, ended, ok, ended, ok, ended},
			[]recoveryStep{stepNew, stepRestart, stepNew, stepRestart, stepNew, stepRestart, stepNew, stepGiveUp}},
		"cannot be started again": {all, []stepResult{ended, failed}, []recoveryStep{stepReopen, stepRestart, stepGiveUp}},
	} {
		var got []recoveryStep
		for st := c.state; ; {
			step := st.next()
			got = append(got, step)
			if step == stepDone || step == stepGiveUp || len(got) > 20 {
				break
			}
			result := ok
			if len(c.results) > 0 {
				result, c.results = c.results[0], c.results[1:]
			}
			st = st.after(step, result)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the steps are %v, want %v", name, got, c.want)
		}
	}
}
