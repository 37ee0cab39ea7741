package schedule

import (
	"errors"
	"testing"
	"time"

	"github.com/dalsegno/segno"
)

// TestAdmit is the table of the decisions about a job.
func TestAdmit(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	later, earlier := now.Add(time.Minute), now.Add(-time.Minute)
	mine, other, replaces := Job{ID: 7}, Job{ID: 8}, Job{ID: 9, Replaces: []int64{6, 7}}
	after := func(seq int64) Job { return Job{ID: 8, Seq: seq} }
	for what, x := range map[string]struct {
		job  Job
		f    *Front
		want Step
	}{
		"an empty mailbox":                             {other, nil, Step{Action: Drop}},
		"a parked prompt":                              {mine, &Front{State: Parked, Claim: 7}, Step{Action: Drop}},
		"a new prompt":                                 {other, &Front{State: Sent}, Step{Action: Run}},
		"a prompt for later":                           {other, &Front{State: Sent, Next: later}, Step{Action: Sleep, Pause: time.Minute}},
		"a prompt whose time has come":                 {other, &Front{State: Sent, Next: earlier}, Step{Action: Run}},
		"a failed prompt and its job":                  {mine, &Front{State: Sent, Next: later, Claim: 7}, Step{Action: Sleep, Pause: time.Minute}},
		"a failed prompt and a job for its job":        {replaces, &Front{State: Sent, Next: later, Claim: 7}, Step{Action: Sleep, Pause: time.Minute}},
		"a failed prompt and another job":              {other, &Front{State: Sent, Next: later, Claim: 7}, Step{Action: Drop}},
		"a prompt that another worker runs":            {other, &Front{State: Running, Claim: 7, IsOwned: true}, Step{Action: Leave}},
		"a prompt that a dead worker runs":             {other, &Front{State: Running, Claim: 7}, Step{Action: Run}},
		"a prompt that killed its workers":             {other, &Front{State: Running, Claim: 7, Attempts: 3}, Step{Action: Park}},
		"a prompt that killed the replaced worker":     {replaces, &Front{State: Running, Claim: 7, Attempts: 3}, Step{Action: Park}},
		"a prompt whose end was not written":           {replaces, &Front{State: Running, Claim: 7, IsOwned: true, Attempts: 3}, Step{Action: Run}},
		"a prompt that this job runs":                  {mine, &Front{State: Running, Claim: 7, IsOwned: true}, Step{Action: Run}},
		"a prompt that the replaced job runs":          {replaces, &Front{State: Running, Claim: 7, IsOwned: true}, Step{Action: Run}},
		"a wait and the job of a later prompt":         {other, &Front{State: Waiting}, Step{Action: Drop}},
		"a wait and a decision":                        {after(5), &Front{State: Waiting, Seen: 4}, Step{Action: Run}},
		"a wait and a decision that the run knew":      {after(5), &Front{State: Waiting, Seen: 5}, Step{Action: Drop}},
		"a sleep that has ended":                       {other, &Front{State: Waiting, Wake: earlier}, Step{Action: Run}},
		"a sleep that ends now":                        {other, &Front{State: Waiting, Wake: now}, Step{Action: Run}},
		"a sleep and its job, too early":               {Job{ID: 8, Wake: later}, &Front{State: Waiting, Wake: later}, Step{Action: Sleep, Pause: time.Minute}},
		"a sleep and the job of an earlier one":        {Job{ID: 8, Wake: earlier}, &Front{State: Waiting, Wake: later}, Step{Action: Drop}},
		"a limited wait and a decision before its end": {after(5), &Front{State: Waiting, Wake: later, Seen: 4}, Step{Action: Run}},
	} {
		if x.f != nil {
			x.f.Now = now
		}
		p := Policy{MaxAttempts: 3}
		if got := p.Admit(&x.job, x.f); got != x.want {
			t.Errorf("%s: %+v, want %+v", what, got, x.want)
		}
	}
}

