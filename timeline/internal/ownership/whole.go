package ownership

import (
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
)

// The reasons why a turn owns every change that was made while it ran. The user reads them.
const (
	WhyNoCalls = "the tool calls of this turn were not reported with their times, so every change while it ran counts as its own, also yours"
	WhyUnseen  = "the beginning and the tool calls of this turn were not reported, so every change since the state before counts as its own, also yours"
	WhyLost    = "the records of some tool calls of this turn were lost, so every change while it ran counts as its own, also yours"
	WhyClocks  = "the clock of the files is not that of this machine, or it was set back, so every change while this turn ran counts as its own, also yours"
)

// clockSlack is how much older than the previous entry an entry may be, because the hooks of parallel
// calls write in any order.
const clockSlack = time.Second

// WhyWhole returns why the calls of a turn that ends now, or their times, are not known, or "". start is zero if the
// beginning of the turn was not reported. knowsCalls is set if no entry of a call means that the turn made none.
func WhyWhole(entries []segno.Entry, start, now time.Time, knowsCalls bool) string {
	switch {
	case start.IsZero():
		return WhyUnseen
	case !knowsCalls && !slices.ContainsFunc(entries, IsReported):
		return WhyNoCalls
	case wasClockSetBack(entries, start, now):
		return WhyClocks
	}
	return ""
}

// LacksIntent reports whether a call that can change files has a result but no intent: the process that should have
// recorded the intent was killed, or the disk was full. The call ran for an unknown part of the turn.
func LacksIntent(entries []segno.Entry) bool {
	began := map[string]bool{}
	for _, e := range entries {
		began[e.ID] = began[e.ID] || isIntent(e)
	}
	return slices.ContainsFunc(entries, func(e segno.Entry) bool {
		return e.Kind == segno.EntryResult && e.ID != "" && !began[e.ID] && agents.Tool(e.Name).ChangesFiles()
	})
}

func isIntent(e segno.Entry) bool { return e.Kind == segno.EntryIntent }

// IsReported reports whether hooks or messages of an agent reported the call of an entry. A write that an agent asked its client for, or a
// call that only a session of Codex shows, says nothing about the other calls.
func IsReported(e segno.Entry) bool {
	return isIntent(e) && e.Name != "fs/write_text_file" && e.Name != "write_stdin"
}

// wasClockSetBack reports whether the times of a turn are impossible for a clock that only goes forward.
func wasClockSetBack(entries []segno.Entry, start, now time.Time) bool {
	last := start
	for _, e := range entries {
		if e.Time.IsZero() {
			continue
		}
		if e.Time.Before(last.Add(-clockSlack)) {
			return true
		}
		last = e.Time
	}
	return now.Before(last.Add(-clockSlack))
}

// LateEnd is what is known about the end of a turn that ended some time ago without an event, because the user
// interrupted it or its agent was killed.
type LateEnd struct {
	Last   time.Time // the newest record of the turn in the agent's transcript, or zero
	Marked bool      // Last is the record of an interruption: the turn and all its calls ended then
	Latest time.Time // the latest possible end, or zero
}

// Evidence returns the evidence about the turn, without its calls. Unless the end is exact, the turn ended no earlier
// than its last entry, and a call without a result may have worked longer.
func (l LateEnd) Evidence(entries []segno.Entry, start time.Time, knowsCalls bool) *Evidence {
	e := &Evidence{Start: start, End: start, Whole: !knowsCalls && !slices.ContainsFunc(entries, IsReported)}
	for i := range entries {
		if entries[i].Time.After(e.End) {
			e.End = entries[i].Time
		}
	}
	if !l.Last.IsZero() {
		e.Exact = l.Marked
		if l.Marked || l.Last.After(e.End) {
			e.End = l.Last
		}
	}
	if !e.Exact && !l.Latest.IsZero() {
		e.End, e.Exact = l.Latest, true
	}
	return e
}
