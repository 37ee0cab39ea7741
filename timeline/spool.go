package timeline

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/dalsegno/segno"
)

// Spool keeps open turns, deferred commits and the plan of a move in progress: small files
// beside the store, so that a hook at a tool call needs no database. Package internal/local/spool
// implements it. All methods may be called concurrently, by many processes.
type Spool interface {
	// SaveTurn saves an open turn durably. If the key exists, SaveTurn replaces the turn and
	// keeps its entries. From then on, events under its EventKey belong to the turn.
	SaveTurn(ctx context.Context, t OpenTurn) error
	// AppendEntry appends an entry with one write, which is not synced. Entries that arrive
	// before SaveTurn, or after DeleteTurn, stay until the next SaveTurn or DeleteTurn of the
	// key.
	AppendEntry(ctx context.Context, key segno.TurnKey, e segno.Entry) error
	// Turns returns the open turns, oldest first.
	Turns(ctx context.Context) ([]OpenTurn, error)
	// Entries returns a turn's entries in the order in which they were recorded, and the number
	// of lines that could not be read. If messages have the same id, it returns only the last
	// one, at the place of the first.
	Entries(ctx context.Context, key segno.TurnKey) ([]segno.Entry, int, error)
	// AppendSaved appends the states of files after a call with one write, which is not synced.
	// It appends nothing if the turn has saved too much already.
	AppendSaved(ctx context.Context, key segno.TurnKey, c SavedCall) error
	// SavedCalls yields the calls that AppendSaved appended, in order. It leaves out those that
	// cannot be read.
	SavedCalls(ctx context.Context, key segno.TurnKey) iter.Seq2[SavedCall, error]
	// DeleteTurn deletes a turn, its entries and its saved calls.
	DeleteTurn(ctx context.Context, key segno.TurnKey) error
	// SetAside keeps the file of a turn that is no longer open.
	SetAside(ctx context.Context, key segno.TurnKey) error
	// Defer stores commits for which the store was busy, in order. They are durable on return.
	Defer(ctx context.Context, commits []segno.Commit) error
	// ListDeferred returns the deferred commits, oldest first.
	ListDeferred(ctx context.Context) ([]segno.Commit, error)
	// ReplayDeferred calls apply for each deferred commit, oldest first, and deletes those for
	// which it returns nil. Only one process replays at a time.
	ReplayDeferred(ctx context.Context, apply func(segno.Commit) error) error

	// KeepRequested makes a requested move durable. It replaces another one of the thread.
	KeepRequested(ctx context.Context, q Requested) error
	// ListRequested returns the requested moves of a workspace.
	ListRequested(ctx context.Context, id segno.WorkspaceID) ([]Requested, error)
	// ClearRequested deletes the requested move of a thread.
	ClearRequested(ctx context.Context, q Requested) error

	// KeepBase makes a base durable. It replaces an older base of the workspace.
	KeepBase(ctx context.Context, b Base) error
	// Base returns the base of a workspace, or nil.
	Base(ctx context.Context, id segno.WorkspaceID) (*Base, error)

	// Lock gives the caller the exclusive right to snapshot or move a workspace, until the
	// caller calls unlock. If the lock is not free before ctx ends, the error has
	// [segno.KindBusy].
	Lock(ctx context.Context, id segno.WorkspaceID) (unlock func(), err error)
	// WritePlan makes the plan of a move durable, so that the next operation can complete
	// the move if this process ends.
	WritePlan(ctx context.Context, id segno.WorkspaceID, plan json.RawMessage) error
	// ReadPlan returns the plan, or nil if no move is in progress.
	ReadPlan(ctx context.Context, id segno.WorkspaceID) (json.RawMessage, error)
	// ClearPlan deletes the plan.
	ClearPlan(ctx context.Context, id segno.WorkspaceID) error
}

// Base is the state of a workspace at the moment at which an agent was enabled there. No commit
// contains it.
type Base struct {
	Snapshot segno.Snapshot `json:"snapshot"`
	Time     time.Time      `json:"time"`
}

// Process is the process of an open turn. When the process ends, so does the turn.
type Process struct {
	PID      int    `json:"pid,omitempty"`       // of the agent or the owner; 0 if unknown
	PIDStart string `json:"pid_start,omitempty"` // its start; distinguishes it from a later process with this pid
	Machine  string `json:"machine,omitempty"`   // the machine and the PID namespace, such as a container; "" if unknown
	// Group is the process group in which the owner runs the agent, and GroupStart the time at
	// which the leader of the group started. If the owner has exited, the group must be ended
	// before another process continues the session.
	Group      int    `json:"group,omitempty"`
	GroupStart string `json:"group_start,omitempty"`
}

// OpenTurn is a turn that has begun and has not ended.
type OpenTurn struct {
	Key       segno.TurnKey     `json:"key"`
	Thread    segno.ThreadID    `json:"thread,omitempty"` // "" while the session's thread is not known
	Parent    segno.CommitID    `json:"parent,omitempty"` // the head on which it began; "" if Thread is ""
	Agent     string            `json:"agent"`
	Source    segno.Source      `json:"source"`
	Workspace segno.WorkspaceID `json:"workspace"`
	Prompt    string            `json:"prompt"`
	Before    *segno.Snapshot   `json:"before,omitempty"` // the workspace when it began
	Staged    segno.Staged      `json:"staged,omitzero"`  // its objects, if the store was too busy to accept them
	Start     time.Time         `json:"start"`
	Rules     bool              `json:"rules,omitempty"` // the workspace had a .segnoignore when it began
	Note      string            `json:"note,omitempty"`  // the note that the agent got at its beginning
	// Owner, if set, holds the lease on the thread and records the turn. Hooks that run
	// meanwhile only add entries for tool calls.
	Owner string `json:"owner,omitempty"`
	Process

	// Ended is the checkpoint of a turn that has ended while its Tasks still run. Awake is set
	// while the agent answers a report of a task. The report arrived under a separate key, one
	// of Also. Noted is the number of the turn's entries that the checkpoint contains.
	Ended segno.CommitID  `json:"ended,omitempty"`
	Tasks []Task          `json:"tasks,omitempty"`
	Awake bool            `json:"awake,omitempty"`
	Also  []segno.TurnKey `json:"also,omitempty"`
	Noted int             `json:"noted,omitempty"`
	// BeforeTime is set if no snapshot could be made when the turn began: Before is then an older state, of this time.
	BeforeTime time.Time `json:"before_time,omitzero"`
	// Moved is the newest move that was made during the turn and that Before includes.
	Moved segno.OperationID `json:"moved,omitempty"`
	// Queued is set if the turn's prompt waited in the agent's queue when the previous turn
	// ended. The events of the turn do not have its key: they have the key of the previous turn,
	// or one that the agent chooses later.
	Queued bool `json:"queued,omitempty"`
	// EventKey is the key of the previous turn, if the events of this queued turn have it. The previous turn may still have
	// tasks in the background.
	EventKey segno.TurnKey `json:"event_key,omitempty"`
	// Beside is set for a turn of a Go agent if another thread worked in the workspace while the turn's process was dead.
	Beside bool `json:"beside,omitempty"`
	// Left are turns that were open when this turn of a Go agent began, although their processes had ended. Only their recorders can end them.
	Left []segno.TurnKey `json:"left,omitempty"`
}
