package codex_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/codex"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	memdir.Use()
	goleak.VerifyTestMain(m)
}

const (
	firstID  = "01a20562-62f8-7731-83e7-000000000001"
	secondID = "01a20562-62f8-7731-83e7-000000000002"
	thirdID  = "01a20562-62f8-7731-83e7-000000000003"
)

var began = time.Date(2026, 11, 22, 22, 31, 3, 685e6, time.UTC)

// session writes a rollout as Codex does.
type session struct {
	t       testing.TB
	home    string
	dir     string
	thread  string
	id      string // the id of the rollout
	isOld   bool   // the version writes neither ordinals nor the ends of turns
	ordinal int
	lines   [][]byte
	ends    map[string]int // the number of lines up to the end of a turn
}

// newSession begins a rollout. base is the history it refers to, or nil.
func newSession(t testing.TB, home, thread string, base map[string]any) *session {
	s := &session{t: t, home: home, dir: "/srv/proj", thread: thread, id: thread, ends: map[string]int{}}
	if base != nil {
		s.ordinal = base["end_ordinal_exclusive"].(int)
	}
	s.begin(base)
	return s
}

func newOldSession(t testing.TB, home, thread string) *session {
	s := &session{t: t, home: home, dir: "/srv/proj", thread: thread, id: thread, isOld: true, ends: map[string]int{}}
	s.begin(nil)
	return s
}

func (s *session) begin(base map[string]any) {
	meta := map[string]any{"id": s.thread, "timestamp": began.Format(time.RFC3339Nano), "cwd": s.dir, "cli_version": "0.169.0", "originator": "codex_exec",
		"base_instructions": map[string]any{"text": strings.Repeat("You are a coding agent. ", 20)}}
	if !s.isOld {
		meta["session_id"], meta["history_mode"], meta["runtime_workspace_roots"] = s.thread, "paginated", []string{s.dir, "/other"}
	}
	if base != nil {
		meta["history_base"] = base
		if base["thread_id"] != s.thread {
			meta["forked_from_id"], meta["forked_from_ordinal_exclusive"] = base["thread_id"], base["end_ordinal_exclusive"]
		}
	}
	s.add("session_meta", meta)
}

func (s *session) add(typ string, payload map[string]any) {
	line := map[string]any{"timestamp": began.Add(time.Duration(len(s.lines)) * time.Millisecond).Format(time.RFC3339Nano), "type": typ, "payload": payload}
	if !s.isOld {
		line["ordinal"] = s.ordinal
		s.ordinal++
	}
	data, err := json.Marshal(line)
	if err != nil {
		s.t.Fatal(err)
	}
	s.lines = append(s.lines, append(data, '\n'))
}

func (s *session) event(typ string, more map[string]any) {
	payload := map[string]any{"type": typ}
	for k, v := range more {
		payload[k] = v
	}
	s.add("event_msg", payload)
}

func (s *session) message(role, text string) {
	kind := "input_text"
	if role == "assistant" {
		kind = "output_text"
	}
	s.add("response_item", map[string]any{"type": "message", "role": role, "content": []any{map[string]any{"type": kind, "text": text}}})
}

// turn adds a whole turn with a tool call. Its id is key, if the version has ids.
func (s *session) turn(key, prompt string) {
	s.prompt(key, prompt)
	s.add("response_item", map[string]any{"type": "function_call", "name": "exec_command", "call_id": "call_" + key, "arguments": "{}"})
	s.add("response_item", map[string]any{"type": "function_call_output", "call_id": "call_" + key, "output": "done"})
	s.message("assistant", "answer to "+prompt)
	if !s.isOld {
		s.event("task_complete", map[string]any{"turn_id": key})
	}
	s.ends[key] = len(s.lines)
}

func (s *session) prompt(key, prompt string) {
	if !s.isOld {
		s.event("thread_settings_applied", nil)
		s.event("task_started", map[string]any{"turn_id": key})
	}
	s.message("developer", "settings")
	s.message("user", prompt)
	if s.isOld {
		s.event("user_message", map[string]any{"message": prompt})
	}
	s.add("turn_context", map[string]any{"turn_id": key, "cwd": s.dir})
	if !s.isOld {
		s.event("item_completed", map[string]any{"turn_id": key, "item": map[string]any{"type": "UserMessage",
			"content": []any{map[string]any{"type": "text", "text": prompt}}}})
	}
}

