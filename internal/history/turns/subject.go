package turns

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/jsonscan"
)

// Subject describes the input of the call on one line of at most that many characters: the command or the path, else
// the whole input. The text may contain any character except line breaks.
func (c *Call) Subject(most int) string {
	in := FieldsOf(c.Input)
	_, subject := SubjectField(c.Tool, in)
	if subject == "" {
		subject = cmp.Or(c.Title, in.Text("title"), in.Text("description"))
	}
	if subject == "" && string(c.Input) != "{}" {
		subject = c.InputText()
	}
	const longestRune = 4
	subject = strings.Join(strings.Fields(subject[:min(len(subject), longestRune*(most+1))]), " ")
	if runes := []rune(subject); len(runes) > most {
		subject = string(runes[:most]) + "…"
	}
	return subject
}

// SubjectField returns the field of a tool's input that names the subject of a call, such as a command or a path, and
// its text. Both are "" if there is none.
func SubjectField(tool string, in Fields) (name, text string) {
	for _, name := range agents.SubjectFields(tool) {
		if text := strings.TrimSpace(CommandText(in.Get(name))); text != "" {
			return name, text
		}
	}
	return "", ""
}

// CommandText returns a command as a user would type it. Some tools receive it as a list of arguments, with a shell in
// front.
func CommandText(v json.RawMessage) string {
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
