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

// Saver is the small interface a Go agent saves through. [New] makes one of
// any [Store]. All methods may be called at once.
type Saver interface {
	// Save stores s as the newest checkpoint of its thread and returns it with its
	// ID. It is durable on return. Of several writers that stand on the same
	// checkpoint one wins; the others get [KindConflict] with a [ConflictError].
	Save(ctx context.Context, s Snapshot) (Snapshot, error)
	// Load returns the newest checkpoint of a thread; [KindNotFound] if there is
	// none, [KindCorrupt] if there is and it cannot be read: never the one for the
	// other.
	Load(ctx context.Context, at ThreadKey) (Snapshot, error)
	// List yields the threads that have saved something in a namespace, the most
	// recently saved first, without their states.
	List(ctx context.Context, namespace string) iter.Seq2[Info, error]
	// Delete removes a thread from sight: every namespace of it, or with one only
	// that. What a fork of it reaches stays, and its name is not used again: Save
	// refuses it. A thread that is not there is no error.
	Delete(ctx context.Context, at ThreadKey) error
	// Exists reports whether Load would find something.
	Exists(ctx context.Context, at ThreadKey) (bool, error)
}

// Snapshot is a checkpoint as a saver's user sees it.
type Snapshot struct {
	ThreadKey
	// ID is the checkpoint's. In what Save is given it names the checkpoint this
	// one follows: leave it as Load or Save returned it. "" says there is none yet.
	ID segno.CommitID `json:"id,omitempty"`
	// Step counts the saves of a line. One that is not above that of the checkpoint
	// it follows becomes the next one, so that it need not be counted.
	Step int `json:"step"`
	// Messages are the whole conversation. Save compares them with those of the
	// checkpoint that ID names and stores the ones from the first difference on; the
	// older checkpoint keeps its own. Kept is how many messages the checkpoint ID
	// has. Load and Save return it; Save ignores it.
	Messages []json.RawMessage `json:"messages,omitempty"`
	Kept     int               `json:"-"`
	// State is whatever else there is. Of a value that is as it was in the
	// checkpoint ID names nothing is stored.
	State map[string]json.RawMessage `json:"state,omitempty"`
	// Interrupts are questions without an answer, each with an id of its own. Save
	// stores those it has not seen; Decisions answer them. A decision on what does
	// not wait is a [KindConflict].
	Interrupts []segno.Interrupt `json:"interrupts,omitempty"`
	Decisions  []segno.Decision  `json:"decisions,omitempty"`
	// Meta is what it can be found by. It is saved as it is given: the next save has
	// it again unless it is changed.
	Meta    map[string]string `json:"meta,omitempty"`
	Created time.Time         `json:"created,omitzero"` // when the thread was first saved
	Updated time.Time         `json:"updated,omitzero"` // when this checkpoint was

	base *base // what ID holds, so that Save need not load it
}

// Info is what a list tells of a thread without loading it.
type Info struct {
	ThreadKey
	ID      segno.CommitID `json:"id"`
	Step    int            `json:"step"`
	Created time.Time      `json:"created"`
	Updated time.Time      `json:"updated"`
}
