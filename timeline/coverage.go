package timeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
)

// coverer is a [Workspace] that knows about coverage.
type coverer interface {
	// Cover has the following Snapshots and Applies go on saving what trees saved.
	// Without arguments the workspace's rules alone decide.
	Cover(with ...segno.Coverage)
	// Lost returns how many files tree a saved that tree b only records as protected.
	Lost(ctx context.Context, a, b segno.Hash) (files int, err error)
}

// CoverTurns has the workspace keep saving the paths that it saved when its open turns began.
// The caller holds the workspace's lock. Every other method that takes the lock does the same.
func (tl *Timeline) CoverTurns(ctx context.Context) error { return tl.begin().coverTurns(ctx) }

// coverTurns has the workspace keep saving the paths that it saved when its open turns began,
// or, if none is open, those of the newest commit about it. The agent may have written a
// rule that appears while a turn is open, so such a rule removes nothing from the turn's
// checkpoint.
func (tx *txn) coverTurns(ctx context.Context) error {
	w, ok := tx.Workspace.(coverer)
	if !ok {
		return nil
	}
	turns, err := tx.Spool.Turns(ctx)
	if err != nil {
		return err
	}
	var with []segno.Coverage
	for _, t := range turns {
		if t.Workspace == tx.Workspace.ID() && t.Before != nil {
			with = append(with, segno.Coverage{Tree: t.Before.Tree, Strict: true})
		}
	}
	if len(with) == 0 {
		last, err := tx.lastSnapshot(ctx)
		if err != nil {
			return err
		}
		if last != nil {
			with = append(with, segno.Coverage{Tree: last.Tree})
		}
	}
	w.Cover(with...)
	return nil
}

// cover is [Workspace] Cover where the workspace has it.
func (tx *txn) cover(with ...segno.Coverage) {
	if w, ok := tx.Workspace.(coverer); ok {
		w.Cover(with...)
	}
}

// isSaved reports whether the store holds the entity.
func isSaved(e segno.Entity) bool {
	return e.Type != segno.EntityNone && e.Type != segno.EntityProtected
}

// countUnsaved counts the files that tree a saved and tree b does not, given what differs.
func (tx *txn) countUnsaved(ctx context.Context, a, b segno.Hash, changes []segno.Change) (int, error) {
	n := 0
	for _, c := range changes {
		if isSaved(c.From) && c.To.Type == segno.EntityProtected {
			n++
		}
	}
	if w, ok := tx.Workspace.(coverer); ok && n > 0 {
		files, err := w.Lost(ctx, a, b)
		if err != nil {
			return 0, fmt.Errorf("count the files that are not saved any more: %w", err)
		}
		return files, nil
	}
	return n, nil
}

// unsavedWarning tells the user that files which were saved before are not saved any
// more, or "".
func unsavedWarning(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "segno: 1 file that was recorded before is protected now, and changes to it are not recorded; see 'segno status'"
	}
	return fmt.Sprintf("segno: %d files that were recorded before are protected now, and changes to them are not recorded; see 'segno status'", n)
}

// coverageWarning tells the user what became of the coverage during a turn, or is "".
func coverageWarning(before *segno.Snapshot, end *segno.Checkpoint) string {
	if text := unsavedWarning(end.Files.Protected); text != "" {
		return text
	}
	for _, path := range end.Workspace.Held {
		if before == nil || !slices.Contains(before.Held, path) {
			return fmt.Sprintf("segno: a rule that appeared during this turn protects %q; it is recorded all the same, and 'segno save' accepts the rule", path)
		}
	}
	return ""
}
