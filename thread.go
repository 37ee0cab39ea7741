package segno

import (
	"context"
	"time"
)

// Thread is one unit of work: a tree of checkpoints with a head.
type Thread struct {
	ID           ThreadID    `json:"id"`
	Created      time.Time   `json:"created"`
	Title        string      `json:"title,omitempty"`     // the first prompt, or the name that the user gave
	Agent        string      `json:"agent,omitempty"`     // the agent that started it
	Workspace    WorkspaceID `json:"workspace,omitempty"` // where it started
	Parent       CommitID    `json:"parent,omitempty"`    // for a fork: the checkpoint of another thread that it begins at
	ParentThread ThreadID    `json:"of,omitempty"`        // the thread it is a part of: a subagent's run, a saver's namespace
	Name         string      `json:"name,omitempty"`      // its name within ParentThread
}

// Head is the position of a thread. A [Commit] compares and swaps it.
type Head struct {
	Thread ThreadID `json:"thread"`
	Head   CommitID `json:"head"`  // the current commit of the thread
	Tip    CommitID `json:"tip"`   // the newest commit that redo can reach
	Seq    int64    `json:"seq"`   // of the newest commit; an arrival order, with no other meaning
	Turn   int      `json:"turn"`  // the highest turn number ever used
	Epoch  uint64   `json:"epoch"` // the fencing epoch; see [Leaser]
	Link   Link     `json:"link"`  // the newest link of the chain: the head session
}

// Link is one session in a thread's chain.
type Link struct {
	Agent    string    `json:"agent"`
	Session  SessionID `json:"session"`
	Dir      string    `json:"dir,omitempty"`  // the directory the session runs in
	Path     string    `json:"path,omitempty"` // its transcript
	Start    time.Time `json:"start"`
	End      time.Time `json:"end,omitzero"`     // when the next link replaced it
	Reason   string    `json:"reason,omitempty"` // why it was opened: "start", "undo", "fork", "switch", …
	Fidelity Fidelity  `json:"fidelity,omitempty"`
	At       CommitID  `json:"at,omitempty"`       // the checkpoint it continues from
	Position *Position `json:"position,omitempty"` // for a session that was cut: where it ended at that time, in its own file
	Detached bool      `json:"aside,omitempty"`    // an additional session in which the user may continue; the head session stays
	Note     string    `json:"note,omitempty"`     // a note for the agent at the session's first prompt
}

// Fidelity is how exactly a session was continued.
type Fidelity string

// The fidelities, best first.
const (
	FidelityNative   Fidelity = "native"   // the agent's own session
	FidelityRebuilt  Fidelity = "rebuilt"  // a transcript written by segno, up to a complete turn
	FidelityPreamble Fidelity = "preamble" // a new session with a summary of the conversation
	FidelityNone     Fidelity = "none"     // a new session without any knowledge of the conversation
)

// Lease is the right to write to a thread until it expires.
type Lease struct {
	Thread  ThreadID  `json:"thread"`
	Owner   string    `json:"owner"`
	Epoch   uint64    `json:"epoch"`
	Expires time.Time `json:"expires"`
}

// FindThread returns the thread with exactly this id, and false if the store has none.
func FindThread(ctx context.Context, s Store, id ThreadID) (t Thread, ok bool, err error) {
	for t, err := range s.Threads(ctx, ThreadQuery{IDPrefix: string(id)}) {
		if err != nil || t.ID == id {
			return t, err == nil, err
		}
	}
	return Thread{}, false, nil
}
