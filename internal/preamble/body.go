package preamble

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dalsegno/segno"
)

// member is one key of an object, with its value.
type member struct {
	key   string
	value json.RawMessage
}

// members are an object's, in its own order; of one that was clipped, those that
// its head still holds. It is nil for anything else.
func members(raw json.RawMessage) []member {
	raw = whole(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	var ms []member
	if _, err := dec.Token(); err != nil {
		return nil
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			break
		}
		m := member{key: key.(string)} // the decoder takes no other key
		if dec.Decode(&m.value) != nil {
			break
		}
		ms = append(ms, m)
	}
	return ms
}

// get returns a member's value, or nil.
func get(ms []member, key string) json.RawMessage {
	for _, m := range ms {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// whole is raw itself, or the mended head of what was clipped.
func whole(raw json.RawMessage) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if c := clipped(raw); c != nil {
		return mend(c.Head)
	}
	return raw
}

// clipped is what stands in raw for longer bytes, or nil.
func clipped(raw json.RawMessage) *segno.Clipped {
	if !bytes.HasPrefix(raw, []byte(`{"clipped":`)) {
		return nil
	}
	var stand struct {
		Clipped *segno.Clipped `json:"clipped"`
	}
	if json.Unmarshal(raw, &stand) != nil {
		return nil
	}
	return stand.Clipped
}

// mend closes what the beginning of a JSON text left open. It is nil if that is
// not to be had.
func mend(head string) json.RawMessage {
	var open, atComma []byte
	text, escaped, comma := false, false, 0
	for i := range len(head) {
		switch c := head[i]; {
		case escaped:
			escaped = false
		case text:
			escaped, text = c == '\\', c != '"'
		case c == '"':
			text = true
		case c == '{':
			open = append(open, '}')
		case c == '[':
			open = append(open, ']')
		case (c == '}' || c == ']') && len(open) > 0:
			open = open[:len(open)-1]
		case c == ',':
			comma, atComma = i, bytes.Clone(open)
		}
	}
	if text {
		const longest = len(`\u00e`) // of a broken escape
		for n := range min(longest, len(head)) + 1 {
			if try := closed(head[:len(head)-n]+`"`, open); json.Valid(try) {
				return try
			}
		}
	}
	for _, try := range [][]byte{closed(head, open), closed(head[:comma], atComma)} {
		if json.Valid(try) {
			return try
		}
	}
	return nil
}

func closed(s string, open []byte) json.RawMessage {
	b := []byte(s)
	for i := len(open) - 1; i >= 0; i-- {
		b = append(b, open[i])
	}
	return b
}

// text is what a value says to a reader: a string's own text, the texts of
// content blocks, a command's output, else its JSON. It is not yet plain.
func text(raw json.RawMessage) string { return textAt(raw, 0) }

func textAt(raw json.RawMessage, level int) string {
	const deepest = 8
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || level > deepest {
		return string(raw)
	}
	switch raw[0] {
	case '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return string(raw)
		}
		return s
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return string(raw)
		}
		var parts []string
		for _, v := range list {
			if s := textAt(v, level+1); strings.TrimSpace(s) != "" {
				parts = append(parts, s)
			}
		}
		return strings.Join(parts, "\n")
	case '{':
		if c := clipped(raw); c != nil {
			return ofClipped(c, level)
		}
		return ofObject(raw, level)
	case 'n':
		return ""
	}
	return string(raw)
}

func ofClipped(c *segno.Clipped, level int) string {
	const tail = 2 << 10
	head := c.Head
	if m := mend(head); m != nil {
		head = textAt(m, level+1)
	}
	end := c.Tail[max(0, len(c.Tail)-tail):]
	end = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\"`, `"`, `\\`, `\`).Replace(end)
	return fmt.Sprintf("%s\n%s of %d bytes in all, the middle is left out %s\n%s", head, ellipsis, c.Bytes, ellipsis, end)
}

// ofObject reads a content block, or what a tool's own object says.
func ofObject(raw json.RawMessage, level int) string {
	ms := members(raw)
	switch text(get(ms, "type")) {
	case "content":
		return textAt(get(ms, "content"), level+1)
	case "diff":
		return "changed " + text(get(ms, "path"))
	case "terminal":
		return ""
	case "image", "audio":
		return "one " + text(get(ms, "type"))
	case "resource_link":
		return text(get(ms, "uri"))
	case "resource":
		return textAt(get(ms, "resource"), level+1)
	}
	if get(ms, "filePath") != nil {
		return "" // a file was written; it repeats the input
	}
	var parts []string
	for _, key := range []string{"stdout", "stderr", "formatted_output", "aggregated_output", "output", "text", "content", "message", "error", "result"} {
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
