package kv

import (
	"errors"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// state is where a thread stands after the record at pos: what its head key
// holds. It is a hint where the KV cannot write it together with the record, and
// exact where it can.
type state struct {
	segno.Head
	pos     uint64
	linkPos uint64
	stamp   int64
	hidden  bool
	thread  segno.Thread
	line    lineage // the head's; without runs if the head was moved and it is not known
	turn    int     // of the head, with line
	copied  uint64  // how many records of its line a fork has of its own
	phase   segno.Phase
	renewed int64 // when all look-ups of the thread were last given their time, in nanoseconds

	rev Rev // of the head key
}

func (st *state) encode(q *coder) ([]byte, error) {
	thread, err := record.EncodeThread(&st.thread)
	if err != nil {
		return nil, err
	}
	link, err := record.EncodeLink(&st.Link)
	if err != nil {
		return nil, err
	}
	var w writer
	w.text(string(st.Thread))
	w.text(string(st.Head.Head))
	w.text(string(st.Tip))
	w.int(st.Seq)
	w.int(int64(st.Turn))
	w.uint(st.Epoch)
	w.uint(st.pos)
	w.uint(st.linkPos)
	w.int(st.stamp)
	hidden := byte(0)
	if st.hidden {
		hidden = 1
	}
	w.byte(hidden)
	w.lineage(st.Thread, st.line, 0)
	w.uint(uint64(st.line.cut))
	w.int(int64(st.turn))
	w.uint(st.copied)
	w.int(st.renewed)
	w.bytes(thread)
	w.bytes(link)
	w.byte(byte(st.phase))
	return q.Pack(w.b), nil
}

// decodeState reads the value of a head key. name is the thread's id, or "" if it
// is only known by its key.
func decodeState(q *coder, key string, val []byte) (*state, error) {
	packed, err := q.unframe(key, val)
	if err != nil {
		return nil, err
	}
	fields, err := q.Unpack(packed)
	if err != nil {
		return nil, damaged(key, err)
	}
	r := reader{b: fields}
	st := new(state)
	st.Thread = segno.ThreadID(r.text())
	st.Head.Head, st.Tip = segno.CommitID(r.text()), segno.CommitID(r.text())
	st.Seq, st.Turn, st.Epoch = r.int(), int(r.int()), r.uint()
	st.pos, st.linkPos, st.stamp = r.uint(), r.uint(), r.int()
	st.hidden = r.byte() != 0
	st.line = r.lineage(st.Thread)
	st.line.cut = int(r.uint())
	st.turn, st.copied, st.renewed = int(r.int()), r.uint(), r.int()
	thread, link := r.bytes(), r.bytes()
	if len(r.b) > 0 { // an older version writes none
		st.phase = segno.Phase(r.byte())
	}
	if r.err != nil {
		return nil, damaged(key, r.err)
	}
	var errLink error
	st.thread, err = record.DecodeThread(st.Thread, thread)
	st.Link, errLink = record.DecodeLink(link)
	if err = errors.Join(err, errLink); err != nil {
		return nil, damaged(key, err)
	}
	return st, nil
}

// after returns where a thread stands after e, which follows st's record.
func (st *state) after(e *entry) (*state, error) {
	next := *st
	next.Thread, next.pos = e.at.thread, e.at.pos
	next.Head.Head, next.Tip, next.Seq, next.Turn, next.Epoch = e.head, e.tip, e.seq, e.high, e.epoch
	next.hidden, next.stamp, next.linkPos = e.hidden, e.stamp, e.linkPos
	next.phase = e.phase
	if len(e.create) > 0 {
		t, err := record.DecodeThread(e.at.thread, e.create)
		if err != nil {
			return nil, damaged(e.at.key(), err)
		}
		next.thread = t
	}
	if len(e.link) > 0 && e.linkPos == e.at.pos {
		l, err := record.DecodeLink(e.link)
		if err != nil {
			return nil, damaged(e.at.key(), err)
		}
		next.Link = l
	}
	switch {
	case e.node && e.head == e.id:
		next.line, next.turn = e.line, e.turn
	case e.head != st.Head.Head:
		next.line, next.turn = lineage{}, 0
	}
	return &next, nil
}

// entryAfter returns the record that would follow st's, with nothing changed.
func (st *state) entryAfter(thread segno.ThreadID) *entry {
	return &entry{at: place{thread, areaLog, st.pos + 1}, thread: thread, head: st.Head.Head, tip: st.Tip, seq: st.Seq, high: st.Turn,
		epoch: st.Epoch, hidden: st.hidden, linkPos: st.linkPos, phase: st.phase}
}

// clone returns a state whose parts nobody changes.
func (st *state) clone() *state {
	c := *st
	if st.Link.Position != nil {
		p := *st.Link.Position
		p.Digest = slices.Clone(p.Digest)
		c.Link.Position = &p
	}
	return &c
}
