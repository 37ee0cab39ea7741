package kv

import (
	"context"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/dalsegno/segno"
)

const (
	inlineBody = 64 << 10  // packed entries up to this are in the commit's own record
	mostValue  = 512 << 10 // the longest value; what is longer is cut
)

// aroundOps are the look-ups of a commit. They come before its record: a crash
// between leaves look-ups that lead nowhere.
func (s *Store) aroundOps(w *written, st *state, e *entry) []Op {
	first := s.lookUp(commitGroup(w.ID), e.at)
	first.Alone = true
	ops := []Op{first}
	if w.Link != nil {
		ops = append(ops, s.lookUp(s.sessionGroup(w.Link.Session), e.at))
	}
	if w.Pin != nil {
		op := s.lookUp(pinsGroup, e.at)
		op.TTL = 0
		ops = append(ops, op)
	}
	if e.phase != segno.PhaseDone && (st.phase == segno.PhaseDone || st.phase == segno.PhaseUnknown) {
		ops = append(ops, s.openOp(w.Thread, e.at.pos))
	}
	if w.Create != nil {
		x := known{id: w.Thread, since: s.options.Clock().UnixNano(), key: threadsKey(w.Thread)}
		ops = append(ops, Op{Key: x.key, Val: s.code.frame(x.key, x.encode()), If: RevAny})
	}
	return ops
}

// lookUp is the change that writes a look-up.
func (s *Store) lookUp(group string, at place) Op {
	key := group + at.claim()
	return Op{Key: key, Val: s.code.frame(key, at.content()), If: RevAny, TTL: 2 * s.options.TTL}
}

// bodyTag names a body outside by its commit and its bytes: another zstd may write
// others for the same.
func (s *Store) bodyTag(digest [16]byte, body []byte) string {
	return fmt.Sprintf("%x%08x", digest, s.code.seal.Cuts(body, crc32.ChecksumIEEE))
}

// bodyOps write entries that are too long for a record.
func (s *Store) bodyOps(thread segno.ThreadID, tag string, body []byte) (ops []Op) {
	for part := 0; len(body) > 0; part++ {
		key, n := bodyKey(thread, tag, part), min(len(body), mostValue)
		ops = append(ops, Op{Key: key, Val: s.code.frame(key, body[:n]), If: RevAny, TTL: s.options.TTL})
		body = body[n:]
	}
	return ops
}

// run does ops in their order, and returns the revision the last one made. Once it
// has begun it does not heed the context: a commit is whole or not there.
func (s *Store) run(ctx context.Context, ops []Op) (rev Rev, err error) {
	if err := ctx.Err(); err != nil || len(ops) == 0 {
		return "", err
	}
	ctx = context.WithoutCancel(ctx)
	if s.batcher != nil {
		revs, err := s.batcher.Batch(ctx, ops)
		if err != nil {
			return "", err
		}
		return revs[len(ops)-1], nil
	}
	for _, o := range ops {
		if rev, err = s.do(ctx, o); err != nil {
			return "", err
		}
	}
	return rev, nil
}

// do does one change with what every KV has.
func (s *Store) do(ctx context.Context, o Op) (rev Rev, err error) {
	switch {
	case o.Do == ActDelete:
		return "", s.kv.Delete(ctx, o.Key, o.If)
	case o.Do == ActCheck && o.If == RevSome:
		_, _, err := s.kv.Get(ctx, o.Key)
		if segno.KindOf(err) == segno.KindNotFound {
			return "", conflict(o.Key, "it is not there")
		}
		return "", err
	case o.Do == ActCheck:
		return "", nil
	}
	if rev, err = s.kv.Put(ctx, o.Key, o.Val, o.If); err != nil || !o.Alone {
		return rev, err
	}
	for item, err := range s.kv.List(ctx, Group(o.Key), "", 0) {
		if err != nil {
			return "", err
		}
		if item.Key != o.Key {
			return "", conflict(o.Key, "it is not alone in its group")
		}
	}
	return rev, nil
}

func conflict(key, why string) error {
	return segno.Errorf(segno.KindConflict, "write key", key, "%s", why)
}

// touch gives a group its time again.
func touch(key string, ttl time.Duration) Op { return Op{Do: ActCheck, Key: key, If: RevAny, TTL: ttl} }

// arrange puts what is a thread's own behind all else, so that it is done together,
// and leaves one change of a key out of several that say the same.
func arrange(thread segno.ThreadID, ops []Op) []Op {
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
