package codex

import (
	"bytes"
	"slices"
	"strconv"
)

// numbering gives ordinals to the lines of a session with ordinals that have none.
type numbering struct {
	last     int64 // the highest ordinal so far; that of the first line is 0
	isBroken bool  // the newest line has no ordinal and can have none, because it is not JSON
}

// number returns a line with an ordinal. The result is valid until the line is changed.
func (n *numbering) number(line []byte) []byte {
	const key = `"ordinal":`
	if len(bytes.TrimSpace(line)) == 0 {
		return line
	}
	n.isBroken = false
	head := line[:min(len(line), 4<<10)] // Codex writes the ordinal before the payload
	if _, value, ok := bytes.Cut(head, []byte(key)); ok {
		value = value[:max(0, bytes.IndexAny(value, ",}"))]
		if ordinal, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err == nil {
			n.last = max(n.last, ordinal)
		}
		return line
	}
	var r record
	if r.parse(line) != nil || r.typ == nil {
		n.isBroken = true
		return line
	}
	n.last++
	at := bytes.IndexByte(line, '{') + 1
	return slices.Concat(line[:at], []byte(key), strconv.AppendInt(nil, n.last, 10), []byte(","), line[at:])
}
