package segno

import (
	"encoding/json"
	"time"
)

// Checkpoint is one saved moment of a thread. It never changes.
type Checkpoint struct {
	ID     CommitID       `json:"id"`
	Thread ThreadID       `json:"thread"`
	Parent CommitID       `json:"parent,omitempty"` // "" only for the root of a tree
	Seq    int64          `json:"seq"`              // arrival order in its thread; given by the store
	Kind   CheckpointKind `json:"kind"`
	Turn   int            `json:"turn"` // the turn it ends, or the last one before it; 0 where a tree begins
	Time   time.Time      `json:"time"`

	Step   int     `json:"step,omitempty"` // for a Go agent: the number of model calls of the line so far
	Agent  string  `json:"agent,omitempty"`
	Prompt string  `json:"prompt,omitempty"` // the prompt that began the turn, in full
	Label  string  `json:"label,omitempty"`  // a description by the user or by the verb that made it
	Key    TurnKey `json:"key,omitempty"`    // the key of the turn that it ends

	Interrupted bool     `json:"interrupted,omitempty"` // the turn did not end normally
	Shared      bool     `json:"shared,omitempty"`      // another thread's turn overlapped in the workspace
	Amends      CommitID `json:"amends,omitempty"`      // the checkpoint of the same turn that this one replaces

	Files Counts `json:"files"`           // the difference from the parent
	Shell int    `json:"shell,omitempty"` // shell calls in the turn

	Session   *Position           `json:"session,omitempty"`
	Workspace *Snapshot           `json:"workspace,omitempty"`
	State     *Document           `json:"state,omitempty"`
	World     *Document           `json:"world,omitempty"`
	Members   map[string]CommitID `json:"members,omitempty"` // the same cut in other threads

	Points Hash `json:"points,omitzero"` // an object with the states of files after calls of the turn, from hooks

	Meta map[string]string `json:"meta,omitempty"` // a program's own data, by which it can find the checkpoint
}

// CheckpointKind is the origin of a checkpoint.
type CheckpointKind string

// The kinds of checkpoint.
const (
	CheckpointBase     CheckpointKind = "base"     // where a thread begins
	CheckpointTurn     CheckpointKind = "turn"     // the end of a turn
	CheckpointStep     CheckpointKind = "step"     // one model call and its tools inside a turn
	CheckpointExternal CheckpointKind = "external" // changes the thread's agent did not make
	CheckpointSave     CheckpointKind = "save"     // the user saved it
	CheckpointRestore  CheckpointKind = "restore"  // one tier, or some paths, brought back from another checkpoint
	CheckpointCut      CheckpointKind = "cut"      // a program saved it, outside a turn
)

// Counts are the numbers of files that a checkpoint added, modified, deleted and no longer saves.
type Counts struct {
	Added    int `json:"added"`
	Modified int `json:"modified"`
	Deleted  int `json:"deleted"`
	// Protected is the number of files that exist but are no longer saved, because a rule now protects them
	// or because they cannot be saved.
	Protected int `json:"protected,omitempty"`
}

// IsZero reports whether nothing changed.
func (c Counts) IsZero() bool { return c == Counts{} }

// Document is an opaque tier: an object whose bytes have a format that only its writer knows.
type Document struct {
	Type string `json:"type"` // the format, with a version: "example.todo/2"
	Data Hash   `json:"data"`
}

// Tree returns the workspace snapshot's name, or the zero Hash if c pins none.
func (c *Checkpoint) Tree() Hash {
	if c == nil || c.Workspace == nil {
		return Hash{}
	}
	return c.Workspace.Tree
}

// Partial reports whether some files of the workspace, or attached databases, could not be saved.
func (c *Checkpoint) Partial() bool {
	return c.Workspace != nil && len(c.Workspace.Unread) > 0
}

// Clone returns a copy that shares nothing with c.
func (c *Checkpoint) Clone() (*Checkpoint, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	out := new(Checkpoint)
	return out, json.Unmarshal(data, out)
}

// Phase is the state of the newest turn of a thread's line, derived from its commits. Only the lease shows
// whether a run is at work; see [Leaser].
type Phase uint8

// The phases. Stores keep the numbers.
const (
	PhaseUnknown Phase = iota // the newest commits do not show it
	PhaseDone                 // the turn is over, or there was none; for a saver's thread: nothing waits
	PhaseOpen                 // the turn is not over
	PhaseWaiting              // the turn is not over and waits for decisions
)
