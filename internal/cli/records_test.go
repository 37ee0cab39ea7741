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

// transcript writes records the way Claude Code does: appended, each hanging
// from the one before it.
type transcript struct {
	session, promptID string
	cwd               string
	file              string
	parent            string
	lines             bytes.Buffer
}

func (t *transcript) open(config, dir, session string) {
	slug := regexp.MustCompile("[^A-Za-z0-9]").ReplaceAllString(dir, "-")
	t.file = filepath.Join(config, "projects", slug, session+".jsonl")
}

// readParent finds the record the next one hangs from: the last one, or the one
// that the n-th prompt hangs from.
func (t *transcript) readParent(n int) error {
	data, err := os.ReadFile(t.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	prompts := 0
	for _, line := range strings.Split(string(data), "\n") {
		var r struct {
			UUID, ParentUUID string
			Message          struct{ Content json.RawMessage }
			Type             string
		}
		if json.Unmarshal([]byte(line), &r) != nil || r.UUID == "" {
			continue
		}
		if r.Type == "user" && bytes.HasPrefix(r.Message.Content, []byte(`"`)) {
			if prompts++; prompts == n {
				t.parent = r.ParentUUID
				return nil
			}
		}
		t.parent = r.UUID
	}
	if n > 0 {
		return fmt.Errorf("rewind: the session has %d prompts", prompts)
	}
	return err
}

// copyFrom makes the transcript what --fork-session makes: the other one's
// records, with the new id.
func (t *transcript) copyFrom(session string) error {
	source := filepath.Join(filepath.Dir(t.file), session+".jsonl")
	data, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	if err := os.WriteFile(t.file, bytes.ReplaceAll(data, []byte(session), []byte(t.session)), 0o600); err != nil {
		return err
	}
	return t.readParent(0)
}

func (t *transcript) user(text string) {
	t.say("user", map[string]any{"role": "user", "content": text}, nil)
}

func (t *transcript) assistant(text string) {
	t.say("assistant", map[string]any{"role": "assistant", "id": "msg_" + segno.NewID(),
		"content": []any{map[string]string{"type": "text", "text": text}}, "stop_reason": "end_turn"}, nil)
}

func (t *transcript) toolUse(id string, name, input any) {
	t.say("assistant", map[string]any{"role": "assistant", "id": "msg_" + segno.NewID(), "stop_reason": "tool_use",
		"content": []any{map[string]any{"type": "tool_use", "id": id, "name": name, "input": input}}}, nil)
}

func (t *transcript) toolResult(id, out string, failed bool) {
	t.say("user", map[string]any{"role": "user", "content": []any{
		map[string]any{"type": "tool_result", "tool_use_id": id, "content": out, "is_error": failed}}}, nil)
}

func (t *transcript) apiError(why string) {
	t.say("assistant", map[string]any{"role": "assistant", "model": "<synthetic>",
		"content": []any{map[string]string{"type": "text", "text": "API Error"}}},
		map[string]any{"isApiErrorMessage": true, "error": why})
}

// boundary writes what /compact leaves: nothing before it hangs together with
// anything after.
func (t *transcript) boundary() {
	before := t.parent
	t.parent = ""
	t.say("system", nil, map[string]any{"subtype": "compact_boundary", "logicalParentUuid": before,
		"compactMetadata": map[string]any{"trigger": "manual", "preTokens": 100}})
	t.say("user", map[string]any{"role": "user", "content": "This session continues: so far"},
		map[string]any{"isCompactSummary": true})
}

// say adds a record.
func (t *transcript) say(kind string, message, more map[string]any) {
	uuid := fmt.Sprintf("%s-0000-4000-8000-%s", segno.NewID()[:8], segno.NewID()[:12])
	r := map[string]any{"type": kind, "uuid": uuid, "parentUuid": nil, "isSidechain": false, "sessionId": t.session,
		"cwd": t.cwd, "version": "2.1.197", "timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000Z")}
	if message != nil {
		r["message"] = message
	}
	if t.parent != "" {
		r["parentUuid"] = t.parent
	}
	if kind == "user" {
		r["promptId"] = t.promptID
	}
	for k, v := range more {
		r[k] = v
	}
	t.parent = uuid
	data, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	t.lines.Write(append(data, '\n'))
}

func (t *transcript) flush() error {
	if err := os.MkdirAll(filepath.Dir(t.file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(t.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := t.lines.WriteTo(f); err != nil {
		return err
	}
	return f.Close()
}
