package export

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/internal/proxy/preamble"
)

// subjectOf describes the input of a call on one line: the command or path, else the whole input.
func subjectOf(c *Call, most int) string {
	var in map[string]json.RawMessage
	subject := ""
	if json.Unmarshal(c.Input, &in) == nil {
		for _, key := range append(agents.SubjectFields(c.Tool), "title", "description") {
			if subject = strings.TrimSpace(preamble.TextOf(in[key])); subject != "" {
				break
			}
		}
	}
	if subject == "" && len(in) != 0 || len(in) == 0 && len(c.Input) > len("{}") {
		subject = preamble.TextOf(c.Input)
	}
	subject = strings.Join(strings.Fields(text(subject[:min(len(subject), 4*most)])), " ")
	if runes := []rune(subject); len(runes) > most {
		subject = string(runes[:most]) + "…"
	}
	return subject
}

// inputText formats the input of a call for readers, with one member of the object per line.
func inputText(c *Call) string {
	var b strings.Builder
	n := 0
	jsonscan.Members(c.Input, 0, func(key []byte, value jsonscan.Span) {
		raw := json.RawMessage(value.Of(c.Input))
		words := string(raw)
		if len(raw) > 0 && raw[0] == '"' {
			words = preamble.TextOf(raw)
		}
		separator := " "
		if strings.Contains(words, "\n") {
			separator = "\n"
		}
		fmt.Fprintf(&b, "%s:%s%s\n", jsonscan.Unescape(key), separator, strings.TrimRight(words, "\n"))
		n++
	})
	if n == 0 || strings.HasPrefix(string(c.Input), `{"clipped":`) {
		return preamble.TextOf(c.Input)
	}
	return b.String()
}

// outcome describes the end of a call.
func outcome(c *Call) (s string) {
	if c.Exit != nil && *c.Exit != 0 {
		s += fmt.Sprintf(" · exit %d", *c.Exit)
	} else if c.Failed {
		s += " · failed"
	}
	if took := tookOf(c); took >= time.Millisecond {
		s += " · " + took.Round(time.Millisecond).String()
	}
	if !c.Done {
		s += " · no result recorded"
	}
	return s
}

// tookOf returns how long a call took, or 0 if that is not known.
func tookOf(c *Call) time.Duration {
	if c.Took > 0 || c.Start.IsZero() || c.End.Before(c.Start) {
		return c.Took
	}
	return c.End.Sub(c.Start)
}
