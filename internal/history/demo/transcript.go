package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/claude"
)

// transcript appends turns to the transcript of the scripted agent. The format is that of
// Claude Code: each record names the previous one as its parent.
type transcript struct {
	src    segno.Source
	parent *string
}

type record struct {
	Type     string          `json:"type"`
	UUID     string          `json:"uuid"`
	Parent   *string         `json:"parentUuid"`
	Session  segno.SessionID `json:"sessionId"`
	Dir      string          `json:"cwd"`
	Version  string          `json:"version"`
	Time     time.Time       `json:"timestamp"`
	PromptID string          `json:"promptId,omitempty"`
	Message  struct {
		Role    string    `json:"role"`
		Content []message `json:"content"`
	} `json:"message"`
}

type message struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func newTranscript(home, dir string) *transcript {
	session := "demo-" + segno.NewID()[:8]
	return &transcript{src: segno.Source{Session: segno.SessionID(session), Dir: dir,
		Path: filepath.Join(sessionDir(home, dir), session+".jsonl")}}
}

// sessionDir returns the directory of the agent's sessions in a directory.
func sessionDir(home, dir string) string {
	return filepath.Join(home, "projects", claude.Slug(dir))
}

// append writes the records of a turn: the prompt and the answer.
func (t *transcript) append(made turn) error {
	var lines bytes.Buffer
	promptID := segno.NewID()
	for _, m := range []struct{ role, text, promptID string }{{"user", made.prompt, promptID}, {"assistant", made.answer, ""}} {
		id := fmt.Sprintf("%s-0000-4000-8000-%s", segno.NewID()[:8], segno.NewID()[:12])
		rec := record{Type: m.role, UUID: id, Parent: t.parent, Session: t.src.Session, Dir: t.src.Dir, Version: "2.1.197",
			Time: time.Now().UTC(), PromptID: m.promptID}
		rec.Message.Role, rec.Message.Content = m.role, []message{{"text", m.text}}
		if err := json.NewEncoder(&lines).Encode(rec); err != nil {
			return err
		}
		t.parent = &id
	}
	if err := os.MkdirAll(filepath.Dir(t.src.Path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(t.src.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := lines.WriteTo(f); err != nil {
		return err
	}
	return f.Close()
}

// ReadSession calls visit for each message of a session of the scripted agent.
func ReadSession(file string, visit func(role, text string)) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		var rec record
		if json.Unmarshal([]byte(line), &rec) == nil && len(rec.Message.Content) > 0 {
			visit(rec.Type, rec.Message.Content[0].Text)
		}
	}
	return nil
}
