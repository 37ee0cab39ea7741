package preamble

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// How much a ledger keeps. A text has no room for more, however large its budget.
const (
	keepEffects = 2048      // one by one
	keepBytes   = 512 << 10 // of their inputs and answers
	keepTallies = 4096
	keepTools   = 64
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
	e.measure()
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
		e.measure()
	}
}

// fold counts the older half of the effects instead of keeping them.
func (l *ledger) fold() {
	half := len(l.recent) / 2
	for _, e := range l.recent[:half] {
		l.held -= e.bytes()
		l.before.add(e, 1, 0)
	}
	l.recent = slices.Delete(l.recent, 0, half)
	l.before.sort()
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
			spare -= e.sizes[d]
		}
		if spare < 0 {
			continue
		}
		deeper := len(told) // from here on
		for ; d > 0 && deeper > 0; deeper-- {
			more := told[deeper-1].sizes[d-1] - told[deeper-1].sizes[d]
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

// tally is an effect and how often it happened.
type tally struct {
	effect
	times, failed int
	last          int // when, as a place among all that was added
}

// tallies count effects whose sentences are the same.
type tallies struct {
	list  []*tally
	at    map[string]*tally
	added int
	older map[string]int // by tool, what is not even in the list
}

// sort puts those first that did not happen again for the longest time.
func (ts *tallies) sort() {
	slices.SortFunc(ts.list, func(a, b *tally) int { return a.last - b.last })
}

func (ts *tallies) add(e *effect, times, failures int) {
	if e.state == failed {
		failures = times
	}
	ts.added++
	one := &tally{times: times, failed: failures, last: ts.added}
	one.effect = effect{tool: e.tool, act: e.act, subject: line(e.subject, depths[shortest].subject), state: e.state}
	if one.state == failed {
		one.state = done
	}
	key := one.sentence(keepSubject) + one.ending()
	if same := ts.at[key]; same != nil {
		same.times += times
		same.failed += failures
		same.last = ts.added
		return
	}
	if ts.at == nil {
		ts.at = map[string]*tally{}
	}
	ts.at[key] = one
	ts.list = append(ts.list, one)
}

// trim drops the older half of the list when it is too long.
func (ts *tallies) trim() {
	if len(ts.list) <= keepTallies {
		return
	}
	half := len(ts.list) / 2
	for _, t := range ts.list[:half] {
		delete(ts.at, t.sentence(keepSubject)+t.ending())
		ts.count(t)
	}
	ts.list = slices.Delete(ts.list, 0, half)
}

// count keeps of t that it happened.
func (ts *tallies) count(t *tally) {
	if ts.older == nil {
		ts.older = map[string]int{}
	}
	tool := t.tool
	if _, counted := ts.older[tool]; !counted && len(ts.older) >= keepTools {
		tool = ""
	}
	ts.older[tool] += t.times
}

// with is a copy of ts that counts more effects.
func (ts *tallies) with(es []*effect) *tallies {
	all := &tallies{older: maps.Clone(ts.older)}
	for _, t := range ts.list {
		all.add(&t.effect, t.times, t.failed)
	}
	for _, e := range es {
		all.add(e, 1, 0)
	}
	all.sort()
	return all
}

// fit tells ts in at most room bytes, or in the one sentence there is always room
// for. It changes ts.
func (ts *tallies) fit(room int) string {
	if all := ts.tell(); len(all) <= room {
		return all
	}
	first := len(ts.list)
	for left := room - mostOlder; first > 0; first-- {
		if left -= len(ts.list[first-1].tell()); left < 0 {
			break
		}
	}
	for _, t := range ts.list[:first] {
		ts.count(t)
	}
	ts.list = ts.list[first:]
	return ts.tell()
}

func (ts *tallies) tell() string {
	var b strings.Builder
	b.WriteString(ts.tellOlder())
	for _, t := range ts.list {
		b.WriteString(t.tell())
	}
	return b.String()
}

func (t *tally) tell() string {
	s := t.sentence(depths[shortest].subject) + t.ending()
	switch {
	case t.times == 1 && t.failed == 1:
		s += ", and it failed"
	case t.failed == t.times:
		s += fmt.Sprintf(", %s, and it failed each time", times(t.times))
	case t.times > 1:
		s += ", " + times(t.times)
		if t.failed > 0 {
			s += fmt.Sprintf(", of which %d failed", t.failed)
		}
	}
	return s + ".\n"
}

// mostOlder is the length that tellOlder never exceeds.
const mostOlder = 400

// tellOlder names in one sentence what is not told one by one.
func (ts *tallies) tellOlder() string {
	if len(ts.older) == 0 {
		return ""
	}
	names := slices.SortedFunc(maps.Keys(ts.older), func(a, b string) int {
		if n := ts.older[b] - ts.older[a]; n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	sum, other := 0, ts.older[""]
	var by []string
	room := mostOlder - 200
	for _, name := range names {
		n := ts.older[name]
		sum += n
		one := fmt.Sprintf("%d with %s", n, name)
		if name == "" {
			continue
		}
		if room -= len(one) + 2; room < 0 {
			other += n
			continue
		}
		by = append(by, one)
	}
	if other > 0 {
		by = append(by, fmt.Sprintf("%d with others", other))
	}
	return fmt.Sprintf("- Before the rest of this list there were %d more calls, of which there is no room to tell: %s. The command segno log has them all.\n", sum, strings.Join(by, ", "))
}
