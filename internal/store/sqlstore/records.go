package sqlstore

import (
	"errors"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
	"github.com/dalsegno/segno/internal/store/record"
)

// Records encodes and decodes the records of a store. In a store with a key, it also seals each record for its place:
// the values in the row that identify its thread, commit or workspace. A record that was moved to another row cannot be
// opened.
type Records struct {
	Compressor  *record.Squeezer
	Sealer      *record.Sealer // nil for a store without a key
	CorruptHint string         // the hint of errors about damaged records
}

// Corrupt returns an error of [segno.KindCorrupt], or nil if err is nil.
func (r *Records) Corrupt(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return segno.NewError(segno.KindCorrupt, op, name, err).WithHint(r.CorruptHint)
}

// ObjectName returns the name that an object has in the database and in packs.
func (r *Records) ObjectName(h segno.Hash) segno.Hash { return r.Sealer.Hash("object", h) }

// Commit is a commit with all values that are computed before its transaction.
type Commit struct {
	segno.Commit
	Digest  []byte // identifies the content for a repeated commit
	Terms   []int64
	Encoded commitRecords
}

// commitRecords are the records of a commit: packed, and sealed if the store has a key. A record that the
// commit does not need is nil.
type commitRecords struct {
	Thread, Checkpoint, Entries, State, Operation []byte

	Link []byte // not sealed, because the stores seal it for different places
	Pin  []byte // the name of the pin
}

// EncodeCommit verifies a commit and encodes its records. The error is [segno.KindInvalid] if the commit is invalid.
func (r *Records) EncodeCommit(c segno.Commit) (*Commit, error) {
	digest, err := ledger.Prepare(&c)
	if err != nil {
		return nil, err
	}
	w := &Commit{Commit: c, Digest: r.Sealer.SealDigest(digest[:record.DigestLength]), Terms: r.Sealer.Terms(c.Checkpoint)}
	thread, id, parent := string(c.Thread), string(c.ID), string(c.Parent)
	if c.Create != nil {
		w.Encoded.Thread = r.Sealer.Seal(record.EncodeThread(c.Create), "thread", thread)
	}
	if c.Checkpoint != nil {
		packed := r.Compressor.Pack(record.EncodeCheckpoint(c.Checkpoint, len(c.Entries) > 0))
		w.Encoded.Checkpoint = r.Sealer.Seal(packed, "checkpoint", thread, id, parent)
	}
	if len(c.Entries) > 0 {
		packed := r.Compressor.Pack(record.EncodeEntries(c.Entries, c.Checkpoint != nil))
		w.Encoded.Entries = r.Sealer.Seal(packed, "entries", thread, id, parent)
	}
	if c.Link != nil {
		w.Encoded.Link = record.EncodeLink(c.Link)
	}
	if c.Workspace != nil {
		w.Encoded.State = r.Sealer.Seal(record.EncodeState(c.Workspace), "state", string(c.Workspace.Workspace))
	}
	if c.Operation != nil {
		w.Encoded.Operation = r.Sealer.Seal(record.EncodeOperation(c.Operation), "operation", string(c.Operation.Workspace), string(c.Operation.ID))
	}
	if c.Pin != nil {
		w.Encoded.Pin = r.Sealer.Seal([]byte(c.Pin.Name), "pin", string(c.Pin.Checkpoint))
	}
	return w, nil
}

// Renamed returns the record of a thread with its title changed from from to to. It returns nil if the thread already
// has the title to, and [segno.KindConflict] if it has neither title.
func (r *Records) Renamed(id segno.ThreadID, rec []byte, from, to string) ([]byte, error) {
	t, err := r.Thread(id, rec)
	switch {
	case err != nil || t.Title == to:
		return nil, err
	case t.Title != from:
		return nil, segno.Errorf(segno.KindConflict, "rename thread", string(id), "it has another title now")
	}
	t.Title = to
	return r.Sealer.Seal(record.EncodeThread(&t), "thread", string(id)), nil
}

// ErasedThread returns the record that an erased thread keeps.
func (r *Records) ErasedThread(id segno.ThreadID) []byte {
	return r.Sealer.Seal(record.EncodeThread(&segno.Thread{ID: id}), "thread", string(id))
}

// Thread decodes the record of a thread.
func (r *Records) Thread(id segno.ThreadID, rec []byte) (t segno.Thread, err error) {
	if rec, err = r.Sealer.Open(rec, "thread", string(id)); err == nil {
		t, err = record.DecodeThread(id, rec)
	}
	return t, r.Corrupt("read thread", string(id), err)
}

