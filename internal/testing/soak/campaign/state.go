package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno/internal/vfs"
)

// state is the content of a campaign's file: the results so far.
type state struct {
	Campaign string            `json:"campaign"`
	Seed     uint64            `json:"seed"`
	Commits  []string          `json:"commits"` // several if the user continued the campaign on another commit
	Planned  int               `json:"planned"` // the number of parts
	Parts    map[string]result `json:"parts"`   // by the name of the part
	Changed  time.Time         `json:"changed"`
}

// result is the outcome of a part.
type result struct {
	OK      bool    `json:"ok"`
	Tests   int     `json:"tests"`           // passed tests, with subtests
	Cases   int     `json:"cases,omitempty"` // cases that the tests reported
	Seconds float64 `json:"seconds"`
	Failed  int     `json:"failed,omitempty"` // the number of failed runs of the part
	Output  string  `json:"output,omitempty"` // the output of the last failure, relative to the directory of the states
	Repeat  string  `json:"repeat,omitempty"` // the command that repeats the part
}

func readState(file string) (*state, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &s, nil
}

func (s *state) write(dir string) error {
	s.Changed = time.Now().UTC().Truncate(time.Second)
	data, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	return vfs.Replace(vfs.OS, filepath.Join(dir, s.Campaign+".json"), append(data, '\n'), 0o600)
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
