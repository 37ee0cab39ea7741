package preamble

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
)

// member is one member of an object.
type member struct {
	key   string
	value json.RawMessage
}

// members returns an object's members in order. For a clipped object, it returns the members
// that are complete in its head. It returns nil for any other value.
func members(raw json.RawMessage) (ms []member) {
	raw = unclip(raw)
	jsonscan.Members(raw, 0, func(key []byte, value jsonscan.Span) {
		ms = append(ms, member{jsonscan.Unescape(key), value.Of(raw)})
	})
	return ms
}

// get returns the value of the first member with a key, or nil.
func get(ms []member, key string) json.RawMessage {
	for _, m := range ms {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// unclip returns raw itself, or the completed head of a clipped value.
func unclip(raw json.RawMessage) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if c := clipped(raw); c != nil {
		return complete(c.Head)
	}
	return raw
}

// clipped returns the replacement of a value that was too long for its entry, or nil if raw is
// another value.
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
	return fmt.Sprintf("%s\n%s of %d bytes in all, the middle is left out %s\n%s", head, ellipsis, c.Bytes, ellipsis, end)
}

// objectText returns the text of a content block, or of a tool's own object. In a tool's
// object, it uses the first of the members that usually have the output; it joins a command's
// standard output and standard error.
func objectText(raw json.RawMessage, level int) string {
	ms := members(raw)
	switch typ := TextOf(get(ms, "type")); typ {
	case "content", "resource", "text":
		return textAt(get(ms, typ), level+1)
	case "diff":
		return "changed " + TextOf(get(ms, "path"))
	case "terminal":
		return ""
	case "image", "audio":
		return "one " + typ
	case "resource_link":
		return TextOf(get(ms, "uri"))
	}
	if get(ms, "filePath") != nil {
		return "" // the object is the result of a file write and repeats the input
	}
	var parts []string
	for _, key := range []string{
		"stdout", "stderr", "formatted_output", "aggregated_output", "output", "text", "content", "message", "error", "result",
	} {
		if s := strings.TrimSpace(textAt(get(ms, key), level+1)); s != "" {
			parts = append(parts, s)
		}
		if len(parts) > 0 && key != "stdout" {
			break
		}
	}
	if len(parts) == 0 && get(ms, "stdout") == nil {
		return string(raw)
	}
	return strings.Join(parts, "\n")
}