// Link decodes the record of a link that was sealed for place. The stores use different places, because they number
// links in different ways. Link returns the zero link for a nil record.
func (r *Records) Link(thread segno.ThreadID, rec []byte, place ...string) (l segno.Link, err error) {
	if rec == nil {
		return l, nil
	}
	if rec, err = r.Sealer.Open(rec, place...); err == nil {
		l, err = record.DecodeLink(rec)
	}
	return l, r.Corrupt("read link", string(thread), err)
}

// Operation decodes the record of an operation.
func (r *Records) Operation(id segno.OperationID, workspace segno.WorkspaceID, rec []byte) (o segno.Operation, err error) {
	if rec, err = r.Sealer.Open(rec, "operation", string(workspace), string(id)); err == nil {
		o, err = record.DecodeOperation(id, workspace, rec)
	}
	return o, r.Corrupt("read operation", string(id), err)
}

// Workspace decodes the two records of a workspace. state may be nil.
func (r *Records) Workspace(id segno.WorkspaceID, rec, state []byte) (w segno.WorkspaceRecord, err error) {
	rec, err = r.Sealer.Open(rec, "workspace", string(id))
	if err == nil && state != nil {
		state, err = r.Sealer.Open(state, "state", string(id))
	}
	if err == nil {
		w, err = record.JoinWorkspace(id, rec, state)
	}
	return w, r.Corrupt("read workspace", string(id), err)
}

// State decodes the state of a workspace.
func (r *Records) State(id segno.WorkspaceID, rec []byte) (state segno.WorkspaceState, err error) {
	if rec, err = r.Sealer.Open(rec, "state", string(id)); err == nil {
		state, err = record.DecodeState(id, rec)
	}
	return state, r.Corrupt("read workspace", string(id), err)
}

// Pin decodes the name of a pin.
func (r *Records) Pin(at segno.CommitID, rec []byte) (string, error) {
	name, err := r.Sealer.Open(rec, "pin", string(at))
	return string(name), r.Corrupt("read pin", string(at), err)
}

// Checkpoint decodes a packed checkpoint and adds the values of its row. It returns nil for a nil record.
func (r *Records) Checkpoint(packed []byte, at segno.Node) (*segno.Checkpoint, error) {
	rec, err := r.unpack(packed, "checkpoint", at)
	var c *segno.Checkpoint
	if err == nil {
		c, err = decodeCheckpoint(rec, at)
	}
	return c, r.Corrupt("read checkpoint", string(at.ID), err)
}

// unpack opens and expands a record of a commit.
func (r *Records) unpack(packed []byte, part string, at segno.Node) ([]byte, error) {
	if packed == nil {
		return nil, nil
	}
	packed, err := r.Sealer.Open(packed, part, string(at.Thread), string(at.ID), string(at.Parent))
	if err != nil {
		return nil, err
	}
	return r.Compressor.Unpack(packed)
}

func decodeCheckpoint(rec []byte, at segno.Node) (*segno.Checkpoint, error) {
	if rec == nil {
		return nil, nil
	}
	c, err := record.DecodeCheckpoint(rec)
	if err != nil {
		return nil, err
	}
	c.ID, c.Thread, c.Parent, c.Seq = at.ID, at.Thread, at.Parent, at.Seq
	return c, nil
}

// EncodeObject compresses an object, with compress, and seals it. The result begins with one byte for the
// encoding, and is appended to buf.
func (r *Records) EncodeObject(buf []byte, name segno.Hash, data []byte, compress func(dst, data []byte) ([]byte, record.Encoding)) []byte {
	start := len(buf)
	stored, e := compress(append(buf, 0), data)
	stored[start] = byte(e)
	if r.Sealer == nil {
		return stored
	}
	return append(stored[:start:start], r.Sealer.Seal(stored[start:], "object", string(name[:]))...)
}

// DecodeObject opens, expands and verifies the stored bytes of an object, which begin with its encoding.
// stored is the object's name in the database, and name its name in errors.
func (r *Records) DecodeObject(stored, name segno.Hash, size int64, bytes []byte) ([]byte, error) {
	const op = "read object"
	if len(bytes) == 0 {
		return nil, r.Corrupt(op, name.String(), errors.New("its bytes are missing"))
	}
	bytes, err := r.Sealer.Open(bytes, "object", string(stored[:]))
	if err == nil && len(bytes) == 0 {
		err = record.ErrDamaged
	}
	if err != nil {
		return nil, r.Corrupt(op, name.String(), err)
	}
	data, err := r.Compressor.Expand(record.Encoding(bytes[0]), bytes[1:], size)
	if err == nil && r.ObjectName(segno.HashOf(data)) != stored {
		err = errors.New("its bytes do not have the hash in its name")
	}
	if err != nil {
		return nil, r.Corrupt(op, name.String(), err)
	}
	return data, nil
}
