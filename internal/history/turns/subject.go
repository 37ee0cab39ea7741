package turns

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/jsonscan"
)

// Subject describes the input of the call on one line of at most that many characters: the command or the path, else
// the whole input. The text may contain any character except line breaks.
func (c *Call) Subject(most int) string {
	subject := c.subject()
	const longestRune = 4
	subject = strings.Join(strings.Fields(subject[:min(len(subject), longestRune*(most+1))]), " ")
	if runes := []rune(subject); len(runes) > most {
		subject = string(runes[:most]) + "…"
	}
	return subject
}

func (c *Call) subject() string {
	in := FieldsOf(c.Input)
	_, subject := SubjectField(c.Tool, in)
	if subject == "" {
		subject = cmp.Or(c.Title, in.Text("title"), in.Text("description"))
	}
	if subject == "" && string(c.Input) != "{}" {
		subject = c.InputText()
	}
	return subject
}

// IsAbout reports whether the subject of the call is a path of the workspace, and not a command that may name it. The path in the
// input may be absolute.
func (c *Call) IsAbout(path string) bool {
	return !agents.IsShell(c.Tool) && strings.HasSuffix(strings.TrimSpace(c.subject()), path)
}

// SubjectField returns the field of a tool's input that names the subject of a call, such as a command or a path, and
// its text. Both are "" if there is none.
func SubjectField(tool string, in Fields) (name, text string) {
	for _, name := range agents.SubjectFields(tool) {
		if text := strings.TrimSpace(commandText(in.Get(name))); text != "" {
			return name, text
		}
	}
	return "", ""
}

// commandText returns a command as a user would type it. Some tools receive it as a list of arguments, with a shell in
// front.
func commandText(v json.RawMessage) string {
	var words []string
	if json.Unmarshal(v, &words) != nil {
		return TextOf(v)
	}
	if len(words) == 3 && strings.HasPrefix(words[1], "-") && strings.HasSuffix(words[1], "c") {
		return words[2]
	}
	return strings.Join(words, " ")
}

// InputText formats the input of the call for readers, with one field on each line.
func (c *Call) InputText() string {
	var b strings.Builder
	n := 0
	jsonscan.Members(c.Input, 0, func(key []byte, value jsonscan.Span) {
		raw := json.RawMessage(value.Of(c.Input))
		words := string(raw)
		if len(raw) > 0 && raw[0] == '"' {
			words = TextOf(raw)
		}
		separator := " "
		if strings.Contains(words, "\n") {
			separator = "\n"
		}
		fmt.Fprintf(&b, "%s:%s%s\n", jsonscan.Unescape(key), separator, strings.TrimRight(words, "\n"))
		n++
	})
	if n == 0 || IsClipped(c.Input) {
		return TextOf(c.Input)
	}
	return b.String()
}

// Texts returns the input of the call as the user reads it, for a search: first the subject, such as the command as
// typed, then the other texts and numbers. They have no names of fields and no escapes of JSON.
func (c *Call) Texts() []string {
	if IsClipped(c.Input) {
		return []string{TextOf(c.Input)}
	}
	name, subject := SubjectField(c.Tool, FieldsOf(c.Input))
	all := appendTexts([]string{subject, c.Title}, c.Input, name, 0)
	return slices.DeleteFunc(all, func(text string) bool { return text == "" })
}

// appendTexts appends the values in a JSON value, without the member that except names and without the null value.
func appendTexts(all []string, raw json.RawMessage, except string, level int) []string {
	const maxLevel = 32
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || level > maxLevel:
	case raw[0] == '{':
		jsonscan.Members(raw, 0, func(name []byte, value jsonscan.Span) {
			if except == "" || jsonscan.Unescape(name) != except {
				all = appendTexts(all, value.Of(raw), "", level+1)
			}
		})
	case raw[0] == '[':
		jsonscan.Elements(raw, 0, func(value jsonscan.Span) { all = appendTexts(all, value.Of(raw), "", level+1) })
	default:
		all = append(all, TextOf(raw))
	}
	return all
}
