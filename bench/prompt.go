package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// promptCount is how many turns the thread gets, whatever -n says: the last must
// cost what the first did.
const promptCount = 200

// prompts measures what a turn costs whose agent answers at once: the journal, two
// snapshots and a commit, all synced. One file changes before each prompt.
func prompts(ctx context.Context, b *bench, t *tree) error {
	walk, err := newWalk(t.Root)
	if err != nil {
		return err
	}
	defer walk.close()
	w, err := b.dial(ctx, t.Root)
	if err != nil {
		return err
	}
	ask := func(over *wire) func(context.Context) error {
		return func(context.Context) error { return over.ask("session/prompt", prompt("do it")) }
	}
	start := time.Now()
	if err := ask(w.segno)(ctx); err != nil {
		return err
	}
	baseline := sample{time.Since(start)}
	before, err := diskBytes(w.data)
	if err != nil {
		return err
	}
	times, err := contest{rounds: promptCount, inOrder: true, entrants: []entrant{
		{name: "walk", run: func(context.Context) error { _, err := walk.run(); return err }},
		{name: "relay", run: ask(w.relay)},
		{name: "segno", ready: func(context.Context) error { defer unix.Sync(); return t.change() }, run: ask(w.segno)},
	}}.hold(ctx)
	if err != nil {
		return err
	}
	after, err := diskBytes(w.data)
	if err != nil {
		return err
	}
	if err := w.recorded(ctx, t.Root, promptCount+1); err != nil {
		return err
	}
	bare, relay, ours := times["walk"], times["relay"], times["segno"]
	first, last := ours[:10], ours[promptCount-10:]
	b.add(t.Name, "prompt: bare walk + compare", bare)
	b.add(t.Name, "prompt: an agent that answers at once, relayed", relay)
	b.add(t.Name, "prompt: the same through segno, one file changed", ours, is(ours.over(bare), "× walk"),
		is(milliseconds(ours.median()-relay.median()), "ms over the relay"),
		atMost(1.3, last.over(first)/bare[promptCount-10:].over(bare[:10]), "× last 10 to first 10"),
		is(float64(after-before)/promptCount/1000, "kB in the store a turn"))
	b.add(t.Name, "prompt: the thread's first, with the first snapshot", baseline)
	return w.close()
}

// recorded fails unless segno's log of a directory has n turns.
func (w *wires) recorded(ctx context.Context, dir string, n int) error {
	cmd := exec.CommandContext(ctx, w.segno.cmd.Path, "log", "--json", "--limit", "10000")
	cmd.Dir, cmd.Env = dir, w.segno.cmd.Env
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("segno log: %w", err)
	}
	if got := bytes.Count(out, []byte(`"kind": "turn"`)); got != n {
		return fmt.Errorf("%d turns are recorded, not %d: %s", got, n, &w.segno.log)
	}
	return nil
}
