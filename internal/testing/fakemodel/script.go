package fakemodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"strings"
	"time"
)

const directiveStart = "<<fake "

// directive is one script found in a user text.
type directive struct {
	text  string // the steps as in the text: the key of the use counts
	steps []step
}

// step is one scripted answer.
type step struct {
	Text     string            `json:"text"`
	Thinking string            `json:"thinking"`
	Tool     string            `json:"tool"`
	Input    json.RawMessage   `json:"input"`
	Tools    []call            `json:"tools"`
	Raw      []json.RawMessage `json:"raw"`
	Stop     string            `json:"stop"`
	Delay    float64           `json:"delay"`
	Until    string            `json:"until"`
	Error    int               `json:"error"`
	Message  string            `json:"message"`
	Times    int               `json:"times"`
	Empty    bool              `json:"empty"`
	Drop     bool              `json:"drop"`
	Hang     bool              `json:"hang"`
}

type call struct {
	Tool  string          `json:"tool"`
	Input json.RawMessage `json:"input"`
}

// UnmarshalJSON accepts a string as a text answer, and refuses unknown fields, which would be
// typing errors.
func (s *step) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return json.Unmarshal(b, &s.Text)
	}
	type plain step
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode((*plain)(s)); err != nil {
		return err
	}
	if s.Tool != "" && s.Tools != nil {
		return errors.New(`a step has "tool" or "tools", not both`)
	}
	if s.Tool != "" {
		s.Tools = []call{{s.Tool, s.Input}}
	}
	for i := range s.Tools {
		if s.Tools[i].Tool == "" {
			return errors.New(`a call without "tool"`)
		}
		if s.Tools[i].Input == nil {
			s.Tools[i].Input = json.RawMessage("{}")
		}
	}
	return nil
}

func (s step) delay() time.Duration { return time.Duration(s.Delay * float64(time.Second)) }

// addsNoMessage reports whether an answer with s creates no assistant message.
func (s step) addsNoMessage() bool { return s.Error != 0 || s.Drop }

// findDirective returns the last directive in text, or nil. It decodes the steps as JSON, so
// ">>" inside a string does not end them, and a directive inside a string (the prompt of a
// subagent) does not count as another one. It ignores a line quoted with "> ", because such a
// line only cites a prompt and may be truncated. Claude Code escapes the output of a command that the user typed after "!".
func findDirective(text string) (*directive, error) {
	var found *directive
	if strings.Contains(text, "<bash-stdout>") {
		text = html.UnescapeString(text)
	}
	text = unquoted(text)
	for {
		i := strings.Index(text, directiveStart)
		if i < 0 {
			return found, nil
		}
		text = text[i+len(directiveStart):]
		var raw json.RawMessage
		dec := json.NewDecoder(strings.NewReader(text))
		if err := dec.Decode(&raw); err != nil {
			return nil, fmt.Errorf("reading the steps of %q: %w", head(text), err)
		}
		text = text[dec.InputOffset():]
		if !strings.HasPrefix(strings.TrimLeft(text, " \n"), ">>") {
			return nil, fmt.Errorf("no >> after the steps of %q", head(string(raw)))
		}
		d := &directive{text: string(raw)}
		if err := json.Unmarshal(raw, &d.steps); err != nil {
			return nil, fmt.Errorf("reading the steps of %q: %w", head(string(raw)), err)
		}
		found = d
	}
}

func unquoted(text string) string {
	if !strings.HasPrefix(text, "> ") && !strings.Contains(text, "\n> ") {
		return text
	}
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "> ") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func head(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// answerTo returns the step for req. A side call gets a fixed answer and does not advance the
// script, although its prompt may quote the directive. A compaction may have a separate script.
func (s *Server) answerTo(req Request) (step, string, error) {
	conversation := req.Messages()
	p := position{seed: seed(conversation)}
	var err error
	if instructions := compactionOf(conversation); instructions != "" {
		p.directive, err = findDirective(instructions)
		if p.directive == nil && err == nil {
			return step{Text: "<summary>ok</summary>"}, p.seed, nil
		}
	} else if !req.Side {
		p, err = locate(conversation)
	}
	if err != nil {
		return step{}, "", fmt.Errorf("fakemodel: %w", err)
	}
	return s.next(p.directive, p.calls), p.seed, nil
}

// next returns the step for the model call that has n assistant messages between
// it and the directive.
func (s *Server) next(d *directive, n int) step {
	if d == nil {
		return step{Text: "ok"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, st := range d.steps {
		if !st.addsNoMessage() {
			if n == 0 {
				return st
			}
			n--
			continue
		}
		key := useKey{d.text, i}
		if n > 0 || (st.Times > 0 && s.used[key] >= st.Times) {
			continue
		}
		s.used[key]++
		return st
	}
	return step{Text: "ok"}
}
