package record

import (
	"slices"

	"github.com/dalsegno/segno"
)

// Records leave out the ids by which their store finds them. For example the record of a checkpoint does not
// repeat its id, thread, parent and seq, which are columns of its row. The error of all decoders is [ErrDamaged].

// EncodeCheckpoint encodes a checkpoint. entries is true if its commit has entries.
func EncodeCheckpoint(x *segno.Checkpoint, entries bool) []byte {
	c := encoder()
	c.checkpoint(x)
	return c.record(entries)
}

// DecodeCheckpoint is the inverse of [EncodeCheckpoint]. The caller sets the id, thread, parent and seq.
func DecodeCheckpoint(record []byte) (*segno.Checkpoint, error) {
	x, c := new(segno.Checkpoint), codec{}
	return x, c.decodeRecord(record, func() { c.checkpoint(x) })
}

func (c *codec) checkpoint(x *segno.Checkpoint) {
	text(c, 1, &x.Kind)
	number(c, 2, &x.Turn)
	c.time(3, &x.Time)
	text(c, 4, &x.Agent)
	text(c, 5, &x.Prompt)
	text(c, 6, &x.Label)
	text(c, 7, &x.Key)
	c.flag(8, &x.Interrupted)
	c.flag(9, &x.Shared)
	text(c, 10, &x.Amends)
	number(c, 11, &x.Files.Added)
	number(c, 12, &x.Files.Modified)
	number(c, 13, &x.Files.Deleted)
	number(c, 14, &x.Shell)
	c.message(15, x.Session != nil, func() { c.position(allocated(&x.Session)) })
	c.message(16, x.Workspace != nil, func() { c.snapshot(allocated(&x.Workspace)) })
	c.message(17, x.State != nil, func() { c.document(allocated(&x.State)) })
	c.message(18, x.World != nil, func() { c.document(allocated(&x.World)) })
	pairs(c, 19, &x.Members)
	number(c, 20, &x.Step)
	pairs(c, 21, &x.Meta)
	number(c, 22, &x.Files.Protected)
	c.hash(23, &x.Points)
}

func (c *codec) position(x *segno.Position) {
	text(c, 1, &x.Agent)
	text(c, 2, &x.Session)
	text(c, 3, &x.Dir)
	text(c, 4, &x.Path)
	text(c, 5, &x.Leaf)
	number(c, 6, &x.Offset)
	c.hash(7, &x.SHA256)
	if c.alias(8, &x.Digest); !c.encoding {
		x.Digest = slices.Clone(x.Digest)
	}
	c.hash(9, &x.Log)
	c.hash(10, &x.Sidecars)
	text(c, 11, &x.Version)
}

func (c *codec) snapshot(x *segno.Snapshot) {
	text(c, 1, &x.Workspace)
	text(c, 2, &x.Root)
	c.hash(3, &x.Tree)
	c.hash(4, &x.Times)
	number(c, 5, &x.Files)
	number(c, 6, &x.Bytes)
	c.texts(7, &x.Unread)
	c.message(8, x.Git != nil, func() {
		git := allocated(&x.Git)
		text(c, 1, &git.Head)
		text(c, 2, &git.Branch)
		text(c, 3, &git.Operation)
	})
	c.texts(9, &x.Held)
	c.message(10, x.World != nil, func() { c.document(allocated(&x.World)) })
}

func (c *codec) document(x *segno.Document) {
	text(c, 1, &x.Type)
	c.hash(2, &x.Data)
}

// EncodeEntries encodes entries. It keeps the bytes of every body. checkpoint is true if their commit has a checkpoint.
func EncodeEntries(entries []segno.Entry, checkpoint bool) []byte {
	bodies := 0
	for i := range entries {
		bodies += len(entries[i].Body)
	}
	c := codec{encoding: true, out: make([]byte, sumLength, 256+bodies)}
	c.entries(&entries)
	return c.record(checkpoint)
}

// DecodeEntries decodes entries. Their bodies alias the record.
func DecodeEntries(record []byte) (entries []segno.Entry, err error) {
	var c codec
	err = c.decodeRecord(record, func() { c.entries(&entries) })
	return entries, err
}

func (c *codec) entries(list *[]segno.Entry) {
	repeated(c, 1, list, func(x *segno.Entry) {
		text(c, 1, &x.Kind)
		number(c, 2, &x.Turn)
		text(c, 3, &x.Session)
		c.time(4, &x.Time)
		text(c, 5, &x.ID)
		text(c, 6, &x.Name)
		c.alias(7, (*[]byte)(&x.Body))
	})
}

