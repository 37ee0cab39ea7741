package main

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
)

// rivals are the tools that save one tree. Each has a first snapshot of it.
type rivals struct {
	tree *tree
	walk *walk
	ours *ours
	git  *gitCLI
}

func newRivals(ctx context.Context, b *bench, t *tree) (_ *rivals, err error) {
	r := &rivals{tree: t}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.walk, err = newWalk(t.Root); err != nil {
		return nil, err
	}
	if _, err = r.walk.run(); err != nil {
		return nil, err
	}
	dir, err := b.scratch("segno")
	if err != nil {
		return nil, err
	}
	if r.ours, err = openOurs(ctx, dir, t.Root); err != nil {
		return nil, err
	}
	if _, err = r.ours.save(ctx); err != nil {
		return nil, err
	}
	if dir, err = b.scratch("git"); err != nil {
		return nil, err
	}
	if r.git, err = newGitCLI(ctx, dir, t.Root); err != nil {
		return nil, err
	}
	return r, r.git.commit(ctx)
}

func (r *rivals) close() {
	if r.walk != nil {
		r.walk.close()
	}
	if r.ours != nil {
		r.ours.close()
	}
}

// snapshots measures a scan without changes, and a snapshot with one changed file.
func snapshots(ctx context.Context, b *bench, t *tree) error {
	r, err := newRivals(ctx, b, t)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.unchanged(ctx, b); err != nil {
		return fmt.Errorf("nothing changed: %w", err)
	}
	if err := r.oneFile(ctx, b); err != nil {
		return fmt.Errorf("one file changed: %w", err)
	}
	if err := r.library(ctx, b); err != nil {
		return fmt.Errorf("go-git: %w", err)
	}
	return nil
}

func (r *rivals) walkExpects(want int64) func(context.Context) error {
	return func(context.Context) error {
		changed, err := r.walk.run()
		if err == nil && changed != want {
			err = fmt.Errorf("%d entries changed, not %d", changed, want)
		}
		return err
	}
}

func (r *rivals) unchanged(ctx context.Context, b *bench) error {
	before, err := r.ours.scan(ctx)
	if err != nil {
		return err
	}
	saved, err := r.git.save(ctx)
	if err != nil {
		return err
	}
	times, err := contest{rounds: b.rounds, warm: true, entrants: []entrant{
		{name: "walk", run: r.walkExpects(0)},
		{name: "segno", run: func(ctx context.Context) error {
			now, err := r.ours.scan(ctx)
			if err == nil && now.Tree != before.Tree {
				err = fmt.Errorf("the tree is another")
			}
			return err
		}},
		{name: "git", run: func(ctx context.Context) error {
			now, err := r.git.save(ctx)
			if err == nil && now != saved {
				err = fmt.Errorf("the tree is another")
			}
			return err
		}},
	}}.hold(ctx)
	if err != nil {
		return err
	}
	walk, name := times["walk"], r.tree.Name
	b.add(name, "nothing changed: bare walk + compare", walk)
	b.add(name, "nothing changed: segno scan", times["segno"], atMost(1.2, times["segno"].over(walk), "× walk"))
	b.add(name, "nothing changed: git add, write-tree", times["git"], is(times["git"].over(walk), "× walk"))
	return nil
}

func (r *rivals) oneFile(ctx context.Context, b *bench) error {
	var last segno.Hash
	times, err := contest{rounds: b.rounds, warm: true, settle: true,
		round: func(context.Context, int) error { return r.tree.change() },
		entrants: []entrant{
			{name: "walk", run: r.walkExpects(1)},
			{name: "segno", run: func(ctx context.Context) error {
				c, err := r.ours.save(ctx)
				if err == nil && c.Workspace.Tree == last {
					err = fmt.Errorf("the tree is the same")
				}
				if err == nil {
					last = c.Workspace.Tree
				}
				return err
			}},
			{name: "git", run: r.git.commit},
		}}.hold(ctx)
	if err != nil {
		return err
	}
	walk, segno, git, name := times["walk"], times["segno"], times["git"], r.tree.Name
	b.add(name, "one file changed: bare walk + compare", walk)
	b.add(name, "one file changed: segno snapshot, committed and synced", segno,
		atMost(1.6, segno.over(walk), "× walk"), atMost(1, segno.over(git), "× git"))
	b.add(name, "one file changed: git add, write-tree, commit-tree", git, is(git.over(walk), "× walk"))
	return nil
}

