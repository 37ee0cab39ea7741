package turns

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
)

// Fields are the members of a JSON object, in order.
type Fields []Field

// Field is a member of a JSON object.
type Field struct {
	Name  string
	Value json.RawMessage
}

// FieldsOf returns the members of an object. If the object was too long for its entry, these are the members that
// hooks recorded whole, and then those that are complete in its beginning. FieldsOf returns nil for any other value.
func FieldsOf(raw json.RawMessage) (all Fields) {
	raw = bytes.TrimSpace(raw)
	c := clipped(raw)
	jsonscan.Members(raw, 0, func(name []byte, value jsonscan.Span) {
		if c == nil || string(name) != "clipped" {
			all = append(all, Field{jsonscan.Unescape(name), value.Of(raw)})
		}
	})
	if c != nil {
		all = append(all, FieldsOf(complete(c.Head))...)
	}
	return all
}

// Get returns the value of the first field with a name, or nil.
func (f Fields) Get(name string) json.RawMessage {
	for _, x := range f {
		if x.Name == name {
			return x.Value
		}
	}
	return nil
}

// Text returns the value of the first field with a name as [TextOf] does, or "".
func (f Fields) Text(name string) string { return TextOf(f.Get(name)) }

// hasOnly reports whether no field has another name.
func (f Fields) hasOnly(names ...string) bool {
	return !slices.ContainsFunc(f, func(x Field) bool { return !slices.Contains(names, x.Name) })
}

// Unclip returns the completed beginning of a value that was too long for its entry. It returns any other value
// unchanged.
func Unclip(raw json.RawMessage) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if c := clipped(raw); c != nil {
		return complete(c.Head)
	}
	return raw
}

// IsClipped reports whether a value was too long for its entry, which then has only the two ends of it.
func IsClipped(raw json.RawMessage) bool { return clipped(bytes.TrimSpace(raw)) != nil }

// clipped returns the two ends of a value that was too long for its entry, or nil for another value.
func clipped(raw json.RawMessage) *segno.Clipped {
	if !bytes.HasPrefix(raw, []byte(`{"clipped":`)) {
		return nil
	}
	var value struct {
		Clipped *segno.Clipped `json:"clipped"`
	}
	if json.Unmarshal(raw, &value) != nil {
		return nil
	}
	return value.Clipped
}

// complete makes the beginning of a JSON text valid: it closes the open string, objects and
// arrays at its end. If the result is not valid, complete also drops the text after the last
// comma. It returns nil if that fails too.
func complete(head string) json.RawMessage {
	var open, openAtComma []byte // the brackets that would close them, outermost first
	isText, isEscaped, comma := false, false, 0
	for i := range len(head) {
		switch c := head[i]; {
		case isEscaped:
			isEscaped = false
		case isText:
			isEscaped, isText = c == '\\', c != '"'
		case c == '"':
			isText = true
		case c == '{' || c == '[':
			open = append(open, c+2) // the closing bracket in ASCII
		case (c == '}' || c == ']') && len(open) > 0:
			open = open[:len(open)-1]
		case c == ',':
			comma, openAtComma = i, bytes.Clone(open)
		}
	}
	var texts []json.RawMessage
	if isText {
		const longestEscape = len(`\u00e`) // the longest escape that the cut can leave incomplete
		for n := range min(longestEscape, len(head)) + 1 {
			texts = append(texts, closeAll(head[:len(head)-n]+`"`, open))
		}
	}
	for _, text := range append(texts, closeAll(head, open), closeAll(head[:comma], openAtComma)) {
		if jsonscan.Valid(text) {
			return text
		}
	}
	return nil
}

func closeAll(s string, open []byte) json.RawMessage {
	open = bytes.Clone(open)
	slices.Reverse(open)
	return append([]byte(s), open...)
}

// TextOf returns a JSON value as text for a reader: a string's own text, the texts of
// content blocks, a command's output, else its JSON. The text is not yet plain.
func TextOf(raw json.RawMessage) string { return textAt(raw, 0) }

func textAt(raw json.RawMessage, level int) string {
	const maxLevel = 8
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || level > maxLevel {
		return string(raw)
	}
	switch raw[0] {
	case '"':
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return s
		}
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil {
			var parts []string
			for _, v := range list {
				if s := textAt(v, level+1); strings.TrimSpace(s) != "" {
					parts = append(parts, s)
				}
			}
			return strings.Join(parts, "\n")
		}
	case '{':
		if c := clipped(raw); c != nil {
			return clippedText(c, level)
		}
		return objectText(raw, level)
	case 'n':
		return ""
	}
	return string(raw)
}

// clippedText returns the two ends of a clipped value.
func clippedText(c *segno.Clipped, level int) string {
	const tail = 2 << 10
	head := c.Head
	if value := complete(head); value != nil {
		head = textAt(value, level+1)
	}
	end := c.Tail[max(0, len(c.Tail)-tail):]
	end = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\"`, `"`, `\\`, `\`).Replace(end)
	return fmt.Sprintf("%s\n… of %d bytes in all, the middle is left out …\n%s", head, c.Bytes, end)
}

// objectText returns the text of a content block, or of a tool's own object. In a tool's
// object, it uses the first of the members that usually have the output; it joins a command's
// standard output and standard error.
func objectText(raw json.RawMessage, level int) string {
	f := FieldsOf(raw)
	switch typ := f.Text("type"); typ {
	case "content", "resource", "text":
		return textAt(f.Get(typ), level+1)
	case "diff":
		return "changed " + f.Text("path")
	case "terminal":
		return ""
	case "image", "audio":
		return "one " + typ
	case "resource_link":
		return f.Text("uri")
	}
	if f.Get("filePath") != nil {
		return "" // the object is the result of a file write and repeats the input
	}
	var parts []string
	for _, key := range []string{
		"stdout", "stderr", "formatted_output", "aggregated_output", "output", "text", "content", "message", "error", "result",
	} {
		if s := strings.TrimSpace(textAt(f.Get(key), level+1)); s != "" {
			parts = append(parts, s)
		}
		if len(parts) > 0 && key != "stdout" {
			break
		}
	}
	if len(parts) == 0 && f.Get("stdout") == nil {
		return string(raw)
	}
	return strings.Join(parts, "\n")
}
