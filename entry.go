package segno

import (
	"encoding/json"
	"time"
)

// Entry is one record in a thread's log.
type Entry struct {
	Kind    EntryKind       `json:"kind"`
	Turn    int             `json:"turn"`
	Session SessionID       `json:"session,omitempty"`
	Time    time.Time       `json:"time"`
	ID      string          `json:"id,omitempty"`   // binds a result to its intent, a decision to its interrupt, the parts of a message
	Name    string          `json:"name,omitempty"` // the tool, or the author of a message
	Body    json.RawMessage `json:"body,omitempty"`
}

// EntryKind is the kind of an [Entry].
type EntryKind string

// The kinds of entry.
const (
	EntryMessage   EntryKind = "message"
	EntryIntent    EntryKind = "intent" // a tool call, before its effect
	EntryResult    EntryKind = "result" // the same call, after it
	EntryLink      EntryKind = "link"
	EntryInterrupt EntryKind = "interrupt"
	EntryDecision  EntryKind = "decision"
	EntrySignal    EntryKind = "signal" // a [Signal] to a Go agent's thread: Name is its name, ID its key, Body its value
	EntryNote      EntryKind = "note"
	EntryState     EntryKind = "state"  // a value of a Go agent's state: Name is its key; an entry without a Body deletes it
	EntryKeep      EntryKind = "keep"   // from here on, only the first Body of the earlier messages count
	EntryUsage     EntryKind = "usage"  // the cost of a model call
	EntryDoubt     EntryKind = "doubt"  // paths of a turn that another author may have changed: Body lists them, as bytes
	EntryOthers    EntryKind = "others" // paths that others changed while turns overlapped: Body lists them, as bytes
	// EntryUnnamed has paths that a tool of a turn wrote, and that changed otherwise while a command of it ran, or while the tool may have
	// run a formatter: Body lists them, as bytes.
	EntryUnnamed EntryKind = "unnamed"
)

// NotStarted is the body of a result that withdraws its intent: the call was cancelled
// before it began and had no effect, and the permission for it is still valid.
const NotStarted = `{"begun":false}`

// MaxUnclipped is the largest tool input or result, in bytes, that an entry stores unchanged.
// An entry stores only the head, the tail and the hash of a longer one; see [Clip].
const MaxUnclipped = 16 << 10

// Clipped replaces bytes longer than [MaxUnclipped] in an entry's body.
type Clipped struct {
	Head   string `json:"head"`
	Tail   string `json:"tail"`
	Bytes  int    `json:"bytes"`
	SHA256 Hash   `json:"sha256"`
}

// Clip returns raw if it has at most [MaxUnclipped] bytes, else a [Clipped] with the first 12
// KiB, the last 4 KiB, the length and the hash of raw.
func Clip(raw json.RawMessage) json.RawMessage {
	if len(raw) <= MaxUnclipped {
		return raw
	}
	const head, tail = 12 << 10, 4 << 10
	out, err := json.Marshal(map[string]Clipped{"clipped": {
		Head: string(raw[:head]), Tail: string(raw[len(raw)-tail:]), Bytes: len(raw), SHA256: HashOf(raw),
	}})
	if err != nil {
		panic("segno: internal error: a clipped body does not encode: " + err.Error())
	}
	return out
}
