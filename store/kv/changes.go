package kv

import (
	"context"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/dalsegno/segno"
)

const (
	inlineBody = 64 << 10  // packed entries up to this size are part of the commit's record
	maxValue   = 512 << 10 // the size of the largest value; longer content is split
)

// lookUpOps returns the changes that write the look-ups of a commit. They precede its record. After a crash
// between the two, there are look-ups without a record.
func (s *Store) lookUpOps(p *pending, st *threadState, e *logRecord) []Op {
	ops := s.indexOps(e, p.Link)
	ops[0].Alone = true // no other thread may have a commit with this id
	if e.Phase != segno.PhaseDone && (st.Phase == segno.PhaseDone || st.Phase == segno.PhaseUnknown) {
		ops = append(ops, s.listOp(openGroup, p.Thread, e.at.pos))
	}
	if p.Create != nil {
		ops = append(ops, s.listOp(threadsGroup, p.Thread, 0))
	}
	return ops
}

// indexOps returns the changes that write the look-ups of a commit's record: first by its id, then by the
// session of its link, and among the pins. Records that a fork copied can only be found by id.
func (s *Store) indexOps(e *logRecord, l *segno.Link) (ops []Op) {
	if e.id != "" {
		ops = append(ops, s.lookUpOp(commitGroup(e.id), e.at))
	}
	if e.at.area == areaOld {
		return ops
	}
	if l != nil {
		ops = append(ops, s.lookUpOp(s.sessionGroup(l.Session), e.at))
	}
	if e.pin != nil {
		pin := s.lookUpOp(pinsGroup, e.at)
		pin.TTL = 0
		ops = append(ops, pin)
	}
	return ops
}

// bodyTag identifies a body by its commit and its bytes, because another version of zstd may compress the
// same entries to other bytes.
func (s *Store) bodyTag(digest [16]byte, body []byte) string {
	return fmt.Sprintf("%x%08x", digest, s.code.seal.Cuts(body, crc32.ChecksumIEEE))
}

// bodyOps returns the changes that write entries that are too long for a record.
func (s *Store) bodyOps(thread segno.ThreadID, tag string, body []byte) (ops []Op) {
	for part := 0; len(body) > 0; part++ {
		key, n := bodyKey(thread, tag, part), min(len(body), maxValue)
		ops = append(ops, Op{Key: key, Val: s.code.frame(key, body[:n]), If: RevAny, TTL: s.options.TTL})
		body = body[n:]
	}
	return ops
}

// appendRecord writes a record that is not a commit.
func (s *Store) appendRecord(ctx context.Context, st *threadState, e *logRecord) error {
	next, err := st.after(e)
	if err != nil {
		return err
	}
	return s.putRecord(ctx, st, next, e, nil)
}

// putRecord makes the changes ops and then writes the record e, which turns st into next.
func (s *Store) putRecord(ctx context.Context, st, next *threadState, e *logRecord, ops []Op) error {
	if err := s.renew(ctx, st, next); err != nil {
		return err
	}
	key, head := e.at.key(), headKey(e.at.thread)
	ops = append(ops, Op{Key: key, Val: s.code.frame(key, e.encode(s.code)), If: RevNone, TTL: s.options.TTL})
	val := s.code.frame(head, next.encode(s.code))
	if s.headIsAtomic {
		ops = append(ops, Op{Key: head, Val: val, If: st.rev, TTL: s.options.TTL})
	}
	// The condition RevNone of the record is the compare-and-swap. If it does not hold, another writer has
	// created a record at this position, and apply returns KindConflict.
	rev, err := s.apply(ctx, ownLast(e.at.thread, ops))
	if err != nil {
		return err
	}
	next.rev = rev
	if !s.headIsAtomic {
		// The record exists, so the commit is made. The head key is only a hint where to find the record. If
		// it is missing or stale, a reader takes longer.
		_, _ = s.kv.Put(context.WithoutCancel(ctx), head, val, RevAny)
	}
	s.remember(next)
	return nil
}

// apply makes changes in order, and returns the revision of the last one. It checks the context only before
// the first change, because a commit that is cancelled halfway could not report whether it was made.
func (s *Store) apply(ctx context.Context, ops []Op) (rev Rev, err error) {
	if err := ctx.Err(); err != nil || len(ops) == 0 {
		return "", err
	}
	revs, err := s.batcher.Batch(context.WithoutCancel(ctx), ops)
	if err != nil {
		return "", err
	}
	return revs[len(ops)-1], nil
}

// oneByOne makes a [Batcher] of a KV that is not one. Only single changes are atomic.
type oneByOne struct{ KV }

func (k oneByOne) GetAll(ctx context.Context, keys []string) ([][]byte, error) {
	vals := make([][]byte, len(keys))
	for i, key := range keys {
		var err error
		if vals[i], _, err = k.Get(ctx, key); err != nil && segno.KindOf(err) != segno.KindNotFound {
			return nil, err
		}
	}
	return vals, nil
}

func (k oneByOne) Batch(ctx context.Context, ops []Op) ([]Rev, error) {
	revs := make([]Rev, len(ops))
	for i, o := range ops {
		var err error
		switch {
		case o.Delete:
			err = k.KV.Delete(ctx, o.Key, o.If)
		case o.Val != nil:
			revs[i], err = k.Put(ctx, o.Key, o.Val, o.If)
		case o.If == RevSome:
			if _, _, err = k.Get(ctx, o.Key); isKind(err, segno.KindNotFound) {
				err = segno.Errorf(segno.KindConflict, "write key", o.Key, "the key does not exist")
			}
		}
		if err == nil && o.Alone {
			err = k.checkAlone(ctx, o.Key)
		}
		if err != nil {
			return nil, err
		}
	}
	return revs, nil
}

func (k oneByOne) checkAlone(ctx context.Context, key string) error {
	for item, err := range k.List(ctx, Group(key), "", 0) {
		if err == nil && item.Key != key {
			err = segno.Errorf(segno.KindConflict, "write key", key, "its group contains other keys")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// touch returns the change that extends the time to live of a group.
func touch(key string, ttl time.Duration) Op { return Op{Key: key, If: RevAny, TTL: ttl} }

// ownLast moves the changes of a thread's own group to the end, so that the KV makes them together, and
// removes repeated changes of a key.
func ownLast(thread segno.ThreadID, ops []Op) []Op {
	own := threadGroup(thread)
	seen := map[string]bool{}
	first, last := make([]Op, 0, len(ops)), []Op(nil)
	for _, o := range ops {
		switch {
		case seen[o.Key]:
			continue
		case Group(o.Key) == own:
			last = append(last, o)
		default:
			first = append(first, o)
		}
		seen[o.Key] = true
	}
	return append(first, last...)
}
