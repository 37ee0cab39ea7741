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
	"github.com/dalsegno/segno/transcript/claude"
)

// session is a conversation of Claude Code and its file in that agent's format: one JSON
// object per line, with the id of its parent.
type session struct {
	source segno.Source
	rand   *rand.Rand
	time   time.Time
	last   string // the newest record
	turns  int
	calls  int          // in the turn so far
	lines  bytes.Buffer // not yet in the file
}

func newSession(home, dir string) (*session, error) {
	const id = "11111111-0000-4000-8000-000000000001"
	s := &session{rand: rand.New(rand.NewPCG(50, 1)), time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		source: segno.Source{Session: id, Dir: dir, Path: filepath.Join(home, "projects", claude.Slug(dir), id+".jsonl")}}
	return s, os.MkdirAll(filepath.Dir(s.source.Path), 0o700)
}

func (s *session) uuid() string {
	return fmt.Sprintf("%08x-%04x-4000-8000-%012x", s.rand.Uint32(), s.rand.Uint32()&0xffff, s.rand.Uint64()&0xffffffffffff)
}

// prompt is the id of the newest turn's prompt.
func (s *session) prompt() string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", s.turns) }

func (s *session) record(kind string, fields map[string]any) {
	s.time = s.time.Add(time.Second)
	id := s.uuid()
	r := map[string]any{"parentUuid": nil, "isSidechain": false, "type": kind, "uuid": id, "userType": "external",
		"timestamp": s.time.Format("2006-01-02T15:04:05.000Z"), "cwd": s.source.Dir, "sessionId": s.source.Session,
		"version": "2.1.197", "gitBranch": "main"}
	if s.last != "" {
		r["parentUuid"] = s.last
	}
	for k, v := range fields {
		r[k] = v
	}
	s.last = id
	enc := json.NewEncoder(&s.lines)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		panic(err) // maps of strings always encode
	}
}

func (s *session) user(content any, more map[string]any) {
	fields := map[string]any{"promptId": s.prompt(), "message": map[string]any{"role": "user", "content": content}}
	for k, v := range more {
		fields[k] = v
	}
	s.record("user", fields)
}

func (s *session) assistant(stop string, block map[string]any) {
	s.record("assistant", map[string]any{"requestId": "req_" + s.uuid(), "message": map[string]any{"id": "msg_" + s.uuid(),
		"type": "message", "model": "claude-x", "role": "assistant", "stop_reason": stop, "content": []any{block}}})
}

// say adds a turn with one tool call, whose output is about size bytes, and
// returns the agent's last words.
func (s *session) say(size int) string { return s.sayOutput(string(prose(s.rand, size))) }

// sayOutput is say with the output of the tool call.
func (s *session) sayOutput(out string) string {
	if s.calls == 0 {
		s.turns++
		s.user(string(prose(s.rand, 400)), nil)
	}
	s.calls = 0
	tool := "toolu_" + s.uuid()
	s.assistant("tool_use", map[string]any{"type": "tool_use", "id": tool, "name": "Bash",
		"input": map[string]any{"command": "go test ./..."}})
	s.user([]any{map[string]any{"type": "tool_result", "tool_use_id": tool, "content": out}},
		map[string]any{"toolUseResult": map[string]any{"stdout": out, "stderr": ""}})
	answer := string(prose(s.rand, 1500))
	s.assistant("end_turn", map[string]any{"type": "text", "text": answer})
	return answer
}

// flush appends the buffered lines to the file.
func (s *session) flush() error {
	f, err := os.OpenFile(s.source.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if _, err := s.lines.WriteTo(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
