package segno

import "context"

// Source tells where an agent stores a session.
type Source struct {
	Session SessionID `json:"session"`
	Path    string    `json:"path"` // the transcript file; may be "" if only the session is known
	Dir     string    `json:"dir"`  // the directory the session runs in
}

// Position is a checkpoint's session tier: a place in an agent's transcript, and
// the bytes up to it as objects in the store.
type Position struct {
	Agent   string    `json:"agent"`
	Session SessionID `json:"session"`
	Dir     string    `json:"dir"`
	Path    string    `json:"path"`
	Leaf    string    `json:"leaf,omitempty"` // the last record of the conversation; "" before the first prompt
	Offset  int64     `json:"offset"`         // the length of the transcript up to and including Leaf, in whole lines
	SHA256  Hash      `json:"sha256,omitzero"`
	// Digest is the state of the running SHA-256 at Offset, so that the next
	// capture hashes only new bytes.
	Digest   []byte `json:"digest,omitempty"`
	Log      Hash   `json:"log,omitzero"`      // the object that lists these bytes
	Sidecars Hash   `json:"sidecars,omitzero"` // the object that lists the session's other files
	Version  string `json:"version,omitempty"` // the agent's version
}

// Captured is the result of a capture.
type Captured struct {
	Position Position
	// Prompt is the record that began the newest turn. Follows is the parent of Prompt in the
	// conversation: the last record of the turn before, unless the user first went back to an
	// older record. Both are "" if there was no new turn.
	Prompt  string
	Follows string
	Key     TurnKey // the agent's id of that prompt, or ""
	Text    string  // the text of the prompt
	// Earlier are the completed turns that the capture read before the newest one, oldest
	// first. Only the first capture of an older session finds any.
	Earlier []TranscriptTurn
	// Origin is set if the transcript begins with another session's records.
	Origin *Origin
	// HasNewSidecars is set if one of the session's other files is new or has changed since prev.
	HasNewSidecars bool
	// Damage lists lines that could not be read, at most ten of them.
	Damage []Damage
}

// TranscriptTurn is one completed turn as the agent recorded it.
type TranscriptTurn struct {
	Key      TurnKey // the agent's id of the prompt, or ""
	Prompt   string
	Position Position
	Entries  []Entry // messages and tool calls, if the transcript cannot be read again
}

// Origin is the origin of an unknown session.
type Origin struct {
	Leaf string // the last record shared with a known session
}

// Damage is one line of a transcript that could not be read.
type Damage struct {
	Line   int
	Offset int64
	Why    string
}

// Target describes the session that a cut makes.
type Target struct {
	Session SessionID // the new session's id
	Dir     string    // the directory it will run in
	// Yield makes the session older than its source, so that an agent that continues its newest
	// session still picks the source.
	Yield bool
}

// Transcript reads and writes the session files of one agent. It only adds sessions and never
// edits a file that an agent may use. The packages below transcript implement it, one for each
// agent. All methods may be called concurrently.
type Transcript interface {
	// Agent returns the agent's name in links and checkpoints.
	Agent() string
	// Find returns the location of a session, in whichever directory it runs. The error has
	// [KindNotFound] if the agent does not have the session.
	Find(ctx context.Context, session SessionID) (Source, error)
	// Capture puts the bytes of the transcript and its sidecars after prev into b and returns
	// the position of the last complete record. prev may be nil. If the file no longer begins
	// with the bytes of prev, Capture captures the whole file.
	Capture(ctx context.Context, src Source, prev *Position, b Batch, known func(leaf string) bool) (Captured, error)
	// EndsAt reports whether src ends exactly at p, so that resuming it continues
	// from p.
	EndsAt(ctx context.Context, src Source, p Position) (bool, error)
	// Cut writes a new session that ends at p and returns it. The bytes come from the agent's
	// file if that still begins with the bytes of p, else from o.
	Cut(ctx context.Context, p Position, to Target, o Objects) (Source, error)
	// CaptureCut puts the new bytes of a session that Cut wrote from of into b. It returns the
	// position at the end of the session, as Capture does if prev is nil. The log of that
	// position may refer to the log of the position of, which is in o. The number of bytes put
	// therefore does not grow with the session. CaptureCut returns the same errors as Capture.
	CaptureCut(ctx context.Context, src Source, of Position, o Objects, b Batch) (Position, error)
	// Relocate makes a session usable in another directory.
	Relocate(ctx context.Context, src Source, dir string) (Source, error)
	// Resume returns the command that continues a session. The caller runs it in the session's
	// Dir.
	Resume(src Source) []string
	// Trace calls visit for each object that p reaches.
	Trace(ctx context.Context, p Position, o Objects, visit func(Hash) bool) error
}
