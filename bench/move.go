package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// moves measures a move to a state that differs in one file: restore, undo and redo, each
// of which saves the current state first.
func moves(ctx context.Context, b *bench, t *tree) error {
	r, err := newRivals(ctx, b, t)
	if err != nil {
		return err
	}
	defer r.close()
	m := &journey{tree: t}
	if err := m.prepare(ctx, r); err != nil {
		return err
	}
	ask := func(a timeline.MoveRequest) func(context.Context) error {
		return func(ctx context.Context) error { return r.ours.move(ctx, a) }
	}
	to := func(c *segno.Checkpoint) func(context.Context) error {
		return ask(timeline.MoveRequest{Verb: segno.VerbRestore, To: c.ID, Scope: timeline.ScopeBoth})
	}
	settled := func(ctx context.Context) error { _, err := r.git.save(ctx); return err }
	back, forth := m.expect(&m.before), m.expect(&m.after)
	times, err := contest{rounds: b.rounds, warm: true, settle: true, inOrder: true, entrants: []entrant{
		{name: "walk", run: func(context.Context) error { _, err := r.walk.run(); return err }},
		{name: "git", ready: settled, run: func(ctx context.Context) error { return r.git.restore(ctx, m.gitBefore) }, check: back},
		{name: "git forth", run: func(ctx context.Context) error { return r.git.restore(ctx, m.gitAfter) }, check: forth},
		{name: "restore", ready: func(ctx context.Context) error { _, err := r.ours.scan(ctx); return err }, run: to(m.base), check: back},
		{name: "restore forth", run: to(m.turn), check: forth},
		{name: "undo", run: ask(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}), check: back},
		{name: "redo", run: ask(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1}), check: forth},
	}}.hold(ctx)
	if err != nil {
		return err
	}
	both := func(a, b string) sample { return append(times[a], times[b]...) }
	walk, git := times["walk"], both("git", "git forth")
	restore, undo := both("restore", "restore forth"), both("undo", "redo")
	b.add(t.Name, "one file away: bare walk + compare", walk)
	b.add(t.Name, "one file away: segno restore", restore, atMost(2, restore.over(walk), "× walk"), is(restore.over(git), "× git"))
	b.add(t.Name, "one file away: segno undo, redo", undo, atMost(2, undo.over(walk), "× walk"), is(undo.over(git), "× git"))
	b.add(t.Name, "one file away: git read-tree -u", git, is(git.over(walk), "× walk"))
	return nil
}

// journey has the two states between which the moves go.
type journey struct {
	tree                *tree
	base, turn          *segno.Checkpoint
	gitBefore, gitAfter string
	before, after       []byte // of the file that differs
}

func (m *journey) prepare(ctx context.Context, r *rivals) (err error) {
	if m.gitBefore, err = r.git.save(ctx); err != nil {
		return err
	}
	if m.before, err = os.ReadFile(m.tree.victim()); err != nil {
		return err
	}
	if m.turn, err = r.ours.turn(ctx, m.tree.change); err != nil {
		return err
	}
	line, err := r.ours.Store.Load(ctx, m.turn.Parent, segno.Window{Last: 1})
	if err != nil {
		return err
	}
	m.base = line.Commits[0].Checkpoint
	if m.gitAfter, err = r.git.save(ctx); err != nil {
		return err
	}
	m.after, err = os.ReadFile(m.tree.victim())
	return err
}

func (m *journey) expect(want *[]byte) func(context.Context) error {
	return func(context.Context) error {
		got, err := os.ReadFile(m.tree.victim())
		if err == nil && !bytes.Equal(got, *want) {
			err = fmt.Errorf("the file is not what it was there")
		}
		return err
	}
}
