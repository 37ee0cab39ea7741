package preamble

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	keepTallies = 4096
	keepTools   = 64
)

// tally is what was done several times over.
type tally struct {
	what          string // a sentence without its end
	tool          string
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

func (ts *tallies) add(t tally) {
	ts.added++
	t.last = ts.added
	if same := ts.at[t.what]; same != nil {
		same.times += t.times
		same.failed += t.failed
		same.last = t.last
		return
	}
	if ts.at == nil {
		ts.at = map[string]*tally{}
	}
	ts.at[t.what] = &t
	ts.list = append(ts.list, &t)
}

// with is a copy of ts that counts more effects.
func (ts *tallies) with(es []*effect) *tallies {
	all := &tallies{at: make(map[string]*tally, len(ts.list)+len(es)), older: maps.Clone(ts.older)}
	for _, t := range ts.list {
		all.add(*t)
	}
	for _, e := range es {
		all.add(e.tally())
	}
	all.sort()
	return all
}

// sort puts those first that did not happen again for the longest time.
func (ts *tallies) sort() {
	slices.SortFunc(ts.list, func(a, b *tally) int { return a.last - b.last })
}

// trim drops the older half of the list when it is too long.
func (ts *tallies) trim() {
	ts.sort()
	if len(ts.list) > keepTallies {
		ts.drop(len(ts.list) / 2)
	}
}

// drop keeps of the first tallies no more than a number by tool.
func (ts *tallies) drop(first int) {
	if ts.older == nil {
		ts.older = map[string]int{}
	}
	for _, t := range ts.list[:first] {
		delete(ts.at, t.what)
		if _, counted := ts.older[t.tool]; counted || len(ts.older) < keepTools {
			ts.older[t.tool] += t.times
		} else {
			ts.older[""] += t.times
		}
	}
	ts.list = slices.Delete(ts.list, 0, first)
}

// fit tells ts in at most room bytes, or in the one sentence there is always room
// for. What there is no room for is dropped.
func (ts *tallies) fit(room int) string {
	lines, size := make([]string, len(ts.list)), 0
	for i, t := range ts.list {
		lines[i] = t.tell()
		size += len(lines[i])
	}
	first := 0
	if older := ts.tellOlder(); len(older)+size > room {
		for first < len(lines) && size+mostOlder > room {
			size -= len(lines[first])
			first++
		}
	}
	ts.drop(first)
	return ts.tellOlder() + strings.Join(lines[first:], "")
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
	s := t.what
	if t.times > 1 {
		s += ", " + times(t.times)
	}
	switch {
	case t.failed == 0:
	case t.times == 1:
		s += ", and it failed"
	case t.failed == t.times:
		s += ", and it failed each time"
	default:
		s += fmt.Sprintf(", of which %d failed", t.failed)
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
