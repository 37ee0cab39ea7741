package acp

import (
	"bytes"
	"encoding/json"
)

// IsID reports whether an id, as it is written, is one that JSON-RPC allows: a string, a
// number or null.
func IsID(id string) bool {
	return id == "null" || len(id) > 0 && (id[0] == '"' || id[0] == '-' || '0' <= id[0] && id[0] <= '9')
}

// ExtractMessages returns the messages in a line that is no JSON: a program may have written
// something without an end of line in front of a message, or behind it. pure is how many
// of them, from the first, have nothing but messages in front.
func ExtractMessages(line []byte) (found []Message, pure int) {
	const most = 64 // places to look at: the line may be 64 MiB of anything
	clean := true
	for at, tries := 0, 0; tries < most; tries++ {
		next := bytes.IndexByte(line[at:], '{')
		if next < 0 {
			break
		}
		clean = clean && len(bytes.TrimSpace(line[at:at+next])) == 0
		at += next
		dec := json.NewDecoder(bytes.NewReader(line[at:]))
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			clean = false
			at++
			continue
		}
		at += int(dec.InputOffset())
		m, err := Parse(append(bytes.Clone(raw), '\n'))
		if err != nil || m.ID.IsZero() && m.Method.IsZero() {
			clean = false
			continue
		}
		if found = append(found, m); clean {
			pure = len(found)
		}
	}
	return found, pure
}
