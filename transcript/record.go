package transcript

import (
	"bytes"
	"encoding/json"
	"time"
)

// kind is the type of a record as far as it matters to the chain.
type kind uint8

const (
	kindOther kind = iota // no part of the conversation
	kindUser
	kindAssistant
	kindAttachment
	kindSystem
	kindProgress   // of old versions: stands in the chain and is skipped when reading it
	kindLastPrompt // points at the head
)

// speaks reports whether records of the kind are what the user or the agent said.
func (k kind) speaks() bool { return k == kindUser || k == kindAssistant }

// chains reports whether records of the kind make up the conversation.
func (k kind) chains() bool { return k >= kindUser && k <= kindSystem }

// record is one line as far as its top-level keys tell. Byte slices are the
// undecoded text between quotes, or a whole undecoded value, and point into the
// line.
type record struct {
	kind      kind
	typ       []byte
	subtype   []byte
	uuid      []byte
	parent    []byte // nil for null
	logical   []byte // the record before a compaction
	timestamp []byte
	promptID  []byte
	version   []byte
	cwd       []byte
	leaf      []byte // of a last-prompt, a summary
	messageID []byte // of a file-history-snapshot or -delta

	message    []byte // whole values
	forkedFrom []byte
	compact    []byte

	sidechain bool
	meta      bool
	summary   bool // isCompactSummary
	explicit  bool
	cleared   bool // the leaf is null
	submitted bool // carries a permission mode, as what a person submits does

	sessions []span // the texts of sessionId values
}

// span is a piece of a line.
type span struct{ from, to int }

// parse reads a line into r, whose slices then point into line. The line may end
// in a newline and begin with a byte order mark.
func (s *scanner) parse(line []byte, r *record) error {
	*r = record{sessions: r.sessions[:0]}
	i := space(line, skipMark(line))
	if i >= len(line) || line[i] != '{' {
		return syntaxError(i)
	}
	if i = space(line, i+1); i < len(line) && line[i] == '}' {
		return s.end(line, i+1)
	}
	for {
		name := i + 1
		next, ok := key(line, i)
		if !ok {
			return syntaxError(next)
		}
		from := space(line, next)
		to, err := s.value(line, from)
		if err != nil {
			return err
		}
		r.set(line, name, span{from, to})
		if i = space(line, to); i >= len(line) {
			return syntaxError(i)
		}
		switch line[i] {
		case '}':
			r.kind = kindOf(r.typ)
			return s.end(line, i+1)
		case ',':
			i = space(line, i+1)
		default:
			return syntaxError(i)
		}
	}
}

func (s *scanner) end(line []byte, i int) error {
	if i = space(line, i); i < len(line) {
		return syntaxError(i)
	}
	return nil
}

func skipMark(line []byte) int {
	if bytes.HasPrefix(line, []byte("\xef\xbb\xbf")) {
		return 3
	}
	return 0
}

func kindOf(typ []byte) kind {
	switch string(typ) {
	case "user":
		return kindUser
	case "assistant":
		return kindAssistant
	case "attachment":
		return kindAttachment
	case "system":
		return kindSystem
	case "progress":
		return kindProgress
	case "last-prompt":
		return kindLastPrompt
	}
	return kindOther
}

// set keeps the value at v if its key, whose text begins at name, is one that
// matters. A key that comes twice counts as what it says last.
func (r *record) set(line []byte, name int, v span) {
	value := line[v.from:v.to]
	switch string(line[name : name+bytes.IndexByte(line[name:], '"')]) {
	case "type":
		r.typ = quoted(value)
	case "subtype":
		r.subtype = quoted(value)
	case "uuid":
		r.uuid = quoted(value)
	case "parentUuid":
		r.parent = quoted(value)
	case "logicalParentUuid":
		r.logical = quoted(value)
	case "timestamp":
		r.timestamp = quoted(value)
	case "promptId":
		r.promptID = quoted(value)
	case "version":
		r.version = quoted(value)
	case "cwd", "relocatedCwd":
		r.cwd = quoted(value)
	case "leafUuid":
		r.leaf, r.cleared = quoted(value), string(value) == "null"
	case "messageId":
		r.messageID = quoted(value)
	case "message":
		r.message = value
	case "forkedFrom":
		r.forkedFrom = value
	case "compactMetadata":
		r.compact = value
	case "isSidechain":
		r.sidechain = string(value) == "true"
	case "isMeta":
		r.meta = string(value) == "true"
	case "isCompactSummary":
		r.summary = string(value) == "true"
	case "explicit":
		r.explicit = string(value) == "true"
	case "permissionMode":
		r.submitted = true
	case "sessionId":
		if quoted(value) != nil {
			r.sessions = append(r.sessions, span{v.from + 1, v.to - 1})
		}
	}
}

// boundary reports whether r is where a compaction begins.
func (r *record) boundary() bool {
	return r.kind == kindSystem && string(r.subtype) == "compact_boundary"
}

// time returns the record's time in milliseconds.
func (r *record) time() (int64, bool) {
	t, err := time.Parse(time.RFC3339Nano, string(r.timestamp))
	return t.UnixMilli(), err == nil
}

// quoted returns what stands between a string's quotes, nil for another value.
func quoted(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' {
		return nil
	}
	return value[1 : len(value)-1]
}

// plain decodes what [quoted] returned.
func plain(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	var out string
	quotes := append(append([]byte{'"'}, raw...), '"')
	if json.Unmarshal(quotes, &out) != nil {
		return string(raw)
	}
	return out
}
