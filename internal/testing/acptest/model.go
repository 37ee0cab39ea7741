package acptest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Request is the complete input of the model for the choice of its next step. There is one
// at a turn's start and one after every tool call.
type Request struct {
	Session  string `json:"session"`
	Process  int    `json:"process"`
	Cwd      string `json:"cwd"`
	Settings string `json:"settings,omitempty"` // mode="plan" option model="big"
	First    bool   `json:"first"`              // the first one of its turn
	Said     []Part `json:"said"`
	// Unnamed has the lines of the ledger that Said does not name outside of directives.
	Unnamed []string `json:"unnamed,omitempty"`
}

// Part is one part of the model's input. Role is user, agent, call or result.
type Part struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

// Text returns the whole request as one text.
func (r Request) Text() string {
	var b strings.Builder
	for _, m := range r.Said {
		b.WriteString(m.Text)
		b.WriteByte('\n')
	}
	return b.String()
}

// Prompt returns the newest part by the user.
func (r Request) Prompt() string {
	for i := len(r.Said) - 1; i >= 0; i-- {
		if r.Said[i].Role == "user" {
			return r.Said[i].Text
		}
	}
	return ""
}

// ReadRequests reads a log of requests. It leaves out a line that a killed process wrote in part; the next one begins on a new line.
func ReadRequests(name string) ([]Request, error) {
	var all []Request
	err := eachLine(name, func(line []byte) error {
		if !json.Valid(line) {
			return nil
		}
		var r Request
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("acptest: reading requests: %w", err)
		}
		all = append(all, r)
		return nil
	})
	return all, err
}

// ReadLedger reads the lines of a ledger.
func ReadLedger(name string) ([]string, error) {
	var all []string
	err := eachLine(name, func(line []byte) error { all = append(all, string(line)); return nil })
	return all, err
}

// eachLine visits the complete lines of a file. A missing file has none.
func eachLine(name string, visit func([]byte) error) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil
		}
		if err := visit(line[:len(line)-1]); err != nil {
			return err
		}
	}
}

// modelView is what the model derives from its request.
type modelView struct {
	script *script // the newest; nil if there is none
	// since contains the records of the session after the script.
	since []record
	plain string // everything, without the directives
}

func viewOf(records []record) (modelView, error) {
	var s modelView
	var plain strings.Builder
	for i, r := range records {
		found, rest, err := directives(r.Text)
		if err != nil {
			return s, err
		}
		if n := len(found); n > 0 && r.Type == "user" {
			s.script, s.since = &found[n-1], records[i+1:]
		}
		plain.WriteString(rest)
		plain.WriteByte('\n')
	}
	s.plain = plain.String()
	return s, nil
}

// said reports whether the text of a step was sent since its script.
func (s modelView) said(step int) bool {
	for _, r := range s.since {
		if r.Script == s.script.key && r.Step == step {
			return true
		}
	}
	return false
}

// done reports whether a text reports that a line was appended or refused.
func (s modelView) done(line string) bool {
	return names(s.plain, "appended "+line) || names(s.plain, "refused "+line)
}

// names reports whether a text contains a word that is not part of a longer word.
func names(text, word string) bool {
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return false
		}
		i += at
		at = i + len(word)
		if (i == 0 || !isWordByte(text[i-1])) && (at == len(text) || !isWordByte(text[at])) {
			return true
		}
	}
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// sent logs a request.
func (c Config) sent(s *session, records []record, view modelView, first bool) error {
	lines, err := ReadLedger(c.LedgerFile())
	if err != nil {
		return err
	}
	r := Request{Session: s.id, Process: os.Getpid(), Cwd: s.cwd, Settings: s.settingsText(), First: first}
	for _, line := range lines {
		if !names(view.plain, line) {
			r.Unnamed = append(r.Unnamed, line)
		}
	}
	for _, rec := range records {
		switch rec.Type {
		case "user", "agent", "call", "result":
			r.Said = append(r.Said, Part{rec.Type, rec.Text})
		}
	}
	return appendTo(c.RequestsFile(), slices.Concat([]byte("\n"), encode(r), []byte("\n")))
}
