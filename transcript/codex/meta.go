package codex

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
)

// meta is the first line of a rollout.
type meta struct {
	line    []byte // without the newline
	id      string
	dir     string
	version string
	time    time.Time
	isPaged bool // lines have ordinals, and Codex needs the ordinal of the last line
	base    *historyBase

	isSubagent bool // the session has a part of a turn of another session, such as a review
}

// historyBase is the place of the lines before the first line of a rollout.
type historyBase struct {
	rollout string // the id of the rollout that has these lines
	end     int64  // the offset in that rollout behind the last of them
}

var errNoMeta = errors.New("its first line is no session_meta")

// parseMeta reads the first line of a rollout.
func parseMeta(line []byte) (meta, error) {
	line = bytes.TrimRight(line, "\r\n")
	m := meta{line: line}
	if !jsonscan.Valid(line) || jsonscan.Text(m.field("type")) != "session_meta" {
		return m, errNoMeta
	}
	if m.id = jsonscan.Text(m.field("payload", "id")); m.id == "" {
		return m, fmt.Errorf("its session_meta has no id: %w", errNoMeta)
	}
	m.dir = jsonscan.Text(m.field("payload", "cwd"))
	m.isSubagent = m.field("payload", "source", "subagent") != nil
	m.version = jsonscan.Text(m.field("payload", "cli_version"))
	m.isPaged = jsonscan.Text(m.field("payload", "history_mode")) == "paginated"
	m.time, _ = time.Parse(time.RFC3339Nano, jsonscan.Text(m.field("payload", "timestamp"))) // zero without one
	if base := m.field("payload", "history_base"); base != nil && string(base) != "null" {
		var b struct {
			Thread string `json:"thread_id"`
			End    int64  `json:"end_byte_offset"`
		}
		if err := json.Unmarshal(base, &b); err != nil || !isID(b.Thread) || b.End <= 0 {
			return m, fmt.Errorf("its history_base is malformed")
		}
		m.base = &historyBase{b.Thread, b.End}
	}
	return m, nil
}

// field returns the value at a path of keys in the line, or nil if there is none.
func (m *meta) field(path ...string) []byte {
	return jsonscan.Find(m.line, jsonscan.Span{To: len(m.line)}, path...).Of(m.line)
}

// edit returns an object with new values for the members that replace names. A nil value removes
// the member. All other members keep their bytes.
func edit(object []byte, replace map[string][]byte) []byte {
	out := []byte{'{'}
	jsonscan.Members(object, jsonscan.SkipSpace(object, 0), func(key []byte, at jsonscan.Span) {
		value, ok := replace[jsonscan.Unescape(key)]
		if !ok {
			value = at.Of(object)
		}
		if value == nil {
			return
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(append(out, '"'), key...), `":`...), value...)
	})
	return append(out, '}')
}

// flattened returns the line for a copy of the session that has its whole history in one file.
func (m *meta) flattened() []byte {
	payload := edit(m.field("payload"), map[string][]byte{"history_base": nil, "forked_from_id": nil, "forked_from_ordinal_exclusive": nil})
	return append(edit(m.line, map[string][]byte{"ordinal": []byte("0"), "payload": payload}), '\n')
}

// movedTo returns the line for a copy of the session with another id. The copy is in another directory
// unless dir is "".
func (m *meta) movedTo(session segno.SessionID, dir string) []byte {
	id := quote(string(session))
	replace := map[string][]byte{"id": id}
	if jsonscan.Text(m.field("payload", "session_id")) == m.id { // otherwise it is the session of a parent agent
		replace["session_id"] = id
	}
	if dir != "" && dir != m.dir {
		replace["cwd"] = quote(dir)
		if roots := m.field("payload", "runtime_workspace_roots"); roots != nil {
			replace["runtime_workspace_roots"] = replaceText(roots, m.dir, dir)
		}
	}
	return append(edit(m.line, map[string][]byte{"payload": edit(m.field("payload"), replace)}), '\n')
}

// replaceText replaces the strings in an array that are equal to before.
func replaceText(array []byte, before, after string) []byte {
	var out [][]byte
	jsonscan.Elements(array, 0, func(at jsonscan.Span) {
		value := at.Of(array)
		if jsonscan.RawText(value) != nil && jsonscan.Text(value) == before {
			value = quote(after)
		}
		out = append(out, value)
	})
	return append(append([]byte{'['}, bytes.Join(out, []byte{','})...), ']')
}

// quote encodes a text as JSON.
func quote(s string) []byte {
	text, _ := segno.Encode(strings.ToValidUTF8(s, "\uFFFD")) // a string always encodes
	return text
}

// fileName returns the path, relative to the home, at which Codex would have created the session. It
// contains the time of the session, so that a repeated cut finds the file of the first one.
func (m *meta) fileName(session segno.SessionID) string {
	at := m.time.UTC()
	return at.Format(dirSessions+"/2006/01/02/"+namePrefix+nameTime+"-") + string(session) + ".jsonl"
}
