package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno"
)

// longRollout writes a session of Codex of about size bytes, with turns of one tool call each.
func longRollout(home string, size int) (segno.Source, error) {
	const id = "01a1f8db-6b75-7810-a353-000000000001"
	src := segno.Source{Session: id, Dir: "/srv/project", Path: filepath.Join(home, "sessions", "2026", "03", "01", "rollout-2026-03-01T12-00-00-"+id+".jsonl")}
	r := rollout{rand: rand.New(rand.NewPCG(50, 2)), time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	r.add("session_meta", map[string]any{"id": id, "session_id": id, "timestamp": r.time.Format(time.RFC3339Nano), "cwd": src.Dir, "cli_version": "0.169.0",
		"history_mode": "paginated", "base_instructions": map[string]any{"text": string(prose(r.rand, 20_000))}})
	for turn := 0; r.lines.Len() < size; turn++ {
		r.turn(turn)
	}
	if err := os.MkdirAll(filepath.Dir(src.Path), 0o700); err != nil {
		return src, err
	}
	return src, os.WriteFile(src.Path, r.lines.Bytes(), 0o600)
}

// rollout is the lines of a session of Codex.
type rollout struct {
	rand    *rand.Rand
	time    time.Time
	ordinal int
	lines   bytes.Buffer
}

func (r *rollout) add(kind string, payload map[string]any) {
	r.time = r.time.Add(time.Second)
	enc := json.NewEncoder(&r.lines)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]any{"timestamp": r.time.Format(time.RFC3339Nano), "ordinal": r.ordinal, "type": kind, "payload": payload}); err != nil {
		panic(err) // maps of strings always encode
	}
	r.ordinal++
}

func (r *rollout) message(role, kind, text string) {
	r.add("response_item", map[string]any{"type": "message", "role": role, "content": []any{map[string]any{"type": kind, "text": text}}})
}

func (r *rollout) turn(n int) {
	id := fmt.Sprintf("01a1f8db-0000-7000-8000-%012d", n)
	event := func(kind string, more map[string]any) {
		payload := map[string]any{"type": kind, "turn_id": id}
		for k, v := range more {
			payload[k] = v
		}
		r.add("event_msg", payload)
	}
	event("task_started", nil)
	r.add("turn_context", map[string]any{"turn_id": id, "cwd": "/srv/project"})
	prompt := string(prose(r.rand, 400))
	r.message("user", "input_text", prompt)
	event("item_completed", map[string]any{"item": map[string]any{"type": "UserMessage", "content": []any{map[string]any{"type": "text", "text": prompt}}}})
	call := "call_" + id
	r.add("response_item", map[string]any{"type": "function_call", "name": "exec_command", "call_id": call, "arguments": `{"cmd":"go test ./..."}`})
	out := string(prose(r.rand, 8000))
	event("item_completed", map[string]any{"item": map[string]any{"type": "CommandExecution", "id": call, "aggregated_output": out}})
	r.add("response_item", map[string]any{"type": "function_call_output", "call_id": call, "output": out})
	answer := string(prose(r.rand, 1500))
	event("item_completed", map[string]any{"item": map[string]any{"type": "AgentMessage", "content": []any{map[string]any{"type": "Text", "text": answer}}}})
	r.message("assistant", "output_text", answer)
	event("token_count", nil)
	event("task_complete", nil)
}
