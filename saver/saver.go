// Package saver saves, loads and lists the state of a Go program that runs its own agent
// loop, on any store, with history, undo, redo, restore and forks.
package saver

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/dalsegno/segno"
)

// Saver is the small interface through which a Go agent saves its state. [New] returns one for
// any [segno.Store]. All methods may be called concurrently.
type Saver interface {
	// Save stores s as the newest checkpoint of its thread and returns it with its
	// ID. It is durable on return; see [StoreSaver.Durability]. If several writers save onto the same checkpoint, one
	// wins, and the others get [segno.KindConflict] with a [segno.ConflictError].
	Save(ctx context.Context, s Snapshot) (Snapshot, error)
	// Load returns the newest checkpoint of a thread. The error has [segno.KindNotFound] only
	// if there is none, and [segno.KindCorrupt] if there is one and it cannot be read.
	Load(ctx context.Context, at ThreadKey) (Snapshot, error)
	// List yields the threads that have a checkpoint in a namespace, the most
	// recently saved first, without their states.
	List(ctx context.Context, namespace string) iter.Seq2[Info, error]
	// Delete hides a thread with all its namespaces, or only the namespace of at. Commits
	// that a fork reaches remain. From then on, Save refuses the names that it hid, but not that of a namespace which
	// did not exist yet: a program that deletes a thread must first stop those that save it. It is not an error if the
	// thread does not exist.
	Delete(ctx context.Context, at ThreadKey) error
	// Exists reports whether Load would find a checkpoint.
	Exists(ctx context.Context, at ThreadKey) (bool, error)
}

// Snapshot is a checkpoint in the form that a saver's caller uses.
type Snapshot struct {
	ThreadKey
	// ID is the checkpoint's id. In the argument of Save it names the parent: leave it as
	// Load or Save returned it. "" means that the thread has no checkpoint yet.
	ID segno.CommitID `json:"id,omitempty"`
	// Step counts the saves of a line. If it is not above the parent's Step, Save sets it to the
	// next number, so the caller need not count.
	Step int `json:"step"`
	// Messages are the whole conversation. Save compares them with the messages of
	// the checkpoint that ID names and stores them from the first difference on. The
	// older checkpoint is unchanged. [StoreSaver.Append] does not compare.
	Messages []json.RawMessage `json:"messages,omitempty"`
	// State contains all other values of the program. Save stores only those that differ from the
	// values of the checkpoint that ID names.
	State map[string]json.RawMessage `json:"state,omitempty"`
	// Interrupts are the open questions, each with a unique id. Save stores new ones, and
	// Decisions answer them. A decision about a question that is not open is a
	// [segno.KindConflict].
	Interrupts []segno.Interrupt `json:"interrupts,omitempty"`
	Decisions  []segno.Decision  `json:"decisions,omitempty"`
	// Writes are, by branch, the writes that [StoreSaver.SaveWrites] kept for the step that follows
	// this checkpoint. These branches need not run again. Load sets them, and Save ignores them.
	Writes map[string][]Write `json:"writes,omitempty"`
	// Aside lets a saver continue an older checkpoint without moving the thread. Save then leaves the
	// thread's head where it is, and the new checkpoint begins or continues a line beside it. Set it on
	// a snapshot that [StoreSaver.At] returned. Load does not find that line; At does, and
	// [StoreSaver.Restore] moves the thread there. For an agent's thread, use a fork instead: an agent
	// would ask the thread's open questions again.
	Aside bool `json:"aside,omitempty"`
	// Meta is the program's own data for finding the checkpoint. The next save has the same
	// Meta unless the caller changes it.
	Meta    map[string]string `json:"meta,omitempty"`
	Created time.Time         `json:"created,omitzero"` // when the thread was first saved
	Updated time.Time         `json:"updated,omitzero"` // when this checkpoint was

	base *base // of the checkpoint ID, so that Save need not load it
}

// Info describes a thread in a list, without its state.
type Info struct {
	ThreadKey
	ID      segno.CommitID `json:"id"`
	Step    int            `json:"step"`
	Created time.Time      `json:"created"`
	Updated time.Time      `json:"updated"`
}