// EncodeThread encodes a thread without its id.
func EncodeThread(x *segno.Thread) []byte { return encode(x, (*codec).thread) }

// DecodeThread decodes the record of the thread id.
func DecodeThread(id segno.ThreadID, record []byte) (segno.Thread, error) {
	return decode(segno.Thread{ID: id}, record, (*codec).thread)
}

func (c *codec) thread(x *segno.Thread) {
	c.time(1, &x.Created)
	text(c, 2, &x.Title)
	text(c, 3, &x.Agent)
	text(c, 4, &x.Workspace)
	text(c, 5, &x.Parent)
	text(c, 6, &x.ParentThread)
	text(c, 7, &x.Name)
}

// EncodeLink encodes a link of a thread's chain.
func EncodeLink(x *segno.Link) []byte { return encode(x, (*codec).link) }

// DecodeLink is the inverse of [EncodeLink].
func DecodeLink(record []byte) (segno.Link, error) {
	return decode(segno.Link{}, record, (*codec).link)
}

func (c *codec) link(x *segno.Link) {
	text(c, 1, &x.Agent)
	text(c, 2, &x.Session)
	text(c, 3, &x.Dir)
	text(c, 4, &x.Path)
	c.time(5, &x.Start)
	c.time(6, &x.End)
	text(c, 7, &x.Reason)
	text(c, 8, &x.Fidelity)
	text(c, 9, &x.At)
	text(c, 10, &x.Note)
	c.message(11, x.Position != nil, func() { c.position(allocated(&x.Position)) })
	c.flag(12, &x.Detached)
}

// EncodeOperation encodes an operation without its id and workspace.
func EncodeOperation(x *segno.Operation) []byte { return encode(x, (*codec).operation) }

// DecodeOperation decodes the record of the operation id in a workspace.
func DecodeOperation(id segno.OperationID, workspace segno.WorkspaceID, record []byte) (segno.Operation, error) {
	return decode(segno.Operation{ID: id, Workspace: workspace}, record, (*codec).operation)
}

func (c *codec) operation(x *segno.Operation) {
	text(c, 1, &x.Thread)
	text(c, 2, &x.Verb)
	text(c, 3, &x.Args)
	c.time(4, &x.Time)
	c.message(5, true, func() { c.pointers(&x.Before) })
	c.message(6, true, func() { c.pointers(&x.After) })
	text(c, 7, &x.Undoes)
	c.message(8, x.Pin != nil, func() {
		pin := allocated(&x.Pin)
		text(c, 1, &pin.Checkpoint)
		text(c, 2, &pin.Name)
	})
	text(c, 9, &x.Unpinned)
	text(c, 10, &x.Forked)
	text(c, 11, &x.Actor)
}

func (c *codec) pointers(x *segno.Pointers) {
	text(c, 1, &x.Head)
	text(c, 2, &x.Tip)
	text(c, 3, &x.Session)
	c.hash(4, &x.Tree)
}

// EncodeWorkspace encodes a workspace without its id and state.
func EncodeWorkspace(x *segno.WorkspaceRecord) []byte { return encode(x, (*codec).workspace) }

// DecodeWorkspace decodes the record of the workspace id. The state is the zero value.
func DecodeWorkspace(id segno.WorkspaceID, record []byte) (segno.WorkspaceRecord, error) {
	return decode(segno.WorkspaceRecord{ID: id}, record, (*codec).workspace)
}

func (c *codec) workspace(x *segno.WorkspaceRecord) {
	c.time(1, &x.Created)
	text(c, 2, &x.Path)
	c.texts(3, &x.Moved)
	number(c, 4, &x.Device)
	number(c, 5, &x.Inode)
}

// EncodeState encodes the state of a workspace without its id.
func EncodeState(x *segno.WorkspaceState) []byte { return encode(x, (*codec).state) }

// DecodeState decodes the state of the workspace id.
func DecodeState(id segno.WorkspaceID, record []byte) (segno.WorkspaceState, error) {
	return decode(segno.WorkspaceState{Workspace: id}, record, (*codec).state)
}

func (c *codec) state(x *segno.WorkspaceState) {
	text(c, 1, &x.Thread)
	c.message(2, x.Snapshot != nil, func() { c.snapshot(allocated(&x.Snapshot)) })
	text(c, 3, &x.By)
	c.time(4, &x.Time)
}

// JoinWorkspace decodes a workspace's record and, if there is one, the record of its state.
func JoinWorkspace(id segno.WorkspaceID, record, state []byte) (segno.WorkspaceRecord, error) {
	w, err := DecodeWorkspace(id, record)
	if err == nil && state != nil {
		w.State, err = DecodeState(id, state)
	}
	return w, err
}
