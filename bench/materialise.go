package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/fleet/workspaces"
)

// materialises measures how a worker makes a directory with the files of a snapshot: with an empty cache, with a cache that has
// the contents, and with the directory of an earlier turn.
func materialises(ctx context.Context, b *bench, t *tree) (err error) {
	dir, err := b.scratch("materialise")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o, err := openOurs(ctx, dir, t.Root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	c, err := o.save(ctx)
	if err != nil {
		return err
	}
	m := &materialiser{tree: t, dir: dir, objects: o.Store.Objects(), snapshot: *c.Workspace}
	if err := m.prepare(ctx); err != nil {
		return err
	}
	defer m.walk.close()
	to := filepath.Join(dir, "to")
	remove := func(context.Context) error { return os.RemoveAll(to) }
	counted := func(ctx context.Context) error { return errors.Join(m.count(to), remove(ctx)) }
	times, err := contest{rounds: b.rounds, settle: true, entrants: []entrant{
		{name: "walk", run: func(context.Context) error { _, err := m.walk.run(); return err }},
		{name: "git", run: func(ctx context.Context) error { return command(ctx, "git", "clone", "--quiet", "--local", m.repo, to) }, check: counted},
		{name: "tar", ready: func(context.Context) error { return os.Mkdir(to, 0o700) },
			run: func(ctx context.Context) error { return command(ctx, "tar", "-xf", m.archive, "-C", to) }, check: counted},
		{name: "cold", ready: m.forget, run: m.checkout, check: m.release},
		{name: "known", ready: m.forgetFiles, run: m.checkout, check: m.release},
		{name: "next", run: m.checkout, check: m.release}, // reads the files again, because they are as new as the index
		{name: "warm", run: m.checkout, check: m.release},
	}, inOrder: true}.hold(ctx)
	if err != nil {
		return err
	}
	walk, tar := times["walk"], times["tar"]
	b.add(t.Name, "materialise: bare walk + compare", walk)
	b.add(t.Name, "materialise: git clone --local", times["git"], is(times["git"].over(walk), "× walk"))
	b.add(t.Name, "materialise: tar -x", tar, is(tar.over(walk), "× walk"))
	b.add(t.Name, "materialise: segno, empty cache", times["cold"], is(times["cold"].over(walk), "× walk"), is(times["cold"].over(times["git"]), "× git"), is(times["cold"].over(tar), "× tar"))
	b.add(t.Name, "materialise: segno, new directory, contents in the cache", times["known"], is(times["known"].over(walk), "× walk"), is(times["known"].over(tar), "× tar"))
	b.add(t.Name, "materialise: segno, directory of a turn that has just ended in a new directory", times["next"], is(times["next"].over(walk), "× walk"))
	b.add(t.Name, "materialise: segno, directory of an earlier turn", times["warm"], atMost(2, times["warm"].over(walk), "× walk"))
	return nil
}

func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// materialiser has a tree in all forms from which it is made again.
type materialiser struct {
	tree          *tree
	dir           string
	objects       segno.Objects
	snapshot      segno.Snapshot
	repo, archive string
	walk          *walk
	cache         *workspaces.Cache
	made          *workspaces.Checkout
}

func (m *materialiser) prepare(ctx context.Context) (err error) {
	m.repo, m.archive = filepath.Join(m.dir, "repo"), filepath.Join(m.dir, "tree.tar")
	g, err := newGitCLI(ctx, m.dir, m.tree.Root)
	if err != nil {
		return err
	}
	if err := g.commit(ctx); err != nil {
		return err
	}
	for _, args := range [][]string{{"update-ref", "refs/heads/main", g.head}, {"symbolic-ref", "HEAD", "refs/heads/main"}, {"repack", "-adq"}} {
		if _, err := g.git(ctx, args...); err != nil {
			return err
		}
	}
	if err := command(ctx, "tar", "-cf", m.archive, "-C", m.tree.Root, "."); err != nil {
		return err
	}
	if m.walk, err = newWalk(m.tree.Root); err != nil {
		return err
	}
	_, err = m.walk.run()
	return err
}

func (m *materialiser) count(dir string) error {
	made := tree{Root: dir}
	if err := made.count(); err != nil {
		return err
	}
	if made.Files < m.tree.Files { // git adds its own
		return fmt.Errorf("%d files were made, not %d", made.Files, m.tree.Files)
	}
	return nil
}

func (m *materialiser) cacheDir() string { return filepath.Join(m.dir, "cache") }

// forget empties the cache.
func (m *materialiser) forget(context.Context) (err error) {
	if err := os.RemoveAll(m.cacheDir()); err != nil {
		return err
	}
	m.cache, err = workspaces.Open(m.cacheDir(), workspaces.Options{Objects: m.objects})
	return err
}

// forgetFiles removes the directories and keeps the contents.
func (m *materialiser) forgetFiles(context.Context) error {
	dirs, err := filepath.Glob(filepath.Join(m.cacheDir(), "dirs", "*"))
	for _, dir := range dirs {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

func (m *materialiser) checkout(ctx context.Context) (err error) {
	m.made, err = m.cache.Checkout(ctx, m.snapshot)
	return err
}

func (m *materialiser) release(ctx context.Context) error {
	return errors.Join(m.count(m.made.Files()), m.made.Release(ctx, m.snapshot.Tree))
}
