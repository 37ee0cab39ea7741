package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// hookRounds is the number of starts of each process per round of -n. The processes are
// short, so a single start has little significance.
const hookRounds = 30

// hooks measures a hook at a tool boundary, as a process, beside a process that
// does nothing.
func hooks(ctx context.Context, b *bench) error {
	dir, err := b.scratch("small")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n"), 0o600); err != nil {
		return err
	}
	empty, err := b.buildEmpty(ctx)
	if err != nil {
		return err
	}
	byDefault, err := b.build(ctx, false)
	if err != nil {
		return err
	}
	a, err := newAgent(ctx, b, dir)
	if err != nil {
		return err
	}
	defer a.close()
	a.talk.turns++
	if err := a.event("UserPromptSubmit", map[string]any{"prompt": "do it"}); err != nil {
		return err
	}
	if err := a.hook(ctx); err != nil {
		return err
	}
	call := map[string]any{"tool_name": "Bash", "tool_use_id": "toolu_1", "tool_input": map[string]any{"command": string(prose(a.talk.rand, 1000))}}
	result := map[string]any{"tool_name": "Bash", "tool_use_id": "toolu_1", "tool_input": call["tool_input"], "duration_ms": 12,
		"tool_response": map[string]any{"stdout": string(prose(a.talk.rand, 4000)), "stderr": ""}}
	source := prose(a.talk.rand, 8000)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), source, 0o600); err != nil {
		return err
	}
	wrote := map[string]any{"tool_name": "Write", "tool_use_id": "toolu_1", "tool_response": "ok", "duration_ms": 12,
		"tool_input": map[string]any{"file_path": filepath.Join(dir, "main.go"), "content": string(source)}}
	say := func(name string, fields map[string]any) func(context.Context) error {
		return func(context.Context) error { return a.event(name, fields) }
	}
	times, err := contest{rounds: hookRounds * b.rounds, warm: true, processes: a.processes, entrants: []entrant{
		{name: "empty", ready: say("PreToolUse", call), run: func(ctx context.Context) error { return a.exec(ctx, empty) }},
		{name: "before", ready: say("PreToolUse", call), run: a.atTool},
		{name: "default", ready: say("PreToolUse", call), run: func(ctx context.Context) error { return a.exec(ctx, byDefault+"-hook", "hook", "claude") }},
		{name: "after", ready: say("PostToolUse", result), run: a.atTool},
		{name: "unsaved", ready: say("PostToolUse", wrote), run: func(ctx context.Context) error { return a.exec(ctx, a.bin+"-hook", "hook", "claude", "--no-steps") }},
		{name: "saved", ready: say("PostToolUse", wrote), run: a.atTool},
		{name: "whole", ready: say("PreToolUse", call), run: a.hook},
	}}.hold(ctx)
	if err != nil {
		return err
	}
	if err := a.noted(6 * (hookRounds*b.rounds + 2)); err != nil {
		return err
	}
	nothing := times["empty"]
	b.addProcess("", "tool boundary: an empty Go process", nothing, a.peaks["empty"])
	for _, row := range [][2]string{{"before", "tool boundary: segno-hook, PreToolUse"}, {"after", "tool boundary: segno-hook, PostToolUse with 4 KB"},
		{"default", "tool boundary: segno-hook, PreToolUse, built as by default"}} {
		took := times[row[0]]
		over := took.median() - nothing.median()
		b.addProcess("", row[1], took, a.peaks[row[0]], is(milliseconds(over), "ms over empty"), atMost(0.6, float64(over)/float64(nothing.median()), "× empty, over it"))
	}
	unsaved := times["unsaved"]
	b.addProcess("", "tool boundary: segno-hook, PostToolUse of a Write of 8 KB, --no-steps", unsaved, a.peaks["unsaved"])
	b.addProcess("", "the same, which saves the file", times["saved"], a.peaks["saved"], atMost(2, float64(times["saved"].median())/float64(unsaved.median()), "× --no-steps"))
	b.addProcess("", "the same by segno hook, the whole command", times["whole"], a.peaks["whole"])
	return nil
}

// noted returns an error unless there is exactly one open turn and it has n entries.
func (a *agent) noted(n int) error {
	turns, err := filepath.Glob(filepath.Join(a.home, "data", "segno", "turns", "*.jsonl"))
	if err != nil || len(turns) != 1 {
		return fmt.Errorf("%d open turns: %w", len(turns), err)
	}
	data, err := os.ReadFile(turns[0])
	if err != nil {
		return err
	}
	if got := countEntries(data); got != n {
		return fmt.Errorf("%d entries were noted, not %d", got, n)
	}
	return a.complaints()
}

func countEntries(spool []byte) int { return bytes.Count(spool, []byte(`{"entry":`)) }
