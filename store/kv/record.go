package kv

import (
	"errors"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// entry is one record of a thread's log. Its creation is the commit: it says all
// that changed and where the thread stands after it.
type entry struct {
	at place // where it was read, or is to be written

	id     segno.CommitID // "" for a record that is no commit: a delete, a new epoch
	thread segno.ThreadID // whose commit it is: another's in the area of old records
	parent segno.CommitID
	node   bool
	turn   int // of the line up to it
	digest [16]byte
	stamp  int64   // orders records across threads, for lists
	line   lineage // a node's, itself included

	// where the thread stands after it
	head, tip segno.CommitID
	seq       int64
	high      int
	epoch     uint64
	hidden    bool
	phase     segno.Phase // PhaseUnknown in records of older versions
	linkPos   uint64      // of the record with the head session's link, 0 for none

	create     []byte // an encoded thread
	link       []byte // an encoded link
	pin        *segno.Pin
	checkpoint []byte       // an encoded checkpoint, nil without one
	objects    []segno.Hash // that it names, in a store whose threads expire

	body  []byte // the packed entries, nil if there are none or they are outside
	tag   string // names the body outside
	parts int    // how many values it has there
}

// The flags of a record, in the order of entry.flags.
const (
	flagNode = 1 << iota
	flagHeadSelf
	flagTipSelf
	flagTipHead
	flagHidden
	flagCheckpoint
	flagPin
	flagForeign // it is another thread's

	phaseShift = 8 // the phase follows
	phaseMask  = 3
)

// encode returns e's content: its packed fields, then its body.
func (e *entry) encode(q *coder) []byte {
	var w writer
	w.uint(e.flags())
	w.text(string(e.id))
	if e.thread != e.at.thread {
		w.text(string(e.thread))
	}
	w.text(string(e.parent))
	w.int(int64(e.turn))
	w.fixed(e.digest[:])
	w.int(e.stamp)
	w.lineage(e.at.thread, e.line, e.line.cut)
	if e.head != e.id {
		w.text(string(e.head))
	}
	if e.tip != e.id && e.tip != e.head {
		w.text(string(e.tip))
	}
	w.int(e.seq)
	w.int(int64(e.high))
	w.uint(e.epoch)
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

func (e *entry) flags() (f uint64) {
	for i, on := range [...]bool{e.node, e.head == e.id, e.tip == e.id, e.tip == e.head, e.hidden, e.checkpoint != nil, e.pin != nil, e.thread != e.at.thread} {
		if on {
			f |= 1 << i
		}
	}
	return f | uint64(e.phase)<<phaseShift
}

// decodeEntry reads the record that was kept at a place.
func decodeEntry(q *coder, at place, val []byte) (*entry, error) {
	key := at.key()
	content, err := q.unframe(key, val)
	if err != nil {
		return nil, err
	}
	outer := reader{b: content}
	packed := outer.bytes()
	fields, err := q.Unpack(packed)
	if err = errors.Join(outer.err, err); err != nil {
		return nil, damaged(key, err)
	}
	e := &entry{at: at, thread: at.thread}
	r := reader{b: fields}
	e.read(&r)
	if r.err != nil {
		return nil, damaged(key, r.err)
	}
	if len(outer.b) > 0 {
		e.body = outer.b
	}
	return e, nil
}

func (e *entry) read(r *reader) {
	f := r.uint()
	has := func(bit uint64) bool { return f&bit != 0 }
	e.node, e.hidden, e.phase = has(flagNode), has(flagHidden), segno.Phase(f>>phaseShift&phaseMask)
	e.id = segno.CommitID(r.text())
	if has(flagForeign) {
		e.thread = segno.ThreadID(r.text())
	}
	e.parent = segno.CommitID(r.text())
	e.turn = int(r.int())
	copy(e.digest[:], r.fixed(uint64(len(e.digest))))
	e.stamp = r.int()
	e.line = r.lineage(e.at.thread)
	e.head, e.tip = e.id, e.id
	if !has(flagHeadSelf) {
		e.head = segno.CommitID(r.text())
	}
	switch {
	case has(flagTipSelf):
	case has(flagTipHead):
		e.tip = e.head
	default:
		e.tip = segno.CommitID(r.text())
	}
	e.seq, e.high = r.int(), int(r.int())
	e.epoch, e.linkPos = r.uint(), r.uint()
	e.create, e.link = r.bytes(), r.bytes()
	if has(flagPin) {
		e.pin = &segno.Pin{Checkpoint: segno.CommitID(r.text()), Name: r.text()}
	}
	for range r.count() {
		var h segno.Hash
		copy(h[:], r.fixed(uint64(len(h))))
		e.objects = append(e.objects, h)
	}
	e.tag, e.parts = r.text(), int(r.uint())
	if has(flagCheckpoint) {
		e.checkpoint = append([]byte{}, r.b...)
	}
}

// info is the checkpoint of e, or nil.
func (e *entry) info() (*segno.Checkpoint, error) {
	if e.checkpoint == nil {
		return nil, nil
	}
	c, err := record.DecodeCheckpoint(e.checkpoint)
	if err != nil {
		return nil, damaged(e.at.key(), err)
	}
	c.ID, c.Thread, c.Parent, c.Seq = e.id, e.thread, e.parent, e.seq
	return c, nil
}
