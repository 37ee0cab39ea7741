package kv

import (
	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
	"github.com/dalsegno/segno/internal/store/record"
)

// logRecord is one record of a thread's log. Creating its key is the commit. It contains
// everything that the commit changed, and the state of the thread after the commit.
type logRecord struct {
	at position // the place from which it was read or to which it will be written

	id       segno.CommitID // "" for a record that is not a commit: a deletion or a new epoch
	owner    segno.ThreadID // the thread that committed it; another thread than at.thread in areaOld
	parent   segno.CommitID
	node     bool
	lineTurn int // the turn of the line at this node
	digest   [16]byte
	stamp    int64   // orders records across threads, for lists
	line     lineage // the line of a node, including the node

	ledger.Thread        // the thread after this record; its link is in the record at linkPos
	linkPos       uint64 // position of the record with the link of the head session, 0 if there is none

	create     []byte // an encoded thread
	link       []byte // an encoded link
	pin        *segno.Pin
	checkpoint []byte       // an encoded checkpoint; nil if there is none
	objects    []segno.Hash // the objects that the commit names, in a store in which threads expire

	body  []byte // the packed entries; nil if there are none or they are in separate values
	tag   string // names those values
	parts int    // the number of those values
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
	packed := q.Pack(encodeFields(e.fields))
	return encodeFields(func(f *fields) {
		text(f, &packed)
		f.rest(&e.body)
	})
}

// decodeLogRecord decodes the value of the record at a position.
func decodeLogRecord(q *coder, at position, val []byte) (*logRecord, error) {
	e := &logRecord{at: at, owner: at.thread}
	e.Head.Thread, e.Exists = at.thread, true
	var packed []byte
	if err := q.decode(at.key(), val, func(f *fields) {
		text(f, &packed)
		f.rest(&e.body)
	}); err != nil {
		return nil, err
	}
	if len(e.body) == 0 {
		e.body = nil
	}
	return e, q.decodePacked(at.key(), packed, e.fields)
}

func (e *logRecord) fields(f *fields) {
	flags := e.flags()
	unsigned(f, &flags)
	has := func(bit uint64) bool { return flags&bit != 0 }
	text(f, &e.id)
	if f.decoding {
		e.node, e.Deleted, e.Phase = has(flagNode), has(flagDeleted), segno.Phase(flags>>phaseShift&phaseMask)
		e.Head.Head, e.Tip = e.id, e.id
		if has(flagPin) {
			e.pin = new(segno.Pin)
		}
	}
	if has(flagForeign) {
		text(f, &e.owner)
	}
	text(f, &e.parent)
	signed(f, &e.lineTurn)
	f.fixed(e.digest[:])
	signed(f, &e.stamp)
	e.line.fields(f, e.at.thread, e.line.cut)
	if !has(flagHeadSelf) {
		text(f, &e.Head.Head)
	}
	switch {
	case has(flagTipSelf):
	case has(flagTipHead):
		if f.decoding {
			e.Tip = e.Head.Head
		}
	default:
		text(f, &e.Tip)
	}
	signed(f, &e.Seq)
	signed(f, &e.Turn)
	unsigned(f, &e.Epoch)
	unsigned(f, &e.linkPos)
	text(f, &e.create)
	text(f, &e.link)
	if e.pin != nil {
		text(f, &e.pin.Checkpoint)
		text(f, &e.pin.Name)
	}
	items(f, &e.objects)
	for i := range e.objects {
		f.fixed(e.objects[i][:])
	}
	text(f, &e.tag)
	unsigned(f, &e.parts)
	if has(flagCheckpoint) {
		f.rest(&e.checkpoint)
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
