package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
)

// readParent finds the record the next one hangs from: the last one, or the one
// that the n-th prompt hangs from.
func (r *transcriptWriter) readParent(n int) error {
	if n == 0 {
		return r.readLastRecord()
	}
	all, err := readRecords(r.file)
	prompts := 0
	for _, rec := range all {
		if rec.Type == "user" && bytes.HasPrefix(rec.Message.Content, []byte(`"`)) {
			if prompts++; prompts == n {
				r.parent = rec.ParentUUID
				return nil
			}
		}
	}
	return cmp.Or(err, fmt.Errorf("rewind: the session has %d prompts", prompts))
}

// copyFrom makes the transcript what --fork-session makes: the other one's
// records, with the new id.
func (r *transcriptWriter) copyFrom(session string) error {
	source := filepath.Join(filepath.Dir(r.file), session+".jsonl")
	data, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.file, bytes.ReplaceAll(data, []byte(session), []byte(r.session)), 0o600); err != nil {
		return err
	}
	return r.readParent(0)
}

func (r *transcriptWriter) apiError(why string) {
	r.append("assistant", map[string]any{"role": "assistant", "model": "<synthetic>",
		"content": []any{map[string]string{"type": "text", "text": "API Error"}}},
		map[string]any{"isApiErrorMessage": true, "error": why})
}

// boundary writes what /compact leaves: nothing before it hangs together with
// anything after.
func (r *transcriptWriter) boundary() {
	before := r.parent
	r.parent = ""
	r.append("system", nil, map[string]any{"subtype": "compact_boundary", "logicalParentUuid": before,
		"compactMetadata": map[string]any{"trigger": "manual", "preTokens": 100}})
	r.append("user", map[string]any{"role": "user", "content": "This session continues: so far"},
		map[string]any{"isCompactSummary": true})
}

func (r *transcriptWriter) toolUse(id string, name, input any) {
	r.append("assistant", map[string]any{"role": "assistant", "id": "msg_" + segno.NewID(), "stop_reason": "tool_use",
		"content": []any{map[string]any{"type": "tool_use", "id": id, "name": name, "input": input}}}, nil)
}

func (r *transcriptWriter) toolResult(id, out string, failed bool) {
	r.append("user", map[string]any{"role": "user", "content": []any{
		map[string]any{"type": "tool_result", "tool_use_id": id, "content": out, "is_error": failed}}}, nil)
}
