package main

import "context"

// turns measures the time that an agent waits at the beginning and at the end of a turn
// that changes one file: whole processes, from their start to their exit.
func turns(ctx context.Context, b *bench, t *tree) error {
	w, err := newWalk(t.Root)
	if err != nil {
		return err
	}
	defer w.close()
	a, err := newAgent(ctx, b, t.Root)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.exec(ctx, a.bin, "save", "-m", "baseline"); err != nil {
		return err
	}
	answer := ""
	times, err := contest{rounds: b.rounds, warm: true, settle: true, inOrder: true, processes: a.processes, entrants: []entrant{
		{name: "walk", run: func(context.Context) error { _, err := w.run(); return err }},
		{name: "prompt", run: a.hook, ready: func(context.Context) error {
			answer = a.talk.say(20_000)
			return a.event("UserPromptSubmit", map[string]any{"prompt": "change one file"})
		}},
		{name: "stop", run: a.hook, ready: func(context.Context) error {
			if err := t.change(); err != nil {
				return err
			}
			if err := a.talk.flush(); err != nil {
				return err
			}
			return a.event("Stop", map[string]any{"last_assistant_message": answer})
		}},
	}}.hold(ctx)
	if err != nil {
		return err
	}
	if err := a.complaints(); err != nil {
		return err
	}
	walk := times["walk"]
	both := (times["prompt"].median() + times["stop"].median()).Seconds() / walk.median().Seconds()
	b.add(t.Name, "a turn: bare walk + compare", walk)
	b.addProcess(t.Name, "a turn: segno hook at the prompt, nothing changed", times["prompt"], a.peaks["prompt"], is(times["prompt"].over(walk), "× walk"))
	b.addProcess(t.Name, "a turn: segno hook at the stop, one file changed", times["stop"], a.peaks["stop"], is(times["stop"].over(walk), "× walk"),
		atMost(3.5, both, "× walk, both hooks together"))
	return nil
}
