package acptest

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
)

// record is one line of a session's file.
type record struct {
	Type   string `json:"type"` // open, user, agent, thought, call, result, note
	ID     string `json:"id,omitempty"`
	Text   string `json:"text,omitempty"`
	Cwd    string `json:"cwd,omitempty"`
	Script string `json:"script,omitempty"` // the key of the script that contains the step of an agent record
	Step   int    `json:"step,omitempty"`
}

// session is a session in the memory of the process.
type session struct {
	id, cwd string
	file    string
	form    form
	turn    sync.Mutex // held by the running prompt; others wait

	mu      sync.Mutex
	records []record
	written int    // the number of records in the file
	leaf    string // the last record of a transcript
	lazy    bool   // nothing is written yet
	cancel  func() // of the running prompt
	// settings are the mode, as "mode", and config options, as "option ID". They exist only in
	// the process: a session that is read again has none.
	settings map[string]json.RawMessage
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// add records something, on disk unless the session is lazy.
func (s *session) add(r record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, r)
	if r.Type == "user" {
		s.lazy = false
	}
	if s.lazy {
		return nil
	}
	return s.write()
}

// write appends new records to the file, or all records if the file was deleted. The caller holds
// s.mu.
func (s *session) write() error {
	if _, err := os.Stat(s.file); errors.Is(err, fs.ErrNotExist) {
		s.written, s.leaf = 0, ""
	}
	if err := os.MkdirAll(filepath.Dir(s.file), 0o700); err != nil {
		return fmt.Errorf("acptest: writing a session: %w", err)
	}
	var b bytes.Buffer
	for _, r := range s.records[s.written:] {
		b.Write(append(s.form.line(s, r), '\n'))
	}
	if err := appendTo(s.file, b.Bytes()); err != nil {
		return fmt.Errorf("acptest: writing a session: %w", err)
	}
	s.written = len(s.records)
	return nil
}

func (s *session) all() []record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]record(nil), s.records...)
}

// stop cancels the running prompt, if there is one.
func (s *session) stop() {
	s.mu.Lock()
	cancel := s.cancel
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

func (s *session) running(cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = cancel
}

func (s *session) set(name string, value json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settings == nil {
		s.settings = map[string]json.RawMessage{}
	}
	s.settings[name] = value
}

func (s *session) modeID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	mode := "default"
	_ = json.Unmarshal(s.settings["mode"], &mode) // if none is set, mode keeps its default
	return mode
}

// settingsText returns all settings as text, in the order of their names.
func (s *session) settingsText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for name, value := range s.settings {
		all = append(all, name+"="+string(value))
	}
	sort.Strings(all)
	return strings.Join(all, " ")
}

// readSession reads a session's file. The error is [fs.ErrNotExist] if there is no such file.
func (c Config) readSession(id string) (*session, error) {
	s := &session{id: id, file: c.findFile(id), form: c.form()}
	f, err := os.Open(s.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break // the process was killed while it wrote the last line
		}
		if err := s.form.read(s, line); err != nil {
			return nil, fmt.Errorf("acptest: reading a session: %w", err)
		}
	}
	s.written = len(s.records)
	if s.written == 0 {
		return nil, fs.ErrNotExist
	}
	return s, nil
}

// listed is one row of session/list.
type listed struct {
	SessionID string `json:"sessionId"`
	Cwd       string `json:"cwd"`
	Title     string `json:"title,omitempty"`
}

func (c Config) listSessions(cwd string) ([]listed, error) {
	names, err := filepath.Glob(c.sessionFiles("*"))
	if err != nil {
		return nil, err
	}
	sort.Strings(names)
	list := []listed{}
	for _, name := range names {
		s, err := c.readSession(strings.TrimSuffix(filepath.Base(name), ".jsonl"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if cwd == "" || cwd == s.cwd {
			list = append(list, listed{s.id, s.cwd, s.titleText()})
		}
	}
	return list, nil
}

// titleText returns the beginning of the first prompt.
func (s *session) titleText() string {
	for _, r := range s.all() {
		if r.Type == "user" {
			return cut(r.Text, 40)
		}
	}
	return ""
}

func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}

// appendTo appends to a file in one write. The data survive a crash of the process, but not of
// the machine.
func appendTo(name string, data []byte) error { return appendAnd(name, data, (*os.File).Close) }

// appendDurably appends to a file in one write and syncs it.
func appendDurably(name string, data []byte) error {
	return appendAnd(name, data, func(f *os.File) error { return errors.Join(f.Sync(), f.Close()) })
}

func appendAnd(name string, data []byte, end func(*os.File) error) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	return end(f)
}
