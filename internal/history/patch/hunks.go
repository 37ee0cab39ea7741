package patch

import (
	"bytes"
	"fmt"

	"github.com/rogpeppe/go-internal/diff"
)

// Hunk is a change of lines: the lines From to FromEnd of one content became the lines To to ToEnd of another one. Lines
// count from 0, and the ends are not included.
type Hunk struct{ From, FromEnd, To, ToEnd int }

// Hunks returns the hunks of the unified diff of two contents. A missing newline at the end of a content is not a
// difference, because a line stays the same if another one is added below it.
func Hunks(before, after []byte) (all []Hunk) {
	x, y := 0, 0 // the next line of each content
	isOpen := false
	open := func() *Hunk {
		if !isOpen {
			all, isOpen = append(all, Hunk{x, x, y, y}), true
		}
		return &all[len(all)-1]
	}
	const head = 3 // lines with the names
	n := 0
	for line := range bytes.Lines(diff.Diff("a", withNewline(before), "b", withNewline(after))) {
		if n++; n <= head {
			continue
		}
		switch line[0] {
		case '-':
			open().FromEnd++
			x++
		case '+':
			open().ToEnd++
			y++
		case ' ':
			isOpen = false
			x, y = x+1, y+1
		case '@':
			isOpen = false
			x, y = beginOf(line)
		}
	}
	return all
}

// beginOf returns the first lines that the head of a hunk names, as in "@@ -3,4 +3,5 @@". A hunk without lines of one content
// names the line before.
func beginOf(head []byte) (x, y int) {
	var nx, ny int
	_, _ = fmt.Sscanf(string(head), "@@ -%d,%d +%d,%d", &x, &nx, &y, &ny) // package diff wrote it
	return x - min(nx, 1), y - min(ny, 1)
}

func withNewline(content []byte) []byte {
	if len(content) == 0 || content[len(content)-1] == '\n' {
		return content
	}
	return append(bytes.Clone(content), '\n')
}
