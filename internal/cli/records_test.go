package cli_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/claude"
)

// transcriptWriter writes a transcript in the format of Claude Code: it appends records, and each
// record names the previous one as its parent. The scripted agents of tests use it.
type transcriptWriter struct {
	session, promptID string
	cwd               string
	file              string
	parent            string
	lines             bytes.Buffer
}

// open sets the file: Claude Code derives its path from the directory of the session.
func (r *transcriptWriter) open(config, dir, session string) {
	r.file = filepath.Join(config, "projects", claude.Slug(dir), session+".jsonl")
}

// record is the part of a transcript record that segno reads.
type record struct {
	Type, UUID, ParentUUID string
	Message                struct{ Content json.RawMessage }
}

// readRecords reads the records of a transcript. It returns none if the file does not exist.
func readRecords(file string) (all []record, err error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(data)) {
		var rec record
		if json.Unmarshal([]byte(line), &rec) == nil && rec.UUID != "" {
			all = append(all, rec)
		}
	}
	return all, err
}

func (r *transcriptWriter) user(text string) {
	r.append("user", map[string]any{"role": "user", "content": text}, nil)
}

func (r *transcriptWriter) assistant(text string) {
	r.append("assistant", map[string]any{"role": "assistant", "id": "msg_" + segno.NewID(),
		"content": []any{map[string]string{"type": "text", "text": text}}, "stop_reason": "end_turn"}, nil)
}

// append buffers a record with the fields that Claude Code writes. more has further fields.
func (r *transcriptWriter) append(kind string, message, more map[string]any) {
	uuid := fmt.Sprintf("%s-0000-4000-8000-%s", segno.NewID()[:8], segno.NewID()[:12])
	rec := map[string]any{"type": kind, "uuid": uuid, "parentUuid": nil, "isSidechain": false, "sessionId": r.session,
		"cwd": r.cwd, "version": "2.1.197", "timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000Z")}
	if message != nil {
		rec["message"] = message
	}
	if r.parent != "" {
		rec["parentUuid"] = r.parent
	}
	if kind == "user" {
		rec["promptId"] = r.promptID
	}
	for k, v := range more {
		rec[k] = v
	}
	r.parent = uuid
	data, err := json.Marshal(rec)
	if err != nil {
		panic(err)
	}
	r.lines.Write(append(data, '\n'))
}

// flush appends the buffered records to the file.
func (r *transcriptWriter) flush() error {
	if err := os.MkdirAll(filepath.Dir(r.file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(r.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := r.lines.WriteTo(f); err != nil {
		return err
	}
	return f.Close()
}

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
