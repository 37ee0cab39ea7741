package preamble

import (
	"slices"
	"strings"
)

// How much a ledger keeps. A text has no room for more, however large its budget.
const (
	keepEffects = 2048      // one by one
	keepBytes   = 512 << 10 // of their inputs and answers
)

// ledger is a list of effects, oldest first. The newest are kept one by one, those
// before them by the sentence and how often it was true, those before those by
// the number.
type ledger struct {
	recent []*effect
	held   int // bytes of detail in them
	before tallies
}

func (l *ledger) empty() bool {
	return len(l.recent) == 0 && len(l.before.list) == 0 && len(l.before.older) == 0
}

func (l *ledger) add(e *effect) {
	e.sizes = [len(depths)]int{} // it may have ended since
	l.recent = append(l.recent, e)
	if l.held += e.bytes(); l.held > keepBytes {
		l.lighten()
	}
	if len(l.recent) > keepEffects {
		l.fold()
	}
}

// lighten drops the details of the older effects, half of all there are.
func (l *ledger) lighten() {
	for _, e := range l.recent {
		if l.held <= keepBytes/2 {
			return
		}
		l.held -= e.bytes()
		e.input, e.answer = "", ""
		e.sizes = [len(depths)]int{}
	}
}

// fold counts the older half of the effects instead of keeping them.
func (l *ledger) fold() {
	half := len(l.recent) / 2
	for _, e := range l.recent[:half] {
		l.held -= e.bytes()
		l.before.add(e.tally())
		e.input, e.answer = "", ""
	}
	l.recent = slices.Delete(l.recent, 0, half)
	l.before.trim()
}

func (l *ledger) remove(e *effect) {
	for i := len(l.recent) - 1; i >= 0; i-- {
		if l.recent[i] == e {
			l.recent = slices.Delete(l.recent, i, i+1)
			l.held -= e.bytes()
			return
		}
	}
}

// find returns the newest effect that is the one, or nil.
func (l *ledger) find(is func(*effect) bool) *effect {
	for _, e := range slices.Backward(l.recent) {
		if is(e) {
			return e
		}
	}
	return nil
}

// tell tells every effect in at most room bytes, but for those that are told
// elsewhere: all of them as deep as there is room, and what is left over goes to
// the newest.
func (l *ledger) tell(room int, elsewhere func(*effect) bool) string {
	told := l.recent
	if elsewhere != nil {
		told = slices.DeleteFunc(slices.Clone(told), elsewhere)
	}
	before := l.before.tell()
	room -= len(before)
	for d := range depths {
		spare := room
		for _, e := range told {
			spare -= e.size(d)
		}
		if spare < 0 {
			continue
		}
		deeper := len(told) // from here on
		for ; d > 0 && deeper > 0; deeper-- {
			more := told[deeper-1].size(d-1) - told[deeper-1].size(d)
			if more > spare {
				break
			}
			spare -= more
		}
		var b strings.Builder
		b.WriteString(before)
		for i, e := range told {
			if i >= deeper {
				b.WriteString(e.tell(d - 1))
			} else {
				b.WriteString(e.tell(d))
			}
		}
		return b.String()
	}
	return l.before.with(told).fit(room + len(before))
}

// least is the length of the effects, each told as shortly as can be.
func (l *ledger) least(elsewhere func(*effect) bool) int {
	n := len(l.before.tell())
	for _, e := range l.recent {
		if elsewhere == nil || !elsewhere(e) {
			n += e.size(shortest)
		}
	}
	return n
}
