package segno

import (
	"slices"
	"strings"
)

// Commit is one atomic change to a thread: either all of it becomes durable or none of it. A commit with
// entries or a checkpoint is a node of the thread's tree, a child of Parent. Any other commit only moves
// pointers.
type Commit struct {
	// ID is the idempotency key. A store applies a commit once and returns the same result if it gets the
	// commit again. A different commit with the same ID is a [KindConflict].
	ID     CommitID `json:"id"`
	Thread ThreadID `json:"thread"`
	// Create makes the thread. Its ID must be Thread, and Expect must be "".
	Create *Thread `json:"create,omitempty"`
	// Parent is the commit that this one follows: usually the head. It is an older commit for a new line, a
	// commit of another thread for the first commit of a fork, and "" for the root of a tree.
	Parent CommitID `json:"parent,omitempty"`
	// Expect is the head that the writer read. If the thread's head has moved since, the store writes
	// nothing and returns a [ConflictError] with the actual head.
	Expect CommitID `json:"expect,omitempty"`
	// Epoch is the epoch of the [Head] that the writer read. The store refuses an epoch below the thread's
	// with [KindFenced].
	Epoch uint64 `json:"epoch,omitempty"`

	Entries    []Entry     `json:"entries,omitempty"`
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"` // its ID, Thread, Parent and Seq are filled in by the store
	Staged     Staged      `json:"staged"`               // new objects, from a [Batch] of the same store
	Needs      []Hash      `json:"needs,omitempty"`      // objects that must exist once Staged is in, else [KindNotFound]

	// Move sets the head and the tip. If Move is nil, a node becomes both, and any other commit leaves them
	// unchanged.
	Move      *Move           `json:"move,omitempty"`
	Link      *Link           `json:"link,omitempty"`      // joins the chain; unless Detached, becomes the head session and ends the one before
	Workspace *WorkspaceState `json:"workspace,omitempty"` // the new state of the workspace
	Operation *Operation      `json:"operation,omitempty"` // is added to the log of its workspace
	Pin       *Pin            `json:"pin,omitempty"`

	// Durability is not part of the change: [Commit.Digest] does not cover it, a repeated commit stays as durable as its
	// first try made it, and a commit that was deferred is [Synced].
	Durability Durability `json:"-"`
}

// Durability is the moment at which a commit is safe from a power failure. The zero value is the safe one.
type Durability int

const (
	// Synced means that the commit is on disk before Commit returns.
	Synced Durability = iota
	// Batched allows a store to return before the commit is on disk, so that the disk syncs several commits together.
	// The commit is visible at once and survives the end of every process, also a kill. A power failure or a crash of
	// the operating system may remove the newest Batched commits of all threads. Those that remain are whole, and none
	// of them is newer than one that was removed. Every later Synced commit to the store makes them durable. Only
	// package store/sqlite returns earlier; for the other stores, Batched is Synced.
	//
	// It suits a program that can repeat its last steps. Do not use it if the program acts on a commit in a way that
	// outlives it, such as a call to another system or a write to a file.
	Batched
)

// IsNode reports whether c becomes a node of the thread's tree.
func (c *Commit) IsNode() bool { return len(c.Entries) > 0 || c.Checkpoint != nil }

// Move is the new head and tip of a thread. [Self] stands for the commit that
// contains the move.
type Move struct {
	Head CommitID `json:"head"`
	Tip  CommitID `json:"tip"`
}

// Self in a [Move] is the id of the commit itself.
const Self CommitID = "."

// Pin protects the checkpoint of an earlier commit from every collection. Name holds all names of the pin,
// see [PinNames]; an empty Name removes the pin.
type Pin struct {
	Checkpoint CommitID `json:"checkpoint"`
	Name       string   `json:"name,omitempty"`
}

// pinSeparator separates the names of a pin. A name that a user can type does not contain it.
const pinSeparator = "\x00"

// PinNames returns the names in the Label of a checkpoint that
// [CheckpointQuery.Pinned] found: a checkpoint may have several.
func PinNames(label string) []string {
	if label == "" {
		return nil
	}
	return strings.Split(label, pinSeparator)
}

// WithPinName adds a name to the names in label, unless it is one of them.
func WithPinName(label, name string) string {
	if names := PinNames(label); !slices.Contains(names, name) {
		return strings.Join(append(names, name), pinSeparator)
	}
	return label
}
