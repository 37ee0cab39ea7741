package timeline

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
)

// lineIndex finds the positions of commits relative to a line. It reads each commit once, so that its cost grows with the number of commits, and
// not with the number of searches.
type lineIndex struct {
	tx    *txn
	known map[segno.CommitID]linePos
}

// linePos is the position of a commit: the number of turns and steps at or below it that are on the line, and of those that are not.
type linePos struct{ on, off int }

// newLineIndex returns the index of the line that ends at a commit.
func (tx *txn) newLineIndex(ctx context.Context, tip segno.CommitID) (*lineIndex, error) {
	line, err := tx.line(ctx, tip)
	x := &lineIndex{tx, make(map[segno.CommitID]linePos, len(line))}
	at := linePos{}
	for _, c := range slices.Backward(line) {
		if endsTurn(c) {
			at.on++
		}
		x.known[c.ID] = at
	}
	return x, err
}

// find returns the position of a commit.
func (x *lineIndex) find(ctx context.Context, id segno.CommitID) (at linePos, err error) {
	var above []segno.CommitID // commits that are not known yet, newest first
	var ends []bool            // whether each ends a turn
	for n, err := range segno.Ancestors(ctx, x.tx.Store, id, segno.Window{}) {
		if err != nil {
			return at, err
		}
		var isKnown bool
		if at, isKnown = x.known[n.ID]; isKnown {
			break
		}
		above, ends = append(above, n.ID), append(ends, n.Checkpoint != nil && endsTurn(n.Checkpoint))
	}
	for i, id := range slices.Backward(above) {
		if ends[i] {
			at.off++
		}
		x.known[id] = at
	}
	return at, nil
}

// findBoth returns the positions of two commits.
func (x *lineIndex) findBoth(ctx context.Context, a, b segno.CommitID) (from, to linePos, err error) {
	if from, err = x.find(ctx, a); err == nil {
		to, err = x.find(ctx, b)
	}
	return from, to, err
}
