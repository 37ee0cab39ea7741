package preamble

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// How much tallies keep.
const (
	maxTallies = 3072
	maxTools   = 64
)

// tally counts the calls with the same sentence.
type tally struct {
	sentence      string // without its end
	tool          string
	times, failed int
	last          int // the position of its newest call among all added calls
}

// tallies count calls by their sentences.
type tallies struct {
	bySentence map[string]*tally
	added      int
	dropped    map[string]int // by tool, the number of calls without a tally
}

// add counts a call as the newest one.
func (ts *tallies) add(c *call) {
	sentence, failures := c.sentence(shortSubject), 0
	if c.state == failed {
		failures = c.times
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
	t.times, t.failed, t.last = t.times+c.times, t.failed+failures, ts.added
}

// with returns a copy of ts that also counts calls. The copy is for one text; ts stays
// unchanged, so that the next text may describe the same calls one by one.
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

// sorted returns the tallies in the order of their newest calls, oldest first.
func (ts *tallies) sorted() []*tally {
	return slices.SortedFunc(maps.Values(ts.bySentence), func(a, b *tally) int { return a.last - b.last })
}

// trim drops the older half of the tallies when there are too many.
func (ts *tallies) trim() {
	if len(ts.bySentence) > maxTallies {
		ts.drop(ts.sorted()[:len(ts.bySentence)/2])
	}
}

// drop replaces tallies by one number per tool.
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

// fit returns the text in at most room bytes. It drops the tallies for which there is no
// room. If none fits, the text is only the sentence about the dropped calls.
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

// maxDroppedText is an upper bound of the length of droppedText.
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
