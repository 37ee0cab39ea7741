package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
)

// readParent finds the parent of the next record: the last record, or the parent of the n-th
// prompt.
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

// copyFrom copies the records of another session with the new id, as --fork-session does.
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

// boundary writes the records of /compact. The records after it have no parent before it.
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

// readLastRecord makes the last record of the file the parent of the next one.
func (r *transcriptWriter) readLastRecord() error {
	all, err := readRecords(r.file)
	if len(all) > 0 {
		r.parent = all[len(all)-1].UUID
	}
	return err
}
