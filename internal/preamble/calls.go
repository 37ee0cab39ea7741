package preamble

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// How much a callList keeps. A text has no room for more, however large its budget.
const (
	maxCalls       = 2048      // one by one
	maxDetailBytes = 512 << 10 // of their inputs and answers
)

// callList is a list of calls, oldest first. The newest are kept one by one, older ones
// as their sentences and a counter for each, and those before them as numbers.
type callList struct {
	recent      []*call
	detailBytes int // of recent
	older       tallies
}

func (l *callList) isEmpty() bool {
	return len(l.recent) == 0 && l.older.added == 0
}

// add adds a call as the newest one. It keeps the list within its bounds.
func (l *callList) add(c *call) {
	c.sizes = [len(details)]int{} // the state may be new
	l.recent = append(l.recent, c)
	if l.detailBytes += c.detailSize(); l.detailBytes > maxDetailBytes {
		l.dropDetails()
	}
	if len(l.recent) > maxCalls {
		l.countOlderHalf()
	}
}

// dropDetails drops the details of the older calls, half of all there are.
func (l *callList) dropDetails() {
	for _, c := range l.recent {
		if l.detailBytes <= maxDetailBytes/2 {
			return
		}
		l.detailBytes -= c.detailSize()
		c.dropDetails()
	}
}

// countOlderHalf counts the older half of the calls instead of keeping them.
func (l *callList) countOlderHalf() {
	half := len(l.recent) / 2
	for _, c := range l.recent[:half] {
		l.detailBytes -= c.detailSize()
		l.older.add(c)
		c.dropDetails()
	}
	l.recent = slices.Delete(l.recent, 0, half)
	l.older.trim()
}

func (l *callList) remove(c *call) {
	if i := slices.Index(l.recent, c); i >= 0 {
		l.recent = slices.Delete(l.recent, i, i+1)
		l.detailBytes -= c.detailSize()
	}
}

// without returns a copy of l without some of the calls, for reading.
func (l callList) without(excluded func(*call) bool) callList {
	l.recent = slices.DeleteFunc(slices.Clone(l.recent), excluded)
	return l
}

// TextOf returns a text of every call in at most room bytes. All calls get the highest
// level of detail for which there is room, and the newest get the next level while room
// remains. If there is too little room for the lowest level, equal calls are counted.
func (l *callList) TextOf(room int) string {
	text := l.older.text()
	for level := range details {
		spare := room - len(text)
		for _, c := range l.recent {
			spare -= c.size(level)
		}
		if spare < 0 {
			continue
		}
		fuller := len(l.recent) // the first call with the next level
		for ; level > 0 && fuller > 0; fuller-- {
			c := l.recent[fuller-1]
			if spare -= c.size(level-1) - c.size(level); spare < 0 {
				break
			}
		}
		var b strings.Builder
		b.WriteString(text)
		for i, c := range l.recent {
			if i == fuller {
				level--
			}
			b.WriteString(c.text(level))
		}
		return b.String()
	}
	return l.older.with(l.recent).fit(room)
}

// minSize is the length of the text at the lowest level of detail.
func (l *callList) minSize() int {
	n := len(l.older.text())
	for _, c := range l.recent {
		n += c.size(shortest)
	}
	return n
}

// How much tallies keep.
const (
	maxTallies = 4096
	maxTools   = 64
)

// tally counts the calls with the same sentence.
type tally struct {
	sentence      string // without its end
	tool          string
	times, failed int
	last          int // the position of the newest call among all that were added
}

// tallies count calls by their sentences.
type tallies struct {
	bySentence map[string]*tally
	added      int
	dropped    map[string]int // by tool, the number of calls without a tally
}

// add counts a call as the newest one.
func (ts *tallies) add(c *call) {
	sentence, failures := c.sentence(details[shortest].subject), 0
	if c.state == failed {
		failures = 1
	} else {
		sentence += c.ending()
	}
	if ts.bySentence == nil {
		ts.bySentence = map[string]*tally{}
	}
	t := ts.bySentence[sentence]
	if t == nil {
		t = &tally{sentence: sentence, tool: c.tool}
		ts.bySentence[sentence] = t
	}
	ts.added++
	t.times, t.failed, t.last = t.times+1, t.failed+failures, ts.added
}

// with returns a copy of ts that counts more calls. The copy is for one text; ts itself
// stays as it is, so that the next text can have more room.
func (ts *tallies) with(calls []*call) *tallies {
	all := &tallies{bySentence: map[string]*tally{}, added: ts.added, dropped: maps.Clone(ts.dropped)}
	for sentence, t := range ts.bySentence {
		copied := *t
		all.bySentence[sentence] = &copied
	}
	for _, c := range calls {
		all.add(c)
	}
	return all
}

// sorted returns the tallies. The first is the one with the oldest newest call.
func (ts *tallies) sorted() []*tally {
	return slices.SortedFunc(maps.Values(ts.bySentence), func(a, b *tally) int { return a.last - b.last })
}

// trim drops the older half of the tallies when there are too many.
func (ts *tallies) trim() {
	if len(ts.bySentence) > maxTallies {
		ts.drop(ts.sorted()[:len(ts.bySentence)/2])
	}
}

// drop keeps only a number by tool of some tallies.
func (ts *tallies) drop(list []*tally) {
	if ts.dropped == nil {
		ts.dropped = map[string]int{}
	}
	for _, t := range list {
		delete(ts.bySentence, t.sentence)
		tool := t.tool
		if _, counted := ts.dropped[tool]; !counted && len(ts.dropped) >= maxTools {
			tool = ""
		}
		ts.dropped[tool] += t.times
	}
}

// fit returns the text in at most room bytes, or else only the sentence about the dropped
// calls, for which there always is room. It drops the tallies for which there is no room.
func (ts *tallies) fit(room int) string {
	if size := len(ts.text()); size > room {
		size += maxDroppedText - len(ts.droppedText())
		list, n := ts.sorted(), 0
		for ; n < len(list) && size > room; n++ {
			size -= len(list[n].text())
		}
		ts.drop(list[:n])
	}
	return ts.text()
}

func (ts *tallies) text() string {
	text := []string{ts.droppedText()}
	for _, t := range ts.sorted() {
		text = append(text, t.text())
	}
	return strings.Join(text, "")
}

func (t *tally) text() string {
	s := t.sentence
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

// maxDroppedText is the length that droppedText never exceeds.
const maxDroppedText = 400

// droppedText returns one sentence about the dropped calls, "" if there are none.
func (ts *tallies) droppedText() string {
	if len(ts.dropped) == 0 {
		return ""
	}
	tools := slices.SortedFunc(maps.Keys(ts.dropped), func(a, b string) int {
		return cmp.Or(ts.dropped[b]-ts.dropped[a], strings.Compare(a, b))
	})
	sum, others := 0, ts.dropped[""]
	var byTool []string
	room := maxDroppedText - 200
	for _, tool := range tools {
		n := ts.dropped[tool]
		sum += n
		if tool == "" {
			continue
		}
		text := fmt.Sprintf("%d with %s", n, tool)
		if room -= len(text) + 2; room < 0 {
			others += n
		} else {
			byTool = append(byTool, text)
		}
	}
	if others > 0 {
		byTool = append(byTool, fmt.Sprintf("%d with others", others))
	}
	return fmt.Sprintf("- Before the rest of this list there were %d more calls, which are left out: %s. "+
		"The command segno log has them all.\n", sum, strings.Join(byTool, ", "))
}
