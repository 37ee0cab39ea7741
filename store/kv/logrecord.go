package kv

import (
	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/ledger"
	"github.com/dalsegno/segno/internal/record"
)

// logRecord is one record of a thread's log. Creating its key is the commit. It contains all that
// the commit changed, and the thread as the commit leaves it.
type logRecord struct {
	at position // where it was read, or will be written

	id       segno.CommitID // "" for a record that is no commit: a deletion or a new epoch
	owner    segno.ThreadID // the thread that committed it; another thread than at.thread in areaOld
	parent   segno.CommitID
	node     bool
	lineTurn int // the turn of the line up to this node
	digest   [16]byte
	stamp    int64   // orders records across threads, for lists
	line     lineage // of a node, including itself

	ledger.Thread        // the thread after this record; without its link, which is at linkPos
	linkPos       uint64 // position of the record with the link of the head session, 0 if there is none

	create     []byte // an encoded thread
	link       []byte // an encoded link
	pin        *segno.Pin
	checkpoint []byte       // an encoded checkpoint, nil without one
	objects    []segno.Hash // that the commit names, in a store whose threads expire

	body  []byte // the packed entries; nil without entries, or if they are in separate values
	tag   string // names those values
	parts int    // how many there are
}

// The flags of a record, in the order of logRecord.flags. The phase follows them. It is
// [segno.PhaseUnknown] in records of older versions.
const (
	flagNode = 1 << iota
	flagHeadSelf
	flagTipSelf
	flagTipHead
	flagDeleted
	flagCheckpoint
	flagPin
	flagForeign

	phaseShift = 8
	phaseMask  = 3
)

func (e *logRecord) flags() (f uint64) {
	for i, on := range [...]bool{e.node, e.Head.Head == e.id, e.Tip == e.id, e.Tip == e.Head.Head, e.Deleted,
		e.checkpoint != nil, e.pin != nil, e.owner != e.at.thread} {
		if on {
			f |= 1 << i
		}
	}
	return f | uint64(e.Phase)<<phaseShift
}

// encode returns e's content: its packed fields, then its body.
func (e *logRecord) encode(q *coder) []byte {
	var w writer
	w.uint(e.flags())
	w.text(string(e.id))
	if e.owner != e.at.thread {
		w.text(string(e.owner))
	}
	w.text(string(e.parent))
	w.int(int64(e.lineTurn))
	w.fixed(e.digest[:])
	w.int(e.stamp)
	w.lineage(e.at.thread, e.line, e.line.cut)
	if e.Head.Head != e.id {
		w.text(string(e.Head.Head))
	}
	if e.Tip != e.id && e.Tip != e.Head.Head {
		w.text(string(e.Tip))
	}
	w.int(e.Seq)
	w.int(int64(e.Turn))
	w.uint(e.Epoch)
	w.uint(e.linkPos)
	w.bytes(e.create)
	w.bytes(e.link)
	if e.pin != nil {
		w.text(string(e.pin.Checkpoint))
		w.text(e.pin.Name)
	}
	w.uint(uint64(len(e.objects)))
	for _, h := range e.objects {
		w.fixed(h[:])
	}
	w.text(e.tag)
	w.uint(uint64(e.parts))
	w.fixed(e.checkpoint)

	var out writer
	out.bytes(q.Pack(w.b))
	out.fixed(e.body)
	return out.b
}

// decodeLogRecord decodes the value of the record at a position.
func decodeLogRecord(q *coder, at position, val []byte) (*logRecord, error) {
	e := &logRecord{at: at, owner: at.thread}
	e.Head.Thread, e.Exists = at.thread, true
	key, packed := at.key(), []byte(nil)
	err := q.decode(key, val, func(r *reader) {
		if packed = r.bytes(); len(r.b) > 0 {
			e.body = r.b
		}
	})
	if err != nil {
		return nil, err
	}
	return e, q.decodePacked(key, packed, e.read)
}

func (e *logRecord) read(r *reader) {
	f := r.uint()
	has := func(bit uint64) bool { return f&bit != 0 }
	e.node, e.Deleted, e.Phase = has(flagNode), has(flagDeleted), segno.Phase(f>>phaseShift&phaseMask)
	e.id = segno.CommitID(r.text())
	if has(flagForeign) {
		e.owner = segno.ThreadID(r.text())
	}
	e.parent = segno.CommitID(r.text())
	e.lineTurn = int(r.int())
	copy(e.digest[:], r.fixed(uint64(len(e.digest))))
	e.stamp = r.int()
	e.line = r.lineage(e.at.thread)
	e.Head.Head, e.Tip = e.id, e.id
	if !has(flagHeadSelf) {
		e.Head.Head = segno.CommitID(r.text())
	}
	switch {
	case has(flagTipSelf):
	case has(flagTipHead):
		e.Tip = e.Head.Head
	default:
		e.Tip = segno.CommitID(r.text())
	}
	e.Seq, e.Turn = r.int(), int(r.int())
	e.Epoch, e.linkPos = r.uint(), r.uint()
	e.create, e.link = r.bytes(), r.bytes()
	if has(flagPin) {
		e.pin = &segno.Pin{Checkpoint: segno.CommitID(r.text()), Name: r.text()}
	}
	for range r.count() {
		e.objects = append(e.objects, r.hash())
	}
	e.tag, e.parts = r.text(), int(r.uint())
	if has(flagCheckpoint) {
		e.checkpoint = append([]byte{}, r.b...)
	}
}

// decodeCheckpoint returns the checkpoint of e, or nil.
func (e *logRecord) decodeCheckpoint() (*segno.Checkpoint, error) {
	if e.checkpoint == nil {
		return nil, nil
	}
	c, err := record.DecodeCheckpoint(e.checkpoint)
	if err != nil {
		return nil, damaged(e.at.key(), err)
	}
	c.ID, c.Thread, c.Parent, c.Seq = e.id, e.owner, e.parent, e.Seq
	return c, nil
}

// decodeLink returns the link that e added to the chain, or nil.
func (e *logRecord) decodeLink() (*segno.Link, error) {
	if len(e.link) == 0 {
		return nil, nil
	}
	l, err := record.DecodeLink(e.link)
	if err != nil {
		return nil, damaged(e.at.key(), err)
	}
	return &l, nil
}
