package kv

import (
	"context"
	"errors"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
	"github.com/dalsegno/segno/internal/store/record"
)

// threadState is a thread after the record at pos: the value of its head key. It is exact if the KV writes
// it together with the record, and otherwise a hint.
type threadState struct {
	ledger.Thread
	pos     uint64 // 0 if the thread does not exist
	linkPos uint64
	stamp   int64
	info    segno.Thread
	line    lineage // of the head; empty if the thread moved to another head whose line was not read
	turn    int     // of the head, with line
	copied  uint64  // the number of records that a fork has in areaOld
	renewed int64   // when the time to live of the thread's look-ups was last extended, in nanoseconds

	rev Rev // the revision of the head key
}

// visible reports whether the thread exists and is not deleted.
func (st *threadState) visible() bool { return st.Exists && !st.Deleted }

// fields lists the fields of a head key. info and link are encoded.
func (st *threadState) fields(f *fields, info, link *[]byte) {
	text(f, &st.Head.Thread)
	text(f, &st.Head.Head)
	text(f, &st.Tip)
	signed(f, &st.Seq)
	signed(f, &st.Turn)
	unsigned(f, &st.Epoch)
	unsigned(f, &st.pos)
	unsigned(f, &st.linkPos)
	signed(f, &st.stamp)
	var deleted byte
	if st.Deleted {
		deleted = 1
	}
	octet(f, &deleted)
	if f.decoding {
		st.Exists, st.Deleted = st.pos > 0, deleted != 0
	}
	st.line.fields(f, st.Head.Thread, 0)
	unsigned(f, &st.line.cut)
	signed(f, &st.turn)
	unsigned(f, &st.copied)
	signed(f, &st.renewed)
	text(f, info)
	text(f, link)
	if !f.decoding || len(f.b) > 0 { // older versions do not write the phase
		octet(f, &st.Phase)
	}
}

func (st *threadState) encode(q *coder) []byte {
	info, link := record.EncodeThread(&st.info), record.EncodeLink(&st.Link)
	return q.Pack(encodeFields(func(f *fields) { st.fields(f, &info, &link) }))
}

// putState writes a head key without a change of the thread's log.
func (s *Store) putState(ctx context.Context, st *threadState, ifRev Rev) error {
	s.states.remove(st.Head.Thread)
	key := headKey(st.Head.Thread)
	_, err := s.kv.Put(ctx, key, s.code.frame(key, st.encode(s.code)), ifRev)
	return err
}

// decodeThreadState decodes the value of a head key.
func decodeThreadState(q *coder, key string, val []byte) (*threadState, error) {
	packed, err := q.unframe(key, val)
	if err != nil {
		return nil, err
	}
	st := new(threadState)
	var info, link []byte
	if err := q.decodePacked(key, packed, func(f *fields) { st.fields(f, &info, &link) }); err != nil {
		return nil, err
	}
	var errInfo, errLink error
	st.info, errInfo = record.DecodeThread(st.Head.Thread, info)
	st.Link, errLink = record.DecodeLink(link)
	if err = errors.Join(errInfo, errLink); err != nil {
		return nil, damaged(key, err)
	}
	return st, nil
}

// after returns the state after e, which follows st's record.
func (st *threadState) after(e *logRecord) (*threadState, error) {
	next := *st
	next.Thread, next.Link = e.Thread, st.Link
	next.pos, next.stamp, next.linkPos = e.at.pos, e.stamp, e.linkPos
	if len(e.create) > 0 {
		info, err := record.DecodeThread(e.at.thread, e.create)
		if err != nil {
			return nil, damaged(e.at.key(), err)
		}
		next.info = info
	}
	if e.linkPos == e.at.pos {
		l, err := e.decodeLink()
		if err != nil {
			return nil, err
		}
		if l != nil {
			next.Link = *l
		}
	}
	// The line of the new head is known if it follows the old head. After a move to another node it is
	// unknown here; the caller sets it, or the next commit reads it.
	switch {
	case e.node && e.Head.Head == e.id:
		next.line, next.turn = e.line, e.lineTurn
	case e.Head.Head != st.Head.Head:
		next.line, next.turn = lineage{}, 0
	}
	return &next, nil
}

// nextRecord returns the record that would follow st's without changing anything.
func (s *Store) nextRecord(st *threadState) *logRecord {
	id := st.Head.Thread
	e := &logRecord{at: position{id, areaLog, st.pos + 1}, owner: id, Thread: st.Thread, linkPos: st.linkPos}
	e.Exists, e.stamp = true, max(s.nextStamp(), st.stamp+1)
	return e
}

// headCopy returns a copy of the head that shares nothing with st.
func (st *threadState) headCopy() segno.Head {
	head := st.Head
	if head.Link.Position != nil {
		p := *head.Link.Position
		p.Digest = slices.Clone(p.Digest)
		head.Link.Position = &p
	}
	return head
}
