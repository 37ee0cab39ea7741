package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	discovered = 10_000 // sessions
)

// homeCommand runs segno with the home directory of an agent and with a store.
type homeCommand struct {
	bin, home, store string
	*processes
}

func (b *bench) newHomeCommand(ctx context.Context, home string) (c homeCommand, err error) {
	c = homeCommand{home: home, store: filepath.Join(home, "store")}
	if c.bin, err = b.build(ctx, true); err == nil {
		c.processes, err = b.newProcesses(ctx)
	}
	return c, err
}

// decode runs the command and decodes the JSON that it prints into v.
func (c homeCommand) decode(ctx context.Context, v any, args ...string) error {
	cmd := exec.CommandContext(ctx, c.bin, append([]string{"--store", c.store, "--json"}, args...)...)
	cmd.Env = []string{"HOME=" + c.home, "PATH=" + os.Getenv("PATH"), "CLAUDE_CONFIG_DIR=" + c.home, "CODEX_HOME=" + filepath.Join(c.home, ".codex")}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := c.run(cmd); err != nil {
		return fmt.Errorf("segno %v: %w: %s", args, err, stderr.String())
	}
	return json.Unmarshal(stdout.Bytes(), v)
}

// discoveries measures how long segno takes to list 10,000 sessions, the first time and again. There is no store. For
// comparison, it measures a walk that opens each file and reads its beginning.
func discoveries(ctx context.Context, b *bench) error {
	home, err := b.scratch("discover")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	if _, err := fillHome(home, discovered, 4, 1, 500); err != nil {
		return err
	}
	c, err := b.newHomeCommand(ctx, home)
	if err != nil {
		return err
	}
	var list []json.RawMessage
	sessions := func(ctx context.Context) error { list = nil; return c.decode(ctx, &list, "sessions") }
	complete := func(context.Context) error {
		if len(list) != discovered {
			return fmt.Errorf("%d sessions", len(list))
		}
		return nil
	}
	times, err := contest{rounds: b.rounds, warm: true, processes: c.processes, entrants: []entrant{
		{name: "heads", run: func(context.Context) error {
			n, err := readHeads(home)
			if err == nil && n != discovered {
				err = fmt.Errorf("%d files", n)
			}
			return err
		}},
		{name: "first", ready: func(context.Context) error { return os.RemoveAll(c.store) }, run: sessions, check: complete},
		{name: "again", run: sessions, check: complete},
	}}.hold(ctx)
	if err != nil {
		return err
	}
	b.add("", fmt.Sprintf("discover: walk, open and read the head of %d sessions", discovered), times["heads"])
	b.addProcess("", "discover: segno sessions --json, with turns and titles, nothing remembered", times["first"], c.peaks["first"], is(times["first"].over(times["heads"]), "× walk"))
	b.addProcess("", "discover: segno sessions --json again, nothing changed", times["again"], c.peaks["again"], atMost(4, times["again"].over(times["heads"]), "× walk"))
	return nil
}

// keeps measures segno sessions keep --all and, for comparison, a plain copy of the sessions. It does so for 1 GB in large
// sessions and for many small ones.
func keeps(ctx context.Context, b *bench) error {
	if err := b.keepHome(ctx, 430, 20, 10, 5000); err != nil { // 2.5 MB each
		return err
	}
	return b.keepHome(ctx, discovered, 4, 1, 500)
}

// keepHome keeps a number of sessions. All sessions have the same number of turns, and all turns the same number of
// tool calls.
func (b *bench) keepHome(ctx context.Context, sessions, turns, calls, size int) error {
	home, err := b.scratch("keep")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	total, err := fillHome(home, sessions, turns, calls, size)
	if err != nil {
		return err
	}
	c, err := b.newHomeCommand(ctx, home)
	if err != nil {
		return err
	}
	copied := filepath.Join(home, "copy")
	var kept struct {
		Kept      []struct{ Turns int }
		Unchanged int
	}
	var list []struct{ Kept bool }
	keep := func(ctx context.Context) error {
		kept.Kept, kept.Unchanged = nil, 0
		return c.decode(ctx, &kept, "sessions", "keep", "--all")
	}
	times, err := contest{rounds: min(b.rounds, 3), settle: true, inOrder: true, processes: c.processes, entrants: []entrant{
		{name: "copy", run: func(ctx context.Context) error { return copyTree(ctx, filepath.Join(home, "projects"), copied) },
			check: func(context.Context) error { return os.RemoveAll(copied) }},
		{name: "keep", run: keep, ready: func(context.Context) error { return os.RemoveAll(c.store) }, check: func(context.Context) error {
			if len(kept.Kept) != sessions || kept.Kept[0].Turns != turns {
				return fmt.Errorf("%d sessions were kept", len(kept.Kept))
			}
			return nil
		}},
		{name: "heads", run: func(context.Context) error { _, err := readHeads(home); return err }},
		{name: "again", run: keep, check: func(context.Context) error {
			if kept.Unchanged != sessions {
				return fmt.Errorf("%d sessions had nothing new", kept.Unchanged)
			}
			return nil
		}},
		{name: "sessions", run: func(ctx context.Context) error { list = nil; return c.decode(ctx, &list, "sessions") }, check: func(context.Context) error {
			if len(list) != sessions || !list[0].Kept {
				return fmt.Errorf("%d sessions were listed", len(list))
			}
			return nil
		}},
	}}.hold(ctx)
	if err != nil {
		return err
	}
	again := times["again"]
	b.add("", fmt.Sprintf("keep: cp -r and sync of %d MB in %d sessions", total>>20, sessions), times["copy"])
	b.addProcess("", fmt.Sprintf("keep: segno sessions keep --all, %d turns", sessions*turns), times["keep"], c.peaks["keep"], atMost(2, times["keep"].over(times["copy"]), "× cp"))
	b.add("", "keep: walk, open and read the head of each", times["heads"])
	b.addProcess("", "keep: segno sessions keep --all again, nothing new", again, c.peaks["again"], atMost(8, again.over(times["heads"]), "× walk"), atMost(1, again.median().Seconds(), "s"))
	listed := is(times["sessions"].over(times["heads"]), "× walk")
	if sessions == discovered {
		listed = atMost(4, listed.Value, listed.Of)
	}
	b.addProcess("", "keep: segno sessions --json, all of them kept", times["sessions"], c.peaks["sessions"], listed)
	return nil
}
