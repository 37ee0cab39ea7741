package timeline

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/dalsegno/segno"
)

// Part is one part of a planned step that a user can choose alone: a hunk of a text file, the attributes of a
// file, or a whole step.
type Part struct {
	// Text is a hunk in the unified format with its context, or describes the attributes. It is "" for a
	// whole step.
	Text string

	from, to   lineRange // of a hunk: the lines of the present content, and those that replace them
	attributes bool
}

// lineRange is a range of lines of a text.
type lineRange struct{ begin, end int }

// Parts returns the parts of a step of a plan in the order in which a user is asked. It returns none for a
// directory that is made or removed together with paths in it, because these decide about the directory.
// Plan must be from [Timeline.Preview].
func (tl *Timeline) Parts(ctx context.Context, p *Plan, step segno.Change) ([]Part, error) {
	if followsContent(step, p.Steps) {
		return nil, nil
	}
	parts, _, err := tl.unlocked().newReverter(&MoveRequest{}, currentState{}).partsOf(ctx, step)
	return parts, err
}

// followsContent reports whether a step makes or removes a directory in which other steps are.
func followsContent(c segno.Change, steps []segno.Change) bool {
	pair := [2]segno.EntityType{c.From.Type, c.To.Type}
	if pair != [2]segno.EntityType{segno.EntityNone, segno.EntityDir} && pair != [2]segno.EntityType{segno.EntityDir, segno.EntityNone} {
		return false
	}
	return slices.ContainsFunc(steps, func(s segno.Change) bool { return strings.HasPrefix(s.Path, c.Path+"/") })
}

// partsOf returns the parts of a step, and the contents on both sides if it has hunks.
func (r *reverter) partsOf(ctx context.Context, c segno.Change) (parts []Part, contents [2][]byte, err error) {
	if c.From.Type != segno.EntityFile || c.To.Type != segno.EntityFile || c.From.Hash == c.To.Hash || max(c.From.Size, c.To.Size) > maxMerge {
		return []Part{{}}, contents, nil
	}
	for i, e := range []segno.Entity{c.From, c.To} {
		if contents[i], err = r.read(ctx, e.Hash); err != nil {
			return nil, contents, err
		}
		if bytes.IndexByte(contents[i], 0) >= 0 {
			return []Part{{}}, contents, nil
		}
	}
	switch {
	case c.From.Mode != c.To.Mode:
		parts = append(parts, Part{attributes: true, Text: fmt.Sprintf("mode %04o becomes %04o\n", c.From.Mode, c.To.Mode)})
	case modeOf(c.From) != modeOf(c.To) || c.From.Xattrs != c.To.Xattrs:
		parts = append(parts, Part{attributes: true, Text: "other attributes than the mode change\n"})
	}
	return append(parts, hunksOf(contents[0], contents[1])...), contents, nil
}

// hunksOf returns the hunks that turn one text into another.
func hunksOf(from, to []byte) (hunks []Part) {
	_, rest, _ := strings.Cut(string(diff.Diff("a", from, "b", to)), "\n@@ ")
	for line := range strings.Lines("@@ " + rest) {
		if line[0] == '@' {
			var a, b lineRange
			if n, _ := fmt.Sscanf(line, "@@ -%d,%d +%d,%d @@", &a.begin, &a.end, &b.begin, &b.end); n != 4 {
				return nil
			}
			hunks = append(hunks, Part{from: a.fromHead(), to: b.fromHead()})
		}
		hunks[len(hunks)-1].Text += line
	}
	return hunks
}

// fromHead converts the first line and the number of lines in the head of a hunk. The first line of an empty
// range is the one before it.
func (l lineRange) fromHead() lineRange {
	if l.end > 0 {
		l.begin--
	}
	return lineRange{l.begin, l.begin + l.end}
}

// chooseParts limits the steps of a plan to the chosen parts; see [MoveRequest]. A directory is made if a
// chosen path is in it, and removed if all paths in it are chosen.
func (tx *txn) chooseParts(ctx context.Context, p *Plan, now currentState, chosen map[string][]int) error {
	if !p.Restore {
		return segno.Errorf(segno.KindInvalid, string(p.Verb), "", "only a move of files can be made in parts")
	}
	r := tx.newReverter(&MoveRequest{}, now)
	planned := p.Steps
	below, picked := choicesByDirectory(planned, chosen)
	p.Steps = nil
	for _, c := range planned {
		which, isChosen := chosen[c.Path]
		if followsContent(c, planned) {
			isChosen = picked[c.Path] > 0 && (c.To.Type == segno.EntityDir || picked[c.Path] == below[c.Path])
		} else if isChosen {
			var err error
			if c, err = r.chooseOf(ctx, c, which); err != nil {
				return err
			}
		}
		if isChosen && c.From != c.To {
			p.Steps = append(p.Steps, c)
		}
	}
	if len(p.Steps) == 0 {
		return segno.Errorf(segno.KindRefused, string(p.Verb), "", "no part was chosen: nothing was done")
	}
	p.setUnnamed(p.Unnamed)
	return r.stageMerged(ctx, p.Steps)
}

// choicesByDirectory counts, for each directory, the steps below it that can be chosen, and the chosen ones.
func choicesByDirectory(steps []segno.Change, chosen map[string][]int) (all, picked map[string]int) {
	all, picked = map[string]int{}, map[string]int{}
	for _, c := range steps {
		if followsContent(c, steps) {
			continue
		}
		_, isChosen := chosen[c.Path]
		for dir := path.Dir(c.Path); dir != "."; dir = path.Dir(dir) {
			if all[dir]++; isChosen {
				picked[dir]++
			}
		}
	}
	return all, picked
}

// chooseOf returns a step that makes only some parts of another one.
func (r *reverter) chooseOf(ctx context.Context, c segno.Change, which []int) (segno.Change, error) {
	parts, contents, err := r.partsOf(ctx, c)
	if err != nil {
		return c, err
	}
	if slices.ContainsFunc(which, func(i int) bool { return i < 0 || i >= len(parts) }) {
		return c, segno.Errorf(segno.KindInvalid, "choose parts", segno.QuotePath(c.Path), "the change has %s", count(len(parts), "part"))
	}
	to, complete, partial := c.From, true, []byte{}
	lines := [2][][]byte{slices.Collect(bytes.Lines(contents[0])), slices.Collect(bytes.Lines(contents[1]))}
	done := 0
	for i, part := range parts {
		isChosen := slices.Contains(which, i)
		complete = complete && isChosen
		switch {
		case !isChosen:
		case part.attributes:
			to = c.To
		case part.Text != "":
			partial = append(partial, bytes.Join(lines[0][done:part.from.begin], nil)...)
			partial = append(partial, bytes.Join(lines[1][part.to.begin:part.to.end], nil)...)
			done = part.from.end
		}
	}
	switch {
	case complete:
		return c, nil
	case len(parts) > 1: // a whole step that was not chosen stays at c.From
		partial = append(partial, bytes.Join(lines[0][done:], nil)...)
		to.Hash, to.Size = segno.HashOf(partial), int64(len(partial))
		if r.contents == nil {
			r.contents = map[segno.Hash][]byte{}
		}
		r.contents[to.Hash] = partial
	}
	c.To, c.Merged = to, true
	return c, nil
}
