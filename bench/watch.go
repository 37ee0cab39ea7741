package main

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
)

// watched measures the scans of a turn in a process that watches the tree: nothing changed, and one file did. The same Dir
// also scans everything, as at a move.
func watched(ctx context.Context, b *bench, t *tree) error {
	w, err := newWalk(t.Root)
	if err != nil {
		return err
	}
	defer w.close()
	if _, err = w.run(); err != nil {
		return err
	}
	dir, err := b.scratch("watch")
	if err != nil {
		return err
	}
	o, err := openOurs(ctx, dir, t.Root, watching)
	if err != nil {
		return err
	}
	defer o.close()
	if _, err := o.save(ctx); err != nil {
		return err
	}
	r := &rivals{tree: t, walk: w, ours: o}
	var before segno.Hash
	scan := func(ctx context.Context) error {
		now, err := o.scanWatched(ctx)
		before = now.Tree
		return err
	}
	same := func(ctx context.Context) error {
		last := before
		err := scan(ctx)
		if err == nil && last != before {
			err = fmt.Errorf("the tree is another")
		}
		return err
	}
	if err := scan(ctx); err != nil {
		return err
	}
	whole := entrant{name: "whole", run: func(ctx context.Context) error { _, err := o.scan(ctx); return err }}
	still, err := contest{rounds: 10 * b.rounds, warm: true, entrants: []entrant{{name: "walk", run: r.walkExpects(0)}, {name: "segno", run: same}, whole}}.hold(ctx)
	if err != nil {
		return fmt.Errorf("nothing changed: %w", err)
	}
	// A scan relies only on objects that the store has, so a turn commits the present tree before each change.
	change := func(ctx context.Context) error {
		if _, err := o.turn(ctx, func() error { return nil }); err != nil {
			return err
		}
		if err := scan(ctx); err != nil {
			return err
		}
		return t.change()
	}
	one, err := contest{rounds: 10 * b.rounds, warm: true, round: func(context.Context, int) error { return t.change() },
		entrants: []entrant{{name: "walk", run: r.walkExpects(1)}, {name: "segno", ready: change, run: func(ctx context.Context) error {
			last := before
			err := scan(ctx)
			if err == nil && last == before {
				err = fmt.Errorf("the tree is the same")
			}
			return err
		}}}}.hold(ctx)
	if err != nil {
		return fmt.Errorf("one file changed: %w", err)
	}
	b.add(t.Name, "watched, nothing changed: bare walk + compare", still["walk"])
	b.add(t.Name, "watched, nothing changed: segno scan", still["segno"], is(still["segno"].over(still["walk"]), "× walk"), atMost(5, milliseconds(still["segno"].median()), "ms"))
	b.add(t.Name, "watched, nothing changed: scan of everything", still["whole"], is(still["whole"].over(still["walk"]), "× walk"))
	b.add(t.Name, "watched, one file changed: segno scan", one["segno"], is(one["segno"].over(one["walk"]), "× walk"), atMost(5, milliseconds(one["segno"].median()), "ms"))
	return nil
}
