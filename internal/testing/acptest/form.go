package acptest

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// form is the file format of an agent's sessions.
type form interface {
	// line encodes a record as a line of the session's file.
	line(s *session, r record) []byte
	// read decodes a line and adds its records to the session.
	read(s *session, line []byte) error
}

func (c Config) form() form {
	if c.Claude != "" {
		return claudeForm{}
	}
	return plainForm{}
}

// newFile returns the file for a new session.
func (c Config) newFile(s *session) string {
	if c.Claude != "" {
		return filepath.Join(c.Claude, "projects", slug(s.cwd), s.id+".jsonl")
	}
	return c.sessionFiles(s.id)
}

// slug names the directory of the sessions of a project, as Claude Code does for a short
// ASCII path.
func slug(cwd string) string {
	return regexp.MustCompile("[^a-zA-Z0-9]").ReplaceAllString(cwd, "-")
}

// ownsSession reports whether a session belongs to a directory. Claude Code decides by the path of the
// transcript, because older lines in it may name another directory.
func (c Config) ownsSession(s *session, cwd string) bool {
	if c.Claude != "" {
		return filepath.Base(filepath.Dir(s.file)) == slug(cwd)
	}
	return s.cwd == cwd
}

// SessionFiles returns a pattern that matches the files of all sessions.
func (c Config) SessionFiles() string { return c.sessionFiles("*") }

// sessionFiles returns a pattern that matches the files of the session with an id; "*" means any id.
func (c Config) sessionFiles(id string) string {
	name := strings.ReplaceAll(id, "/", "_") + ".jsonl"
	if c.Claude != "" {
		return filepath.Join(c.Claude, "projects", "*", name)
	}
	return filepath.Join(c.Dir, "sessions", name)
}

// findFile returns the file of a session. If there is none, it returns a name that does not exist.
func (c Config) findFile(id string) string {
	if names, err := filepath.Glob(c.sessionFiles(id)); err == nil && len(names) > 0 {
		return names[len(names)-1]
	}
	return filepath.Join(c.Dir, "no session", "there")
}

// plainForm has one JSON record per line.
type plainForm struct{}

func (plainForm) line(_ *session, r record) []byte { return encode(r) }

func (plainForm) read(s *session, line []byte) error {
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	if r.Type == "open" && s.cwd == "" {
		s.cwd = r.Cwd
	}
	s.records = append(s.records, r)
	return nil
}

// claudeForm is a transcript as Claude Code writes it. The record is in an additional member, which a
// reader of transcripts copies without understanding it.
type claudeForm struct{}

// claudeLine is a line of a transcript.
type claudeLine struct {
	Parent    *string        `json:"parentUuid"`
	Sidechain bool           `json:"isSidechain"`
	Prompt    string         `json:"promptId,omitempty"`
	Mode      string         `json:"permissionMode,omitempty"`
	Message   map[string]any `json:"message"`
	Type      string         `json:"type"`
	ID        string         `json:"uuid"`
	Time      string         `json:"timestamp"`
	User      string         `json:"userType"`
	Cwd       string         `json:"cwd"`
	Session   string         `json:"sessionId"`
	Version   string         `json:"version"`
	Record    *record        `json:"acptest"`
}

func (claudeForm) line(s *session, r record) []byte {
	if r.Type == "open" {
		return encode(map[string]any{"type": "mode", "mode": "normal", "sessionId": s.id})
	}
	l := claudeLine{Type: "assistant", ID: newID(), Time: time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), User: "external",
		Cwd: s.cwd, Session: s.id, Version: "2.1.330", Record: &r}
	if s.leaf != "" {
		parent := s.leaf
		l.Parent = &parent
	}
	s.leaf = l.ID
	block := map[string]any{"type": "text", "text": r.Text}
	switch r.Type {
	case "user":
		l.Type, l.Prompt, l.Mode = "user", r.ID, "default"
	case "note":
		l.Type, block["text"] = "user", "[Request interrupted by user]"
	case "call":
		block = map[string]any{"type": "tool_use", "id": r.ID, "name": "Bash", "input": map[string]string{"command": r.Text}}
	case "result":
		l.Type = "user"
		block = map[string]any{"type": "tool_result", "tool_use_id": r.ID, "content": r.Text}
	}
	l.Message = map[string]any{"role": l.Type, "content": []any{block}}
	if l.Type == "assistant" {
		l.Message["id"], l.Message["type"], l.Message["model"] = "msg_"+l.ID[:13], "message", "claude-x"
		l.Message["stop_reason"] = "end_turn"
		if r.Type == "call" {
			l.Message["stop_reason"] = "tool_use"
		}
	}
	return encode(l)
}

func (claudeForm) read(s *session, line []byte) error {
	var l claudeLine
	if err := json.Unmarshal(line, &l); err != nil {
		return err
	}
	if len(s.records) == 0 {
		s.records = append(s.records, record{Type: "open", ID: s.id})
	}
	if l.Cwd != "" {
		s.cwd, s.records[0].Cwd = l.Cwd, l.Cwd
	}
	if l.ID != "" {
		s.leaf = l.ID
	}
	if l.Record != nil {
		s.records = append(s.records, *l.Record)
	}
	return nil
}
