// Package wire defines the form in which the HTTP API sends the records of a store. A list is lines
// of JSON, each an [Item]. The last line has End or Problem set, so that a reader can detect a
// truncated list. The records have the lossless encoding of package record, because JSON would change
// bodies and texts that are not UTF-8.
package wire

import (
	"errors"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
)

// Item is one line: a record, with the ids that the encoded record does not contain.
type Item struct {
	ID        string `json:"id,omitempty"`
	Thread    string `json:"thread,omitempty"`
	Parent    string `json:"parent,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	Seq       int64  `json:"seq,omitempty"`
	Record    []byte `json:"record,omitempty"`  // for a node: its checkpoint
	Entries   []byte `json:"entries,omitempty"` // for a node
	State     []byte `json:"state,omitempty"`   // of a workspace

	End     bool     `json:"end,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// Problem is the body of an error response, as RFC 9457 defines it, or the error that ended a list.
// Kind is the kind of the error; the other fields describe the error for a person.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Kind   string `json:"kind"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
	Head   *Head  `json:"head,omitempty"` // for a commit that expected another head: the head of the thread
}

// Err returns the error that a server reported, with its kind if this version knows that kind.
func (p *Problem) Err() error {
	kind := segno.KindInternal
	for k := kind; k <= segno.KindCancelled; k++ {
		if name, err := k.MarshalText(); err == nil && string(name) == p.Kind {
			kind = k
		}
	}
	cause := errors.New(p.Detail)
	if p.Head != nil {
		if head, err := p.Head.Decode(); err == nil {
			cause = &segno.ConflictError{Actual: head}
		}
	}
	return segno.NewError(kind, "", "", cause).WithHint(p.Hint)
}

// NewThread returns the item of a thread.
func NewThread(t segno.Thread) Item { return Item{ID: string(t.ID), Record: record.EncodeThread(&t)} }

// DecodeThread is the inverse of [NewThread].
func DecodeThread(i *Item) (segno.Thread, error) {
	return record.DecodeThread(segno.ThreadID(i.ID), i.Record)
}

// NewCheckpoint returns the item of a checkpoint.
func NewCheckpoint(c segno.Checkpoint) Item {
	return Item{ID: string(c.ID), Thread: string(c.Thread), Parent: string(c.Parent), Seq: c.Seq, Record: record.EncodeCheckpoint(&c, false)}
}

// DecodeCheckpoint is the inverse of [NewCheckpoint].
func DecodeCheckpoint(i *Item) (segno.Checkpoint, error) {
	c, err := record.DecodeCheckpoint(i.Record)
	if err != nil {
		return segno.Checkpoint{}, err
	}
	c.ID, c.Thread, c.Parent, c.Seq = segno.CommitID(i.ID), segno.ThreadID(i.Thread), segno.CommitID(i.Parent), i.Seq
	return *c, nil
}

// NewNode returns the item of a commit of a line.
func NewNode(n segno.Node) Item {
	i := Item{ID: string(n.ID), Thread: string(n.Thread), Parent: string(n.Parent), Seq: n.Seq}
	if n.Checkpoint != nil {
		i.Record = record.EncodeCheckpoint(n.Checkpoint, false)
	}
	if n.Entries != nil {
		i.Entries = record.EncodeEntries(n.Entries, false)
	}
	return i
}

// DecodeNode is the inverse of [NewNode].
func DecodeNode(i *Item) (segno.Node, error) {
	n := segno.Node{ID: segno.CommitID(i.ID), Thread: segno.ThreadID(i.Thread), Parent: segno.CommitID(i.Parent), Seq: i.Seq}
	if i.Record != nil {
		c, err := DecodeCheckpoint(i)
		if err != nil {
			return n, err
		}
		n.Checkpoint = &c
	}
	var err error
	if i.Entries != nil {
		n.Entries, err = record.DecodeEntries(i.Entries)
	}
	return n, err
}

// NewLink returns the item of a link of a chain.
func NewLink(l segno.Link) Item { return Item{Record: record.EncodeLink(&l)} }

// DecodeLink is the inverse of [NewLink].
func DecodeLink(i *Item) (segno.Link, error) { return record.DecodeLink(i.Record) }

// NewOperation returns the item of an operation.
func NewOperation(o segno.Operation) Item {
	return Item{ID: string(o.ID), Workspace: string(o.Workspace), Record: record.EncodeOperation(&o)}
}

// DecodeOperation is the inverse of [NewOperation].
func DecodeOperation(i *Item) (segno.Operation, error) {
	return record.DecodeOperation(segno.OperationID(i.ID), segno.WorkspaceID(i.Workspace), i.Record)
}

// NewWorkspace returns the item for a workspace.
func NewWorkspace(w segno.WorkspaceRecord) Item {
	return Item{ID: string(w.ID), Record: record.EncodeWorkspace(&w), State: record.EncodeState(&w.State)}
}

// DecodeWorkspace is the inverse of [NewWorkspace].
func DecodeWorkspace(i *Item) (segno.WorkspaceRecord, error) {
	return record.JoinWorkspace(segno.WorkspaceID(i.ID), i.Record, i.State)
}

// Head is the JSON form of a [segno.Head]. Its link is an encoded record.
type Head struct {
	Thread segno.ThreadID `json:"thread"`
	Head   segno.CommitID `json:"head"`
	Tip    segno.CommitID `json:"tip"`
	Seq    int64          `json:"seq"`
	Turn   int            `json:"turn"`
	Epoch  uint64         `json:"epoch"`
	Link   []byte         `json:"link"`
}

// NewHead encodes a head.
func NewHead(h segno.Head) Head {
	return Head{Thread: h.Thread, Head: h.Head, Tip: h.Tip, Seq: h.Seq, Turn: h.Turn, Epoch: h.Epoch, Link: record.EncodeLink(&h.Link)}
}

// Decode is the inverse of [NewHead].
func (h *Head) Decode() (segno.Head, error) {
	link, err := record.DecodeLink(h.Link)
	return segno.Head{Thread: h.Thread, Head: h.Head, Tip: h.Tip, Seq: h.Seq, Turn: h.Turn, Epoch: h.Epoch, Link: link}, err
}
