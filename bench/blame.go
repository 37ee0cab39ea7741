package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	blameLines = 2000
	blameTurns = 500
	blamePath  = "src/pkg/file.go"
)

// blames measures the blame of a file that each turn changed, as a process, beside git's of the same states as commits.
func blames(ctx context.Context, b *bench) (err error) {
	dir, err := b.scratch("blame")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tree := filepath.Join(dir, "tree")
	if err := os.MkdirAll(filepath.Join(tree, filepath.Dir(blamePath)), 0o700); err != nil {
		return err
	}
	g, err := newGitCLI(ctx, dir, tree)
	if err != nil {
		return err
	}
	o, err := openOurs(ctx, dir, tree)
	if err != nil {
		return err
	}
	if err := errors.Join(blameHistory(ctx, o, g, tree), o.close()); err != nil {
		return err
	}
	bin, err := b.build(ctx, true)
	if err != nil {
		return err
	}
	empty, err := b.buildEmpty(ctx)
	if err != nil {
		return err
	}
	var out []byte
	run := func(bin string, env []string, args ...string) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			cmd := exec.CommandContext(ctx, bin, args...)
			cmd.Dir, cmd.Env = tree, env
			out, err = cmd.Output()
			return err
		}
	}
	check := func(context.Context) error {
		if n := strings.Count(string(out), "\n"); n != blameLines {
			return fmt.Errorf("the blame has %d lines, not %d", n, blameLines)
		}
		return nil
	}
	store := filepath.Join(dir, "store")
	segno := run(bin, []string{"HOME=" + dir}, "--store", store, "blame", blamePath)
	times, err := contest{rounds: 4 * b.rounds, warm: true, entrants: []entrant{
		{name: "empty", run: run(empty, nil)},
		{name: "git", run: run("git", g.env, "blame", g.head, "--", blamePath), check: check},
		{name: "warm", run: segno, check: check},
		{name: "cold", most: b.rounds, ready: func(context.Context) error { return os.RemoveAll(filepath.Join(store, "search")) }, run: segno, check: check},
	}}.hold(ctx)
	if err != nil {
		return err
	}
	b.add("", "blame: an empty Go process", times["empty"])
	b.add("", fmt.Sprintf("blame: git blame of %d lines, %d commits", blameLines, blameTurns), times["git"])
	warm := milliseconds(times["warm"].median())
	b.add("", fmt.Sprintf("blame: segno blame of %d lines, %d turns", blameLines, blameTurns), times["warm"],
		is(times["warm"].over(times["git"]), "× git"), atMost(50, warm-milliseconds(times["empty"].median()), "ms over empty"))
	b.add("", "blame: the same without its cache", times["cold"], is(times["cold"].over(times["git"]), "× git"))
	return nil
}

// blameHistory makes turns that each change five lines, and commits the same states to git.
func blameHistory(ctx context.Context, o *ours, g *gitCLI, tree string) error {
	random := rand.New(rand.NewPCG(1, 2))
	var content []string
	for i := range blameLines {
		content = append(content, fmt.Sprintf("original line %d", i))
	}
	write := func() error {
		return os.WriteFile(filepath.Join(tree, blamePath), []byte(strings.Join(content, "\n")+"\n"), 0o600)
	}
	if err := write(); err != nil {
		return err
	}
	if err := g.commit(ctx); err != nil {
		return err
	}
	for n := range blameTurns {
		at := random.IntN(blameLines - 4)
		for i := range 4 {
			content[at+i] = fmt.Sprintf("line %d of turn %d", i, n)
		}
		content = slices.Insert(slices.Delete(content, at, at+1), random.IntN(blameLines-1), fmt.Sprintf("inserted by turn %d", n))
		if _, err := o.turn(ctx, write); err != nil {
			return err
		}
		if err := g.commit(ctx); err != nil {
			return err
		}
	}
	return nil
}
