package web

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
)

// lineOp is a line of a difference: context, removed, added, or the head of a hunk.
type lineOp struct {
	op       byte // ' ', '-', '+', '@'
	old, now int  // the line's numbers on both sides, 0 for a side that lacks it
	text     string
}

// parse fills d from a difference in the unified format.
func (d *lineDiff) parse(unified string) {
	_, hunks, ok := strings.Cut(unified, "\n@@ ")
	if !ok {
		return
	}
	hunks = "@@ " + hunks
	d.all = make([]lineOp, 0, strings.Count(hunks, "\n"))
	var old, now int
	for line := range strings.Lines(hunks) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			continue
		}
		x := lineOp{op: line[0], text: line[1:]}
		switch x.op {
		case '@':
			x.text = line
			old, now = hunkStart(line)
		case '-':
			x.old = old
			old, d.removed = old+1, d.removed+1
		case '+':
			x.now = now
			now, d.added = now+1, d.added+1
		case ' ':
			x.old, x.now = old, now
			old, now = old+1, now+1
		default: // "\ No newline at end of file"
			x.op, x.text = '\\', line
		}
		d.all = append(d.all, x)
	}
}

// hunkStart returns the first line numbers in the head of a hunk.
func hunkStart(head string) (old, now int) {
	var oldCount, nowCount int
	if n, _ := fmt.Sscanf(head, "@@ -%d,%d +%d,%d @@", &old, &oldCount, &now, &nowCount); n != 4 {
		return 0, 0
	}
	return old, now
}

// diffLine is a line for the page. In JSON it is the array [op, old, new, text, ranges, bytes]:
// ranges are the changed parts of the text in units of UTF-16, and bytes is the length of a line
// that is not shown whole, else 0.
type diffLine struct {
	lineOp
	ranges [][2]int
	bytes  int
}

// MarshalJSON writes the array.
func (l diffLine) MarshalJSON() ([]byte, error) {
	ranges := l.ranges
	if ranges == nil {
		ranges = [][2]int{}
	}
	return segno.Encode([]any{string(l.op), l.old, l.now, l.text, ranges, l.bytes})
}

// window returns at most n lines from an offset. In lines that replace others, it marks the words
// that differ.
func (d *lineDiff) window(offset, n int) []diffLine {
	lines := make([]diffLine, 0, min(n, len(d.all)))
	end := min(offset+n, len(d.all))
	for i := offset; i < end; i++ {
		l := diffLine{lineOp: d.all[i]}
		l.text = shownLine(l.text)
		if len(l.text) < len(d.all[i].text) {
			l.bytes = len(d.all[i].text)
		}
		if other := d.partner(i); other >= 0 {
			l.ranges = changedWords(l.text, shownLine(d.all[other].text))
		}
		lines = append(lines, l)
	}
	return lines
}

// shownLine returns the beginning of a line as valid UTF-8.
func shownLine(s string) string {
	s = history.Cut(s, maxLine)
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// maxRun is the length of the longest run of replaced lines that window compares by words.
const maxRun = 500

// partner returns the index of the line that replaces line i, or that line i replaces. A run of
// removed lines and the run of added lines after it correspond line by line. partner returns -1
// if there is no such line.
func (d *lineDiff) partner(i int) int {
	op := d.all[i].op
	if op != '-' && op != '+' {
		return -1
	}
	first := i // the first line of the run that has line i
	for first > 0 && d.all[first-1].op == op && i-first < maxRun {
		first--
	}
	if op == '-' {
		end := i + 1
		for end < len(d.all) && d.all[end].op == '-' && end-i < maxRun {
			end++
		}
		return d.inRun(end+i-first, end, '+')
	}
	start := first
	for start > 0 && d.all[start-1].op == '-' && first-start < maxRun {
		start--
	}
	if at := start + i - first; at < first {
		return at
	}
	return -1
}

// inRun returns the index at if all lines between from and at have the operation op, else -1.
func (d *lineDiff) inRun(at, from int, op byte) int {
	if at >= len(d.all) || at-from > maxRun {
		return -1
	}
	for i := from; i <= at; i++ {
		if d.all[i].op != op {
			return -1
		}
	}
	return at
}
