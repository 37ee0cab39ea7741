package cli

import (
	"bytes"
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
// record names the previous one as its parent. The demo and the scripted agents of tests use it.
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

// text is the text of the user or of the agent, "" for a call and its result.
func (r *record) text() string {
	var words string
	var blocks []struct{ Text string }
	if json.Unmarshal(r.Message.Content, &words) == nil {
		return words
	}
	if json.Unmarshal(r.Message.Content, &blocks) == nil && len(blocks) > 0 {
		return blocks[0].Text
	}
	return ""
}

// readRecords reads the records of a transcript, none if the file does not exist.
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
