// Package recording has sessions that real agents (Claude Code 2.1.197, Codex 0.169.0) wrote with a
// scripted model, and the context that the model received when the agent resumed the session. It
// also models how each agent builds that context from its files, independently of the packages below
// transcript.
package recording

import (
	"archive/zip"
	"bytes"
	_ "embed" // testdata/recorded.zip
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
)

//go:embed testdata/recorded.zip
var recorded []byte

// Session is a recorded session, with the sessions from which it was forked.
type Session struct {
	Agent string // "claude" or "codex"
	Name  string
	ID    string // "" if the recording has several sessions and no context
	Dir   string // the directory in which it ran
	// Context has the items of the first request after a resume, without its prompt. It is nil if
	// the agent was not resumed, or could not be.
	Context []string
	files   fs.FS
}

// All returns the recordings.
func All() ([]Session, error) {
	z, err := zip.NewReader(bytes.NewReader(recorded), int64(len(recorded)))
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	names, err := fs.Glob(z, "*/*/expect.json")
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	var all []Session
	for _, name := range names {
		s, err := open(z, path.Dir(name))
		if err != nil {
			return nil, fmt.Errorf("recording: %s: %w", name, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func open(z fs.FS, dir string) (s Session, err error) {
	data, err := fs.ReadFile(z, path.Join(dir, "expect.json"))
	if err != nil {
		return s, err
	}
	var expect struct {
		Session, Thread, Cwd string
		Context              [][]any
	}
	if err := json.Unmarshal(data, &expect); err != nil {
		return s, err
	}
	s = Session{Agent: path.Dir(dir), Name: path.Base(dir), ID: expect.Session + expect.Thread, Dir: expect.Cwd}
	for _, item := range expect.Context[:max(0, len(expect.Context)-1)] { // the last one is the prompt
		s.Context = append(s.Context, encode(item...))
	}
	s.files, err = fs.Sub(z, dir)
	return s, err
}

// Install writes the recording's files into the agent's home, which must not exist.
func (s Session) Install(home string) error {
	if err := os.CopyFS(home, s.files); err != nil {
		return fmt.Errorf("recording: install %s: %w", s.Name, err)
	}
	return os.Remove(path.Join(home, "expect.json"))
}

// encode returns an item of a context as a string for comparisons.
func encode(item ...any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(item); err != nil {
		panic(err) // it was decoded from JSON
	}
	return b.String()
}
