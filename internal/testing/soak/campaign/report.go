package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno/internal/vfs"
)

// head is the beginning of the document with the results.
const head = `# Campaigns

` + "`make soak`" + ` wrote this page. A campaign runs large suites whole; CONTRIBUTING.md describes how to run one, and
internal/testing/soak/campaign/list.go is the list. A part is a test, or an equal share of one, in a separate process. Cases are what
the tests counted: histories, kills, damages, faults, inputs of a fuzzer. Found is how many parts failed at least once; a skipped test is a failure. The time is that of all parts
together. The commits are those on which parts ran: a part counts until a source of its test changes. A commit with a + had changes that were not committed. The directory soak beside this page has the parts of a campaign, with their commits and times.

| campaign | state | parts | tests | cases | seed | found | time | date | commit | machine |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
`

// summary returns the line at the end of a campaign.
func summary(s *state) string {
	tests, cases, took := s.sums()
	return fmt.Sprintf("%s: %s, %d of %d parts, %d tests, %d cases, %d found, seed %d, %s of work, commit %s", s.Campaign, s.verdict(), len(s.Parts),
		s.Planned, tests, cases, s.found(), s.Seed, took.Round(time.Second), strings.Join(s.Commits, ", "))
}

// verdict returns the state of a campaign in a word.
func (s *state) verdict() string {
	switch {
	case s.failing() > 0:
		return "failed"
	case len(s.Parts) < s.Planned:
		return "not finished"
	case s.found() > 0:
		return "passed when repeated"
	}
	return "passed"
}

// report writes the document with the results. It keeps the row of a campaign that has no state in dir.
func report(all []campaign, root, dir string) error {
	file := filepath.Join(root, filepath.FromSlash(resultFile))
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(old)) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			rows[strings.TrimSpace(cells[1])] = line
		}
	}
	text := head
	for _, c := range all {
		s, err := readState(dir, c.name)
		switch {
		case err != nil:
			return err
		case s != nil && len(s.Parts) > 0:
			text += row(s)
		case rows[c.name] != "":
			text += rows[c.name]
		default:
			text += "| " + c.name + " | not run |" + strings.Repeat(" |", 9) + "\n"
		}
	}
	return vfs.Replace(vfs.OS, file, []byte(text), 0o644)
}

// row returns the row of a campaign in the document.
func row(s *state) string {
	tests, cases, took := s.sums()
	cells := []string{s.Campaign, s.verdict(), fmt.Sprintf("%d of %d", len(s.Parts), s.Planned), grouped(tests), grouped(cases),
		strconv.FormatUint(s.Seed, 10), grouped(s.found()), took.Round(time.Second).String(), s.Changed.Format(time.DateOnly),
		strings.Join(s.Commits, ", "), fmt.Sprintf("%d cores, %s/%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// grouped writes a number with commas between its thousands.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
