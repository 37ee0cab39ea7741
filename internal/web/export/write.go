package export

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dalsegno/segno"
)

// Source is the content that a format writes.
type Source struct {
	Header Header
	// Turns yields the turns, oldest first. It may be called more than once.
	Turns func() iter.Seq2[*Turn, error]
	// Children are the threads of subagents, which are part of this thread.
	Children []Source
	Version  string // segno's version
}

// Formats returns the names of the formats, except "html".
func Formats() []string { return []string{"atif", "markdown", "jsonl", "agent-trace", "otlp"} }

// Write writes a source in one of [Formats], or as "html". The error has [segno.KindInvalid] if
// segno has no such format.
func Write(w io.Writer, format string, s Source) error {
	switch format {
	case "atif":
		return writeATIF(w, s)
	case "markdown":
		return writeMarkdown(w, s)
	case "jsonl":
		return writeJSONL(w, s)
	case "agent-trace":
		return writeAgentTrace(w, s)
	case "otlp":
		return writeOTLP(w, s)
	case "html":
		return writePage(w, s)
	}
	return segno.Errorf(segno.KindInvalid, "export", format, "unknown format").WithHint("use one of " + strings.Join(Formats(), ", "))
}

// encode writes v as one line of JSON. The line is safe on a terminal: encode escapes characters
// that control the terminal or change the direction of text.
func encode(w io.Writer, v any) error {
	data, err := segno.Encode(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(escapeControls(data), '\n'))
	return err
}

// escapeControls escapes control characters in the strings of a JSON text, and replaces invalid
// UTF-8.
func escapeControls(data []byte) []byte {
	out := make([]byte, 0, len(data))
	for rest := data; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && n == 1:
			out = utf8.AppendRune(out, utf8.RuneError)
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		default:
			out = append(out, rest[:n]...)
		}
		rest = rest[n:]
	}
	return out
}

// text returns s as valid UTF-8.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// stamp formats a time. It returns "" for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// object returns raw if it is a complete JSON object, else an object that contains raw, because several formats require
// an object.
func object(raw json.RawMessage) json.RawMessage {
	trimmed := strings.TrimSpace(string(raw))
	if trimmed == "" || trimmed == "null" {
		return json.RawMessage("{}")
	}
	if trimmed[0] == '{' && json.Valid(raw) {
		return raw
	}
	var value any = text(trimmed)
	if json.Valid(raw) {
		value = raw
	}
	out, err := segno.Encode(map[string]any{"input": value})
	if err != nil {
		return json.RawMessage("{}")
	}
	return out
}
