package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// The turns of the history that is bisected, and the first bad one.
const bisectTurns, bisectCulprit = 64, 41

// bisects measures how long it takes to find the turn that made a command fail. The command reads one small file, so
// nearly all of the time is that of bisecting. git works in the tree itself; segno in a scratch copy, which it makes and
// removes within the time.
func bisects(ctx context.Context, b *bench, t *tree) error {
	r, err := newRivals(ctx, b, t)
	if err != nil {
		return err
	}
	defer r.close()
	counter := filepath.Join(t.Root, "counter")
	defer os.Remove(counter)
	first := r.git.head
	for i := range bisectTurns {
		_, err := r.ours.turn(ctx, func() error {
			return errors.Join(t.change(), os.WriteFile(counter, []byte(strconv.Itoa(i+1)), 0o600))
		})
		if err == nil {
			err = r.git.commit(ctx)
		}
		if err != nil {
			return err
		}
	}
	const branch = "refs/heads/main"
	for _, args := range [][]string{{"update-ref", branch, r.git.head}, {"symbolic-ref", "HEAD", branch}} {
		if _, err := r.git.git(ctx, args...); err != nil {
			return err
		}
	}
	store := r.ours.store.Place().Store
	c, err := b.newHomeCommand(ctx, filepath.Join(filepath.Dir(store), "home"))
	if err != nil {
		return err
	}
	c.store = store
	test := fmt.Sprintf("! test -e counter || test $(cat counter) -lt %d", bisectCulprit)
	var found struct {
		FirstBad struct{ Turn int } `json:"first_bad"`
	}
	var said string
	copied := filepath.Join(b.dir, "copied")
	times, err := contest{rounds: b.rounds, warm: true, settle: true, processes: c.processes, entrants: []entrant{
		{name: "walk", run: func(context.Context) error { _, err := r.walk.run(); return err }},
		{name: "copy", run: func(ctx context.Context) error {
			return errors.Join(exec.CommandContext(ctx, "cp", "-a", "--reflink=auto", t.Root, copied).Run(), os.RemoveAll(copied))
		}},
		{name: "git", ready: func(ctx context.Context) error {
			_, err := r.git.git(ctx, "bisect", "start", r.git.head, first)
			return err
		},
			run: func(ctx context.Context) (err error) {
				said, err = r.git.git(ctx, "bisect", "run", "sh", "-c", test)
				return err
			},
			check: func(ctx context.Context) error {
				if !strings.Contains(said, "is the first bad commit") {
					return errors.New("git found no commit")
				}
				_, err := r.git.git(ctx, "bisect", "reset")
				return err
			}},
		{name: "segno", run: func(ctx context.Context) error {
			return c.decode(ctx, &found, "-C", t.Root, "bisect", "run", "-j", "1", test)
		},
			check: func(context.Context) error {
				if found.FirstBad.Turn != bisectCulprit {
					return fmt.Errorf("segno found turn %d", found.FirstBad.Turn)
				}
				return nil
			}},
	}}.hold(ctx)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("bisect %d turns: ", bisectTurns)
	git, segno := times["git"], times["segno"]
	b.add(t.Name, what+"git bisect run, in the tree", git)
	b.addProcess(t.Name, what+"segno bisect run, with its scratch copy", segno, c.peaks["segno"], is(segno.over(git), "× git"), is(segno.over(times["copy"]), "× copy"), is(segno.over(times["walk"]), "× walk"))
	b.add(t.Name, what+"cp -a --reflink=auto and rm -r of the tree", times["copy"], is(times["copy"].over(git), "× git"))
	return nil
}
