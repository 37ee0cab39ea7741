package wire

import (
	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
)

// Commit is the form of a [segno.Commit] in a request. Records and names have their lossless encoding. Objects without
// data are objects that the server has received before.
type Commit struct {
	ID         segno.CommitID `json:"id"`
	Thread     segno.ThreadID `json:"thread"`
	Parent     segno.CommitID `json:"parent,omitempty"`
	Expect     segno.CommitID `json:"expect,omitempty"`
	Epoch      uint64         `json:"epoch,omitempty"`
	Create     []byte         `json:"create,omitempty"` // the record of the thread
	Entries    []byte         `json:"entries,omitempty"`
	Checkpoint []byte         `json:"checkpoint,omitempty"`
	Objects    []Object       `json:"objects,omitempty"`
	Needs      []segno.Hash   `json:"needs,omitempty"`
	Move       *segno.Move    `json:"move,omitempty"`
	Link       []byte         `json:"link,omitempty"`
	Pin        *Pin           `json:"pin,omitempty"`
	Workspace  *Item          `json:"workspace,omitempty"` // ID and State
	Operation  *Item          `json:"operation,omitempty"`
}

// MaxCommit is the size in bytes of the largest commit that a server accepts, as JSON. New objects travel before their commit if they
// are large together, so these bytes are entries and the names of objects.
const MaxCommit = 64 << 20

// Object is an object of a commit, with its bytes if it is new.
type Object struct {
	Name segno.Hash `json:"name"`
	New  bool       `json:"new,omitempty"`
	Data []byte     `json:"data,omitempty"`
}

// Pin is the form of a [segno.Pin].
type Pin struct {
	Checkpoint segno.CommitID `json:"checkpoint"`
	Name       []byte         `json:"name,omitempty"`
}

// NewCommit encodes a commit. The staged objects are those of a batch of package client, whose data are the plain bytes. It
// returns [segno.KindInvalid] for the packs of another store.
func NewCommit(c *segno.Commit) (*Commit, error) {
	w := &Commit{ID: c.ID, Thread: c.Thread, Parent: c.Parent, Expect: c.Expect, Epoch: c.Epoch, Needs: c.Needs, Move: c.Move}
	if c.Create != nil {
		if c.Create.ID != c.Thread {
			return nil, segno.Errorf(segno.KindInvalid, "commit", string(c.ID), "the thread it creates is not its thread")
		}
		w.Create = record.EncodeThread(c.Create)
	}
	if len(c.Entries) > 0 {
		w.Entries = record.EncodeEntries(c.Entries, false)
	}
	if c.Checkpoint != nil {
		w.Checkpoint = record.EncodeCheckpoint(c.Checkpoint, false)
	}
	for _, o := range c.Staged.Objects {
		w.Objects = append(w.Objects, Object{o.Name, o.Data != nil, o.Data})
	}
	if len(c.Staged.Packs) > 0 {
		return nil, segno.Errorf(segno.KindInvalid, "commit", string(c.ID), "its objects were staged in another store")
	}
	if c.Link != nil {
		w.Link = record.EncodeLink(c.Link)
	}
	if c.Pin != nil {
		w.Pin = &Pin{c.Pin.Checkpoint, []byte(c.Pin.Name)}
	}
	if c.Workspace != nil {
		w.Workspace = &Item{ID: string(c.Workspace.Workspace), State: record.EncodeState(c.Workspace)}
	}
	if c.Operation != nil {
		o := NewOperation(*c.Operation)
		w.Operation = &o
	}
	return w, nil
}

// Decode is the inverse of [NewCommit], except that the caller stages the new objects. The error is about the form of a
// record.
func (w *Commit) Decode() (c segno.Commit, err error) {
	c = segno.Commit{ID: w.ID, Thread: w.Thread, Parent: w.Parent, Expect: w.Expect, Epoch: w.Epoch, Needs: w.Needs, Move: w.Move}
	for _, o := range w.Objects {
		if !o.New {
			c.Staged.Objects = append(c.Staged.Objects, segno.Object{Name: o.Name})
		}
	}
	if w.Pin != nil {
		c.Pin = &segno.Pin{Checkpoint: w.Pin.Checkpoint, Name: string(w.Pin.Name)}
	}
	fields := []func() error{
		optional(w.Create, &c.Create, func(r []byte) (segno.Thread, error) { return record.DecodeThread(w.Thread, r) }),
		optional(w.Link, &c.Link, record.DecodeLink),
		func() (err error) {
			if w.Entries != nil {
				c.Entries, err = record.DecodeEntries(w.Entries)
			}
			return err
		},
		func() (err error) {
			if w.Checkpoint != nil {
				c.Checkpoint, err = record.DecodeCheckpoint(w.Checkpoint)
			}
			return err
		},
	}
	if w.Workspace != nil {
		fields = append(fields, optional(w.Workspace.State, &c.Workspace, func(r []byte) (segno.WorkspaceState, error) {
			return record.DecodeState(segno.WorkspaceID(w.Workspace.ID), r)
		}))
	}
	if w.Operation != nil {
		fields = append(fields, optional(w.Operation.Record, &c.Operation, func(_ []byte) (segno.Operation, error) { return DecodeOperation(w.Operation) }))
	}
	for _, decode := range fields {
		if err := decode(); err != nil {
			return c, err
		}
	}
	return c, nil
}

// optional returns a function that decodes a record into a field, if there is one.
func optional[T any](data []byte, field **T, decode func([]byte) (T, error)) func() error {
	return func() error {
		if data == nil {
			return nil
		}
		x, err := decode(data)
		*field = &x
		return err
	}
}
