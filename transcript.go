package segno

import "context"

// Source is where an agent keeps a session.
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
	Offset  int64     `json:"offset"`         // bytes of the transcript up to and including it, whole lines
	SHA256  Hash      `json:"sha256,omitzero"`
	// Digest is the state of the running SHA-256 at Offset, so that the next
	// capture hashes only new bytes.
	Digest   []byte `json:"digest,omitempty"`
	Log      Hash   `json:"log,omitzero"`      // the object that lists those bytes
	Sidecars Hash   `json:"sidecars,omitzero"` // the object that lists the session's other files
	Version  string `json:"version,omitempty"` // of the agent
}

// Captured is the result of a capture.
type Captured struct {
	Position Position
	// Prompt is the record that began the newest turn, and Follows its parent in the
	// conversation: the leaf of the turn before, unless the user went back to an older
	// record first. Both are "" if there was no new turn.
	Prompt  string
	Follows string
	Key     TurnKey // the agent's id of that prompt, or ""
	Text    string  // the text of the prompt
	// Earlier are the completed turns before the newest one that the capture
	// read, oldest first. Only the first capture of an older session has some.
	Earlier []TranscriptTurn
	// Origin is set if the transcript begins with another session's records.
	Origin *Origin
	// Damage lists lines that could not be read, at most ten of them.
	Damage []Damage
}

// TranscriptTurn is one completed turn as the agent recorded it.
type TranscriptTurn struct {
	Key      TurnKey // the agent's id of the prompt, or ""
	Prompt   string
	Position Position
	Entries  []Entry // messages and tool calls, if the transcript cannot be read later
}

// Origin is where an unknown session came from.
type Origin struct {
	Leaf string // the last record shared with a known session
}

// Damage is one line of a transcript that could not be read.
type Damage struct {
	Line   int
	Offset int64
	Why    string
}

// Target is the session that a cut makes.
type Target struct {
	Session SessionID // the new session's id
	Dir     string    // the directory it will run in
	// Yield makes it older than the source, so that an agent's "continue the
	// newest session" still finds that one.
	Yield bool
}

// Transcript reads and writes one agent's session files. It only ever adds
// sessions; a file that may be an agent's is never edited. transcript implements
// it, one type per agent. All methods may be called at once.
type Transcript interface {
	// Agent is the agent's name in links and checkpoints.
	Agent() string
	// Find returns where a session is kept, wherever it runs: [KindNotFound] if
	// the agent has no such session.
	Find(ctx context.Context, session SessionID) (Source, error)
	// Capture puts the bytes of the transcript and its sidecars after prev into b
	// and returns the position of the last complete record. prev may be nil. A
	// file that no longer begins with prev's bytes is captured whole.
	Capture(ctx context.Context, src Source, prev *Position, b Batch, known func(leaf string) bool) (Captured, error)
	// EndsAt reports whether src ends exactly at p, so that resuming it continues
	// from p.
	EndsAt(ctx context.Context, src Source, p Position) (bool, error)
	// Cut writes a new session that ends at p and returns it. Its bytes come
	// from the agent's file while that still begins with p's, else from o.
	Cut(ctx context.Context, p Position, to Target, o Objects) (Source, error)
	// CaptureCut puts the new bytes of a session that Cut wrote from of into b and
	// returns the position at its end, as Capture without a prev does. The log of the
	// position may refer to the log of of, which is in o, so that the bytes put do not
	// grow with the session. It returns the same errors as Capture.
	CaptureCut(ctx context.Context, src Source, of Position, o Objects, b Batch) (Position, error)
	// Relocate makes a session usable in another directory.
	Relocate(ctx context.Context, src Source, dir string) (Source, error)
	// Resume is the command that continues a session, to be run in its Dir.
	Resume(src Source) []string
	// Trace calls visit for each object p reaches.
	Trace(ctx context.Context, p Position, o Objects, visit func(Hash) bool) error
}