// library measures go-git separately, because it takes seconds instead of milliseconds, and
// leaves a heap that no command would have.
func (r *rivals) library(ctx context.Context, b *bench) error {
	dir, err := b.scratch("go-git")
	if err != nil {
		return err
	}
	g, err := newGoGit(dir, r.tree.Root)
	if err != nil {
		return err
	}
	if err := g.commit(); err != nil {
		return err
	}
	times, err := contest{rounds: min(b.rounds, 3), settle: true, inOrder: true, entrants: []entrant{
		{name: "walk", run: func(context.Context) error { _, err := r.walk.run(); return err }},
		{name: "same", run: func(context.Context) error {
			changed, err := g.changed()
			if err == nil && changed {
				err = fmt.Errorf("it says something changed")
			}
			return err
		}},
		{name: "one", ready: func(context.Context) error { return r.tree.change() }, run: func(context.Context) error { return g.commit() }},
	}}.hold(ctx)
	if err != nil {
		return err
	}
	walk, name := times["walk"], r.tree.Name
	b.add(name, "go-git: bare walk + compare", walk)
	b.add(name, "go-git: nothing changed, Status", times["same"], is(times["same"].over(walk), "× walk"))
	b.add(name, "go-git: one file changed, Status, AddAll, Commit", times["one"], is(times["one"].over(walk), "× walk"))
	return nil
}

// firstSnapshots measures the first snapshot of a tree in a new, empty store.
func firstSnapshots(ctx context.Context, b *bench, t *tree) error {
	rounds := min(b.rounds, 3)
	var dir string
	var o *ours
	var g *gitCLI
	var gg *goGit
	warm := func(context.Context) error { _, _, err := readAndHash(t.Root); return err }
	fresh := func(name string, open func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			if dir, err = b.scratch(name); err != nil {
				return err
			}
			if err := open(ctx); err != nil {
				return err
			}
			return warm(ctx) // during a slow run, the system may drop the tree from its cache
		}
	}
	times, err := contest{rounds: rounds, settle: true, entrants: []entrant{
		{name: "read", ready: warm, run: func(context.Context) error {
			files, _, err := readAndHash(t.Root)
			if err == nil && int(files) != t.Files {
				err = fmt.Errorf("%d files, not %d", files, t.Files)
			}
			return err
		}},
		{name: "segno", ready: fresh("segno", func(ctx context.Context) (err error) { o, err = openOurs(ctx, dir, t.Root); return err }),
			run:   func(ctx context.Context) error { return o.saveAll(ctx, t) },
			check: func(context.Context) error { return o.close() }},
		{name: "git", ready: fresh("git", func(ctx context.Context) (err error) { g, err = newGitCLI(ctx, dir, t.Root); return err }),
			run: func(ctx context.Context) error { return g.commit(ctx) }},
		{name: "go-git", most: 1, ready: fresh("go-git", func(context.Context) (err error) { gg, err = newGoGit(dir, t.Root); return err }),
			run: func(context.Context) error { return gg.commit() }},
	}}.hold(ctx)
	if err != nil {
		return err
	}
	read, segno, git := times["read"], times["segno"], times["git"]
	b.add(t.Name, "first: walk, read and SHA-256 of everything", read)
	b.add(t.Name, "first: segno snapshot, committed and synced", segno, atMost(2.5, segno.over(read), "× read"),
		atLeast(8, git.over(segno), "× faster than git"))
	b.add(t.Name, "first: git add, write-tree, commit-tree", git, is(git.over(read), "× read"))
	b.add(t.Name, "first: go-git Status, AddAll, Commit", times["go-git"], is(times["go-git"].over(read), "× read"))
	return nil
}

func (o *ours) saveAll(ctx context.Context, t *tree) error {
	c, err := o.save(ctx)
	if err == nil && (c.Workspace.Files != t.Files || len(c.Workspace.Unread) > 0) {
		err = fmt.Errorf("%d files and %d unread, not %d", c.Workspace.Files, len(c.Workspace.Unread), t.Files)
	}
	return err
}