// TestFinish is the table of the decisions after an attempt.
func TestFinish(t *testing.T) {
	p := Policy{MaxAttempts: 3, FirstPause: time.Second, MaxPause: 3 * time.Second}
	fails, wake := errors.New("it fails"), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	refused := segno.Errorf(segno.KindRefused, "", "", "never")
	for what, x := range map[string]struct {
		f     Front
		r     Result
		err   error
		isCut bool
		lease time.Duration
		want  Change
	}{
		"an answer":                        {f: Front{State: Sent}, r: Result{Text: "yes"}, want: Change{State: Done, Text: "yes"}},
		"an answer after failures":         {f: Front{State: Sent, Attempts: 2}, r: Result{Text: "yes"}, want: Change{State: Done, Text: "yes"}},
		"a wait":                           {f: Front{State: Waiting, Attempts: 1}, r: Result{IsWaiting: true, Wake: wake}, want: Change{State: Waiting, Wake: wake, Seen: 9}},
		"an undone turn":                   {f: Front{State: Waiting}, r: Result{IsUndone: true}, want: Change{State: Cancelled, Text: "the turn was undone"}},
		"the first failure":                {f: Front{State: Sent}, err: fails, want: Change{State: Sent, IsAgain: true, Attempts: 1, Pause: time.Second, Error: "it fails"}},
		"the second failure":               {f: Front{State: Sent, Attempts: 1}, err: fails, want: Change{State: Sent, IsAgain: true, Attempts: 2, Pause: 2 * time.Second, Error: "it fails"}},
		"the last failure":                 {f: Front{State: Sent, Attempts: 2}, err: fails, want: Change{State: Parked, Attempts: 3, Error: "it fails"}},
		"a failure of a turn that waited":  {f: Front{State: Waiting}, err: fails, want: Change{State: Sent, IsAgain: true, Attempts: 1, Pause: time.Second, Error: "it fails"}},
		"a permanent failure":              {f: Front{State: Sent}, err: refused, want: Change{State: Parked, Attempts: 1, Error: "never"}},
		"a cut":                            {f: Front{State: Sent, Attempts: 1}, err: fails, isCut: true, want: Change{State: Sent, IsAgain: true, Attempts: 1}},
		"a cut of a turn that waited":      {f: Front{State: Waiting, Wake: wake, Seen: 4}, err: fails, isCut: true, want: Change{State: Waiting, IsAgain: true, Wake: wake, Seen: 4}},
		"a cut after a dead worker":        {f: Front{State: Running, Attempts: 1}, err: fails, isCut: true, want: Change{State: Sent, IsAgain: true, Attempts: 1}},
		"a run elsewhere":                  {f: Front{State: Sent}, err: fails, lease: time.Second, want: Change{State: Sent, IsAgain: true, Pause: 1050 * time.Millisecond}},
		"a run elsewhere with a new lease": {f: Front{State: Waiting, Seen: 4}, err: fails, lease: time.Minute, want: Change{State: Waiting, IsAgain: true, Seen: 4, Pause: 2 * time.Second}},
	} {
		x.f.Attempt = nextAttempt(new(Job), &x.f)
		if got := p.Finish(&x.f, 9, x.r, x.err, x.isCut, x.lease); got != x.want {
			t.Errorf("%s: %+v, want %+v", what, got, x.want)
		}
	}
}

// TestPausesGrow verifies that the pauses between attempts double up to a bound, for any number of attempts.
func TestPausesGrow(t *testing.T) {
	p := Policy{FirstPause: time.Second, MaxPause: 5 * time.Second}
	for n, want := range []time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 5 * time.Second, 1000: 5 * time.Second} {
		if got := p.pause(n); n > 0 && n < 5 && got != want || n == 1000 && got != want {
			t.Errorf("after %d attempts the pause is %v", n, got)
		}
	}
}
