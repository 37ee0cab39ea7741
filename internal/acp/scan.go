package acp

import (
	"bytes"
	"encoding/json"
	"strings"
)

// eachKey calls visit for the keys of the object that begins at line[at], in
// order. The line must be valid JSON. A key is part of the line: it is looked at
// and not kept.
func eachKey(line []byte, at int, visit func(key []byte, value Span)) {
	for i := space(line, at+1); i < len(line) && line[i] == '"'; {
		end := skip(line, i)
		from := space(line, space(line, end)+1) // behind the colon
		to := skip(line, from)
		visit(unquote(line[i:end]), Span{from, to})
		if i = space(line, to); i < len(line) && line[i] == ',' {
			i = space(line, i+1)
		}
	}
}

// Elements calls visit for the elements of the array at a place, in order.
func (m Message) Elements(in Span, visit func(Span)) {
	if in.IsZero() || m.Line[in.From] != '[' {
		return
	}
	for i := space(m.Line, in.From+1); i < in.To && m.Line[i] != ']'; {
		to := skip(m.Line, i)
		visit(Span{i, to})
		if i = space(m.Line, to); i < in.To && m.Line[i] == ',' {
			i = space(m.Line, i+1)
		}
	}
}

// skip returns the place behind the value that begins at i, in valid JSON.
func skip(line []byte, i int) int {
	switch line[i] {
	case '"':
		return skipString(line, i)
	case '{', '[':
		depth := 0
		for i < len(line) {
			switch line[i] {
			case '"':
				i = skipString(line, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return i
	}
	for i < len(line) && !strings.ContainsRune(",}] \t\r\n", rune(line[i])) {
		i++
	}
	return i
}

func skipString(line []byte, i int) int {
	for i++; i < len(line); {
		end := bytes.IndexByte(line[i:], '"')
		if end < 0 {
			return len(line)
		}
		escape := bytes.IndexByte(line[i:i+end], '\\')
		if escape < 0 {
			return i + end + 1
		}
		i += escape + 2
	}
	return i
}

// space returns the place of the first byte at or behind i that is no space.
func space(line []byte, i int) int {
	for i < len(line) && (line[i] == ' ' || line[i] == '\t' || line[i] == '\n' || line[i] == '\r') {
		i++
	}
	return i
}

// text decodes a JSON string; anything else is "".
func text(quoted []byte) string { return string(unquote(quoted)) }

// unquote decodes a JSON string, in place if that changes nothing; anything else
// is nil.
func unquote(quoted []byte) []byte {
	if len(quoted) < 2 || quoted[0] != '"' {
		return nil
	}
	inside := quoted[1 : len(quoted)-1]
	for _, c := range inside {
		if c == '\\' || c >= 0x80 {
			var s string
			if json.Unmarshal(quoted, &s) != nil {
				return nil
			}
			return []byte(s)
		}
	}
	return inside
}

// IDOfPrefix returns the id of a message of which only the beginning is there, as it is
// written, and whether the message has a method as far as can be seen; "" if the id
// is not in it.
func IDOfPrefix(head []byte) (id string, method bool) {
	dec := json.NewDecoder(bytes.NewReader(head))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return "", false
	}
	for {
		key, err := dec.Token()
		if err != nil {
			return id, method
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return id, method
		}
		switch key {
		case "id":
			id = string(value)
		case "method":
			method = true
		}
	}
}
