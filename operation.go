package segno

import "time"

// Operation is a change that a user made to a workspace and its thread. Turns are not
// operations.
type Operation struct {
	ID        OperationID `json:"id"`
	Workspace WorkspaceID `json:"workspace"`
	Thread    ThreadID    `json:"thread"`
	Verb      Verb        `json:"verb"`
	Args      string      `json:"args,omitempty"` // as the user would type them
	Time      time.Time   `json:"time"`
	Before    Pointers    `json:"before"`
	After     Pointers    `json:"after"`
	Undoes    OperationID `json:"undoes,omitempty"`   // for an op undo: the operation that it undid
	Pin       *Pin        `json:"pin,omitempty"`      // for a pin or unpin: the new names
	Unpinned  string      `json:"unpinned,omitempty"` // the names that the pin had before
	Forked    ThreadID    `json:"forked,omitempty"`   // for a fork: the new thread
	// Actor is the program through which the user or an agent asked for it: one of the actors below, the name of an
	// agent, or the name that a client of the HTTP API or of segno mcp gives itself. It is "" in operations of earlier versions.
	Actor string `json:"actor,omitempty"`
}

// Verb is the kind of an operation.
type Verb string

// The verbs.
const (
	VerbUndo    Verb = "undo"
	VerbRedo    Verb = "redo"
	VerbRestore Verb = "restore"
	VerbFork    Verb = "fork"
	VerbPin     Verb = "pin"
	VerbUnpin   Verb = "unpin"
	VerbSwitch  Verb = "switch"
	VerbOpUndo  Verb = "op undo"
)

// The actors of operations, beside the names of agents.
const (
	ActorCommand = "command line"
	ActorPage    = "page" // the page of segno web
	ActorHTTP    = "HTTP API"
	ActorGo      = "Go program"
	ActorACP     = "ACP client"
	ActorChat    = "segno chat"
	ActorMCP     = "MCP client" // one that has no name
)

// Pointers is everything that an operation can move: a thread's pointers, its head session and
// the files.
type Pointers struct {
	Head    CommitID  `json:"head"`
	Tip     CommitID  `json:"tip"`
	Session SessionID `json:"session,omitempty"`
	Tree    Hash      `json:"tree,omitzero"`
}

// MovesFiles reports whether o moved a thread or files, so that an undo of o moves them, too.
// Pins and forks move neither.
func (o *Operation) MovesFiles() bool { return o.Pin == nil && o.Forked == "" }
