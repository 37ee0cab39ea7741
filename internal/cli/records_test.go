package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// records writes a transcript the way Claude Code does: records are appended, each
// hanging from the one before it.
type records struct {
	session, promptID string
	cwd               string
	file              string
	parent            string
	lines             bytes.Buffer
}

func (r *records) open(config, dir, session string) {
	slug := regexp.MustCompile("[^A-Za-z0-9]").ReplaceAllString(dir, "-")
	r.file = filepath.Join(config, "projects", slug, session+".jsonl")
}

// readParent finds the record the next one hangs from: the last one, or the one
// that the n-th prompt hangs from.
func (r *records) readParent(n int) error {
	data, err := os.ReadFile(r.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	prompts := 0
	for _, line := range strings.Split(string(data), "\n") {
		var rec struct {
			UUID, ParentUUID string
			Message          struct{ Content json.RawMessage }
			Type             string
		}
		if json.Unmarshal([]byte(line), &rec) != nil || rec.UUID == "" {
			continue
		}
		if rec.Type == "user" && bytes.HasPrefix(rec.Message.Content, []byte(`"`)) {
			if prompts++; prompts == n {
				r.parent = rec.ParentUUID
				return nil
			}
		}
		r.parent = rec.UUID
	}
	if n > 0 {
		return fmt.Errorf("rewind: the session has %d prompts", prompts)
	}
	return err
}

// copyFrom makes the transcript what --fork-session makes: the other one's
// records, with the new id.
func (r *records) copyFrom(session string) error {
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

func (r *records) user(text string) {
	r.say("user", map[string]any{"role": "user", "content": text}, nil)
}

func (r *records) assistant(text string) {
	r.say("assistant", map[string]any{"role": "assistant", "id": "msg_" + segno.NewID(),
		"content": []any{map[string]string{"type": "text", "text": text}}, "stop_reason": "end_turn"}, nil)
}

func (r *records) toolUse(id string, name, input any) {
	r.say("assistant", map[string]any{"role": "assistant", "id": "msg_" + segno.NewID(), "stop_reason": "tool_use",
		"content": []any{map[string]any{"type": "tool_use", "id": id, "name": name, "input": input}}}, nil)
}

func (r *records) toolResult(id, out string, failed bool) {
	r.say("user", map[string]any{"role": "user", "content": []any{
		map[string]any{"type": "tool_result", "tool_use_id": id, "content": out, "is_error": failed}}}, nil)
}

func (r *records) apiError(why string) {
	r.say("assistant", map[string]any{"role": "assistant", "model": "<synthetic>",
		"content": []any{map[string]string{"type": "text", "text": "API Error"}}},
		map[string]any{"isApiErrorMessage": true, "error": why})
}

// boundary writes what /compact leaves: nothing before it hangs together with
// anything after.
func (r *records) boundary() {
	before := r.parent
	r.parent = ""
	r.say("system", nil, map[string]any{"subtype": "compact_boundary", "logicalParentUuid": before,
		"compactMetadata": map[string]any{"trigger": "manual", "preTokens": 100}})
	r.say("user", map[string]any{"role": "user", "content": "This session continues: so far"},
		map[string]any{"isCompactSummary": true})
}

// say adds a record.
func (r *records) say(kind string, message, more map[string]any) {
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

func (r *records) flush() error {
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
