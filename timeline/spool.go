package timeline

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dalsegno/segno"
)

// Spool keeps open turns, deferred commits and the plan of a move under way: small files
// beside the store, so that a hook at a tool boundary needs no database. Package
// internal/spool implements it. All methods may be called at once, by many processes.
type Spool interface {
	// SaveTurn saves an open turn, durably. Saving the same key again replaces the turn
	// and keeps its entries.
	SaveTurn(ctx context.Context, t OpenTurn) error
	// AppendEntry appends an entry with one write, which is not synced. Entries that come before
	// SaveTurn, or after DeleteTurn, wait for the next SaveTurn or DeleteTurn of the key.
	AppendEntry(ctx context.Context, key segno.TurnKey, e segno.Entry) error
	// Turns returns the open turns, oldest first.
	Turns(ctx context.Context) ([]OpenTurn, error)
	// Entries returns a turn's entries in the order they were noted, and the
	// number of lines that could not be read. Of messages with the same id only
	// the last one is returned, in the place of the first.
	Entries(ctx context.Context, key segno.TurnKey) ([]segno.Entry, int, error)
	// DeleteTurn deletes a turn and its entries.
	DeleteTurn(ctx context.Context, key segno.TurnKey) error
	// SetAside keeps the file of a turn, which is no longer open.
	SetAside(ctx context.Context, key segno.TurnKey) error
	// Defer keeps commits that found the store busy, in order. They are durable
	// on return.
	Defer(ctx context.Context, commits []segno.Commit) error
	// ListDeferred returns the deferred commits, oldest first.
	ListDeferred(ctx context.Context) ([]segno.Commit, error)
	// ReplayDeferred calls apply for each deferred commit, oldest first, and deletes
	// those for which it returns nil. One process at a time.
	ReplayDeferred(ctx context.Context, apply func(segno.Commit) error) error

	// KeepBase makes a base durable. It replaces an older one of the workspace.
	KeepBase(ctx context.Context, b Base) error
	// Base returns the base of a workspace, or nil.
	Base(ctx context.Context, id segno.WorkspaceID) (*Base, error)

	// Lock makes the caller the only one that snapshots or moves a workspace,
	// until unlock. It waits until ctx ends, then returns [segno.KindBusy].
	Lock(ctx context.Context, id segno.WorkspaceID) (unlock func(), err error)
	// WritePlan makes the plan of a move durable, so that the next operation can complete
	// the move if this process ends.
	WritePlan(ctx context.Context, id segno.WorkspaceID, plan json.RawMessage) error
	// ReadPlan returns the plan, or nil if no move is under way.
	ReadPlan(ctx context.Context, id segno.WorkspaceID) (json.RawMessage, error)
	// ClearPlan deletes the plan.
	ClearPlan(ctx context.Context, id segno.WorkspaceID) error
}

// Base is a state of a workspace that no commit has: that of the moment at which an agent was enabled
// there.
type Base struct {
	Snapshot segno.Snapshot `json:"snapshot"`
	Time     time.Time      `json:"time"`
}

// Process is the process of an open turn. The end of the process ends the turn.
type Process struct {
	PID      int    `json:"pid,omitempty"`       // of the agent or the owner, 0 if not known
	PIDStart string `json:"pid_start,omitempty"` // when it started; tells it from a later process with the same pid
	// Group is the process group in which the owner runs the agent, and GroupStart the time
	// at which the leader of the group started. If the owner is gone, the group must be
	// ended before another process continues the session.
	Group      int    `json:"group,omitempty"`
	GroupStart string `json:"group_start,omitempty"`
}

// OpenTurn is a turn that has begun and not ended.
type OpenTurn struct {
	Key       segno.TurnKey     `json:"key"`
	Thread    segno.ThreadID    `json:"thread,omitempty"` // "" while the session's thread is not known
	Parent    segno.CommitID    `json:"parent,omitempty"` // the head it began on; "" with Thread
	Agent     string            `json:"agent"`
	Source    segno.Source      `json:"source"`
	Workspace segno.WorkspaceID `json:"workspace"`
	Prompt    string            `json:"prompt"`
	Before    *segno.Snapshot   `json:"before,omitempty"` // the workspace when it began
	Staged    segno.Staged      `json:"staged,omitzero"`  // its objects, if the store was too busy to take them
	Start     time.Time         `json:"start"`
	Note      string            `json:"note,omitempty"` // the note that the agent got at its beginning
	// Owner, if set, holds the lease on the thread and records the turn. Hooks that run
	// meanwhile only add entries about tool calls.
	Owner string `json:"owner,omitempty"`
	Process

	// Ended is the checkpoint of a turn that has ended while its Tasks still run. Awake is set
	// while the agent answers a report of a task. The report came under a separate key, one
	// of Also. Noted is how many of the turn's entries the checkpoint has.
	Ended segno.CommitID  `json:"ended,omitempty"`
	Tasks []Task          `json:"tasks,omitempty"`
	Awake bool            `json:"awake,omitempty"`
	Also  []segno.TurnKey `json:"also,omitempty"`
	Noted int             `json:"noted,omitempty"`
	// Moved is the newest move that was made under the turn and that Before has.
	Moved segno.OperationID `json:"moved,omitempty"`
	// Queued is set if the turn's prompt waited in the agent's queue when the turn before
	// ended. The events of the turn do not have its key: they have the key of the turn before,
	// or one that the agent chooses later.
	Queued bool `json:"queued,omitempty"`
}
