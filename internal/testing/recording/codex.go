package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Rollouts returns the files of a session of Codex. Codex continues the last one.
func Rollouts(home, session string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(home, "sessions", "*", "*", "*", "rollout-*"+session+"*.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	found = slices.DeleteFunc(found, func(p string) bool { return strings.Contains(p, "_"+session) })
	id := func(p string) string { return strings.TrimSuffix(p[strings.Index(p, session):], ".jsonl") }
	slices.SortFunc(found, func(a, b string) int { return strings.Compare(id(a), id(b)) })
	return found, nil
}

// CodexContext returns the items that Codex sends if it resumes a session: the items of its rollout and of
// the rollouts that it refers to, or the items with which the newest compaction replaced them.
func CodexContext(home, session string) ([]string, error) {
	files, err := Rollouts(home, session)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("recording: no rollout of %s", session)
	}
	items, err := inputOf(home, files[len(files)-1], -1)
	if err != nil {
		return nil, err
	}
	return Items(request("/v1/responses", "input", answerCalls(items))), nil
}

// inputOf returns the items of a rollout up to an offset, after those of the rollouts that it refers to.
func inputOf(home, file string, end int) (items []any, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	if end >= 0 {
		data = data[:end]
	}
	for line := range bytes.Lines(data) {
		var r struct {
			Type    string
			Payload Row
		}
		if json.Unmarshal(line, &r) != nil {
			continue
		}
		switch r.Type {
		case "session_meta":
			base, ok := r.Payload["history_base"].(Row)
			if !ok {
				continue
			}
			thread, _ := base["thread_id"].(string)
			to, _ := base["end_byte_offset"].(float64)
			found, err := filepath.Glob(filepath.Join(home, "sessions", "*", "*", "*", "rollout-*"+thread+".jsonl"))
			if err != nil || len(found) != 1 {
				return nil, fmt.Errorf("recording: %d rollouts are %s: %w", len(found), thread, err)
			}
			if items, err = inputOf(home, found[0], int(to)); err != nil {
				return nil, err
			}
		case "response_item":
			items = append(items, r.Payload)
		case "compacted":
			items, _ = r.Payload["replacement_history"].([]any)
		}
	}
	return items, nil
}

// answerCalls adds the output that Codex itself adds for a call without one.
func answerCalls(items []any) (out []any) {
	answered := map[any]bool{}
	for _, item := range items {
		if r, ok := item.(Row); ok && r["type"] == "function_call_output" {
			answered[r["call_id"]] = true
		}
	}
	for _, item := range items {
		out = append(out, item)
		if r, ok := item.(Row); ok && r["type"] == "function_call" && !answered[r["call_id"]] {
			out = append(out, Row{"type": "function_call_output", "call_id": r["call_id"], "output": "aborted"})
		}
	}
	return out
}
