package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno/internal/vfs"
)

// stateDir is the directory with the states, relative to the root of the repository. States are committed, so that
// another machine can continue a campaign, and so that each row of docs/soak.md has the parts that it counts.
const stateDir = "docs/soak"

// state is a campaign with the results so far. Its file has a line of JSON for the campaign and one for each part, in the
// order of their names, so that git can merge the states of two machines.
type state struct {
	Campaign string            `json:"campaign"`
	Seed     uint64            `json:"seed"`
	Commits  []string          `json:"commits"` // those on which parts ran
	Planned  int               `json:"planned"` // the number of parts
	Changed  time.Time         `json:"changed"`
	Parts    map[string]result `json:"-"` // by the name of the part
}

// result is the outcome of a part.
type result struct {
	Part    string  `json:"part"`
	OK      bool    `json:"ok"`
	Tests   int     `json:"tests"`           // passed tests, with subtests
	Cases   int     `json:"cases,omitempty"` // cases that the tests reported
	Seconds float64 `json:"seconds"`
	Commit  string  `json:"commit"`           // what the part ran on
	Failed  int     `json:"failed,omitempty"` // the number of failed runs of the part
	Output  string  `json:"output,omitempty"` // the output of the last failure, relative to the directory of the outputs
	Repeat  string  `json:"repeat,omitempty"` // the command that repeats the part
}

// pkg returns the directory of the part's package.
func (r result) pkg() string { return r.Part[:strings.LastIndex(r.Part, ".")] }

// test returns the name of the part's test.
func (r result) test() string {
	name, _, _ := strings.Cut(r.Part[len(r.pkg())+1:], " ")
	return name
}

// readState reads the state of a campaign, or returns nil if there is none.
func readState(dir, campaign string) (*state, error) {
	f, err := os.Open(filepath.Join(dir, campaign+".jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := json.NewDecoder(f)
	s := state{Parts: map[string]result{}}
	if err := lines.Decode(&s); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	for {
		var r result
		err := lines.Decode(&r)
		switch {
		case err == io.EOF:
			return &s, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		s.Parts[r.Part] = r
	}
}

func (s *state) write(dir string) error {
	s.Changed = time.Now().UTC().Truncate(time.Second)
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	if err := lines.Encode(s); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Parts)) {
		if err := lines.Encode(s.Parts[name]); err != nil {
			return err
		}
	}
	return vfs.Replace(vfs.OS, filepath.Join(dir, s.Campaign+".jsonl"), text.Bytes(), 0o644)
}

// set stores the result of a part.
func (s *state) set(r result) {
	s.Parts[r.Part] = r
	if !slices.Contains(s.Commits, r.Commit) {
		s.Commits = append(s.Commits, r.Commit)
	}
}

// drop removes the parts for which is returns true.
func (s *state) drop(is func(result) bool) {
	used := map[string]bool{}
	for name, r := range s.Parts {
		if is(r) {
			delete(s.Parts, name)
		} else {
			used[r.Commit] = true
		}
	}
	s.Commits = slices.DeleteFunc(s.Commits, func(commit string) bool { return !used[commit] })
}

// found counts the parts that failed at least once.
func (s *state) found() (n int) {
	for _, p := range s.Parts {
		if p.Failed > 0 {
			n++
		}
	}
	return n
}

// failing counts the parts whose last run failed.
func (s *state) failing() (n int) {
	for _, p := range s.Parts {
		if !p.OK {
			n++
		}
	}
	return n
}

// sums adds up the results.
func (s *state) sums() (tests, cases int, took time.Duration) {
	for _, p := range s.Parts {
		tests += p.Tests
		cases += p.Cases
		took += time.Duration(p.Seconds * float64(time.Second))
	}
	return tests, cases, took
}
