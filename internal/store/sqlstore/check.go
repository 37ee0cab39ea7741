package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/dalsegno/segno"
)

// ErrStopped ends a check that the caller stopped.
var ErrStopped = errors.New("the check was stopped")

// Check is a check in progress. A store embeds it, reads its rows, and then calls References.
type Check struct {
	segno.Checked

	Report func(error) bool
	Stored map[segno.Hash]bool // the stored names of the objects that exist
	Roots  []*segno.Checkpoint
}

// Verdict reports err, if it is not nil, as damage. It returns [ErrStopped] if the caller stops the check.
func (k *Check) Verdict(err error) error {
	if err == nil {
		return nil
	}
	k.Damaged++
	if !k.Report(err) {
		return ErrStopped
	}
	return nil
}

// References follows each checkpoint in Roots to every object that it reaches. It does not read the objects: an object
// that is not in Stored is missing.
func (k *Check) References(ctx context.Context, s segno.Store, r *Records, p segno.CheckPolicy) error {
	seen := map[segno.Hash]struct{}{}
	var missing []segno.Hash
	visit := func(h segno.Hash) bool {
		if _, ok := seen[h]; ok || h.IsZero() {
			return false
		}
		seen[h] = struct{}{}
		if !k.Stored[r.ObjectName(h)] {
			missing = append(missing, h)
			return false
		}
		return true
	}
	const op = "check checkpoint"
	for _, x := range k.Roots {
		name := string(x.ID)
		missing = nil
		if p.Trace != nil {
			err := p.Trace(ctx, s.Objects(), *x, visit)
			if segno.KindOf(err) == segno.KindCancelled {
				return err
			}
			if err := k.Verdict(r.Corrupt(op, name, err)); err != nil {
				return err
			}
		}
		for _, h := range x.Refs() {
			visit(h)
		}
		for _, h := range missing {
			if err := k.Verdict(r.Corrupt(op, name, fmt.Errorf("object %s is missing", h))); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
