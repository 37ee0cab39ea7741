package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// promptCount is the number of turns of each kind in the thread, regardless of -n: the last
// must not cost more than the first.
const promptCount = 100

// prompts measures the cost of a turn whose agent answers at once: the journal, two
// snapshots and a commit, all synced. It measures the size of the store after segno has
// ended.
func prompts(ctx context.Context, b *bench, t *tree) error {
	home, err := b.scratch("acp")
	if err != nil {
		return err
	}
	w, err := b.dial(ctx, t.Root, home)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := w.segno.do(ctx); err != nil {
		return err
	}
	first := sample{time.Since(start)}
	if err := w.close(); err != nil {
		return err
	}
	if err := b.promptsOf(ctx, t, home, "nothing changed", func() error { return nil }); err != nil {
		return err
	}
	if err := b.promptsOf(ctx, t, home, "one file changed", t.change); err != nil {
		return err
	}
	b.add(t.Name, "prompt: the thread's first, with the first snapshot", first)
	return w.recorded(ctx, t.Root, 2*(promptCount+1)+1)
}

// promptsOf measures turns that continue the thread of the store below home, each after a
// call of change.
func (b *bench) promptsOf(ctx context.Context, t *tree, home, what string, change func() error) error {
	before, err := diskBytes(home)
	if err != nil {
		return err
	}
	walk, err := newWalk(t.Root)
	if err != nil {
		return err
	}
	defer walk.close()
	w, err := b.dial(ctx, t.Root, home)
	if err != nil {
		return err
	}
	var words sample // the time until the first word arrived through segno
	times, err := contest{rounds: promptCount, warm: true, entrants: []entrant{
		{name: "walk", run: func(context.Context) error { _, err := walk.run(); return err }},
		{name: "relay", run: func(context.Context) error { _, err := w.relay.speak(); return err }},
		{name: "segno", ready: func(context.Context) error { defer unix.Sync(); return change() }, run: func(context.Context) error {
			word, err := w.segno.speak()
			words = append(words, word)
			return err
		}},
	}}.hold(ctx)
	if err != nil {
		return err
	}
	if err := w.close(); err != nil {
		return err
	}
	after, err := diskBytes(home)
	if err != nil {
		return err
	}
	const few = promptCount / 4
	bare, relay, ours := times["walk"], times["relay"], times["segno"]
	words = words[1:] // the first round does not count
	b.add(t.Name, "prompt, "+what+": bare walk + compare", bare)
	b.add(t.Name, "prompt, "+what+": an agent that answers at once, relayed", relay)
	b.add(t.Name, "prompt, "+what+": through segno, until the first word", words, atMost(2, words.over(bare), "× walk"))
	b.add(t.Name, "prompt, "+what+": the same through segno", ours, atMost(3, ours.over(bare), "× walk"),
		is(milliseconds(ours.median()-relay.median()), "ms over the relay"),
		atMost(1.3, ours[promptCount-few:].over(ours[:few])/bare[promptCount-few:].over(bare[:few]), "× last 25 to first 25"),
		is(float64(after-before)/promptCount/1000, "kB a turn in the store"))
	return nil
}

// do runs a turn in which the agent does nothing.
func (w *wire) do(context.Context) error { return w.ask("session/prompt", prompt("do it")) }

// speak runs a turn in which the agent sends one message. It returns the time until the
// message arrived.
func (w *wire) speak() (word time.Duration, err error) {
	start := time.Now()
	if err := w.request("session/prompt", prompt("say 1")); err != nil {
		return 0, err
	}
	_, err = w.updates(func(int) error { word = time.Since(start); return nil })
	return word, err
}

// recorded returns an error unless segno's log of a directory has n turns.
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