func (s *session) data() []byte { return bytes.Join(s.lines, nil) }
func (s *session) size() int64  { return int64(len(s.data())) }

// end returns the offset behind a turn.
func (s *session) end(key string) int64 { return int64(len(bytes.Join(s.lines[:s.ends[key]], nil))) }

// base returns a reference to this rollout in its present state.
func (s *session) base() map[string]any {
	return map[string]any{"thread_id": s.id, "end_ordinal_exclusive": s.ordinal, "end_byte_offset": s.size()}
}

// path returns the path of the rollout.
func (s *session) path() string {
	name := "rollout-" + began.Format("2006-01-02T15-04-05") + "-" + s.thread
	if s.id != s.thread {
		name += "_" + s.id
	}
	return filepath.Join(s.home, "sessions", "2026", "11", "22", name+".jsonl")
}

func (s *session) flush() { write(s.t, s.path(), s.data()) }

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// env is a home of Codex with its reader and a store.
type env struct {
	t    testing.TB
	home string
	c    *codex.Transcripts
	o    *memoryObjects
}

func newEnv(t testing.TB) *env {
	home := filepath.Join(t.TempDir(), ".codex")
	return &env{t, home, codex.New(home, codex.Options{FS: noSync{vfs.OS}}), newMemoryObjects()}
}

// session makes a session of n turns, t1 to tn.
func (e *env) session(turns int) *session {
	s := newSession(e.t, e.home, firstID, nil)
	for n := range turns {
		s.turn(fmt.Sprintf("t%d", n+1), fmt.Sprintf("prompt %d", n+1))
	}
	s.flush()
	return s
}

func (e *env) capture(id segno.SessionID, prev *segno.Position, known ...string) segno.Captured {
	e.t.Helper()
	got, err := e.c.Capture(context.Background(), segno.Source{Session: id}, prev, e.o, func(leaf string) bool {
		return strings.Contains(" "+strings.Join(known, " ")+" ", " "+leaf+" ")
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return got
}

func (e *env) cut(p segno.Position, to segno.SessionID) segno.Source {
	e.t.Helper()
	src, err := e.c.Cut(context.Background(), p, segno.Target{Session: to, Dir: "/srv/other"}, e.o)
	if err != nil {
		e.t.Fatal(err)
	}
	return src
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func wantKind(t testing.TB, err error, want segno.Kind) {
	t.Helper()
	if err == nil || segno.KindOf(err) != want {
		t.Fatalf("error %v is %v, want %v", err, segno.KindOf(err), want)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has several lines: %v", err)
	}
}

// snapshot reads a directory tree into a map.
func snapshot(t testing.TB, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			out[path] = string(read(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// memoryObjects are objects in memory. An object of a batch can be read at once.
type memoryObjects struct {
	mu   sync.Mutex
	data map[segno.Hash][]byte
	size int64 // of all objects
}

func newMemoryObjects() *memoryObjects { return &memoryObjects{data: map[segno.Hash][]byte{}} }

func (s *memoryObjects) Get(_ context.Context, name segno.Hash) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.data[name]
	if !ok {
		return nil, segno.NewError(segno.KindNotFound, "get object", name.String(), nil)
	}
	return bytes.Clone(data), nil
}

func (s *memoryObjects) Has(_ context.Context, name segno.Hash) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.data[name]
	return ok, nil
}

func (s *memoryObjects) Put(_ context.Context, data []byte) (segno.Hash, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := segno.HashOf(data)
	if _, ok := s.data[name]; !ok {
		s.data[name] = bytes.Clone(data)
		s.size += int64(len(data))
	}
	return name, nil
}

func (s *memoryObjects) Batch() segno.Batch                          { return s }
func (s *memoryObjects) Keep(context.Context, segno.Staged) error    { return nil }
func (s *memoryObjects) Stage(context.Context) (segno.Staged, error) { return segno.Staged{}, nil }
func (s *memoryObjects) Close() error                                { return nil }

// noSync is the operating system without fsync, for speed.
type noSync struct{ vfs.FS }

func (q noSync) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := q.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return noSyncFile{f}, nil
}

func (noSync) SyncDir(string) error { return nil }

type noSyncFile struct{ vfs.File }

func (noSyncFile) Sync() error { return nil }
