package kv

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// written is a commit worked out as far as it goes without the KV.
type written struct {
	segno.Commit
	digest     [16]byte
	checkpoint []byte // encoded, nil without one
	body       []byte // packed entries, nil without any
	create     []byte // an encoded thread
	link       []byte // an encoded link
	refs       []segno.Hash
	packed     []kept // what is in the packs it names
}

// Commit implements [segno.Store]. The first try takes the thread to be as this
// store saw it last: then a commit is one round trip. Whatever stands in its way
// is looked at before it is an error.
func (s *Store) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	const op = "commit"
	if err := c.Check(); err != nil {
		return segno.Head{}, err
	}
	end, err := s.begin(ctx, op)
	if err != nil {
		return segno.Head{}, err
	}
	defer end()
	w, err := s.workOut(c)
	if err != nil {
		return segno.Head{}, err
	}
	if w.packed, err = s.openPacks(ctx, c.Staged.Packs); err != nil {
		return segno.Head{}, fail(op, string(c.ID), err)
	}
	head, err := s.besideErasures(ctx, &w.Commit, func() (segno.Head, error) { return s.commit(ctx, w) })
	if err != nil {
		s.states.drop(c.Thread)
		return segno.Head{}, fail(op, string(c.ID), err)
	}
	s.notifier.Notify(c.Thread)
	return head, nil
}

func (s *Store) commit(ctx context.Context, w *written) (segno.Head, error) {
	if st, ok := s.states.get(w.Thread); ok {
		if from, ok := w.plain(st); ok {
			next, err := s.write(ctx, w, st, from)
			if segno.KindOf(err) != segno.KindConflict {
				return headOf(next), err
			}
		}
	}
	for try := 0; ; try++ {
		head, done, err := s.repeated(ctx, w)
		if err != nil || done {
			return head, err
		}
		st, err := s.fresh(ctx, w.Thread, try > 0)
		if err != nil {
			return segno.Head{}, err
		}
		if st, err = w.threadFor(st); err != nil {
			return segno.Head{}, err
		}
		from, err := s.admit(ctx, st, w)
		if err != nil {
			return segno.Head{}, err
		}
		next, err := s.write(ctx, w, st, from)
		if segno.KindOf(err) != segno.KindConflict {
			return headOf(next), err
		}
		if err := ctx.Err(); err != nil {
			return segno.Head{}, err
		}
	}
}

func headOf(st *state) segno.Head {
	if st == nil {
		return segno.Head{}
	}
	return st.clone().Head
}

// workOut hashes, encodes and compresses.
func (s *Store) workOut(c segno.Commit) (*written, error) {
	digest, err := c.Digest()
	if err != nil {
		return nil, err
	}
	w := &written{Commit: c, refs: c.Refs()}
	digest = s.code.seal.Hash("commit", digest)
	copy(w.digest[:], digest[:])
	if c.Checkpoint != nil {
		if w.checkpoint, err = record.EncodeCheckpoint(c.Checkpoint, len(c.Entries) > 0); err != nil {
			return nil, invalid(c.ID, err)
		}
	}
	if len(c.Entries) > 0 {
		rec, err := record.EncodeEntries(c.Entries, c.Checkpoint != nil)
		if err != nil {
			return nil, invalid(c.ID, err)
		}
		w.body = s.code.Pack(rec)
	}
	if c.Create != nil {
		if w.create, err = record.EncodeThread(c.Create); err != nil {
			return nil, invalid(c.ID, err)
		}
	}
	if c.Link != nil {
		if w.link, err = record.EncodeLink(c.Link); err != nil {
			return nil, invalid(c.ID, err)
		}
	}
	return w, nil
}

func invalid(id segno.CommitID, err error) error {
	return segno.NewError(segno.KindInvalid, "commit", string(id), err)
}

// repeated reports whether the store has a commit of that id, and if it is the
// same one gives its result again. What writers left who never made theirs is
// taken away, if they never can.
func (s *Store) repeated(ctx context.Context, w *written) (head segno.Head, done bool, err error) {
	keys, at, err := s.lookUps(ctx, commitGroup(w.ID))
	if err != nil {
		return head, false, err
	}
	found, err := s.read(ctx, at)
	if err != nil {
		return head, false, err
	}
	inherited := false
	for i, p := range at {
		e := found[p]
		switch {
		case e != nil && e.id == w.ID && p.area == areaLog:
			head, err = s.again(ctx, w, e)
			return head, true, err
		case e != nil && e.id == w.ID:
			inherited = true
		case e != nil:
			if err := s.kv.Delete(ctx, keys[i], RevAny); err != nil {
				return head, false, err
			}
		default:
			if err := s.begun(ctx, w, keys[i], p); err != nil {
				return head, false, err
			}
		}
	}
	if inherited {
		err = segno.Errorf(segno.KindNotFound, "commit", string(w.Thread), "the thread has expired")
	}
	return head, false, err
}

// begun judges a look-up of a commit that leads to a place where nothing is: its
// writer may be about to write there.
func (s *Store) begun(ctx context.Context, w *written, key string, p place) error {
	next, err := s.stale(ctx, key, p)
	switch {
	case err != nil || p.area == areaOld:
		return err
	case p.pos == next && p.thread != w.Thread:
		return segno.Errorf(segno.KindConflict, "commit", string(w.ID), "a commit of that id was begun in thread %s", p.thread)
	case p.pos < next:
		if found, err := s.read(ctx, []place{p}); err != nil || found[p] != nil {
			return err
		}
		return missing(p.key())
	}
	return nil
}

// again returns the result of a commit that was made.
func (s *Store) again(ctx context.Context, w *written, e *entry) (segno.Head, error) {
	st, err := s.fresh(ctx, e.thread, false)
	if err != nil {
		return segno.Head{}, err
	}
	if st != nil && st.hidden {
		return segno.Head{}, segno.NewError(segno.KindNotFound, "commit", string(w.Thread), nil)
	}
	if e.digest != w.digest {
		return segno.Head{}, segno.Errorf(segno.KindConflict, "commit", string(w.ID), "another commit has that id")
	}
	head := segno.Head{Thread: e.thread, Head: e.head, Tip: e.tip, Seq: e.seq, Turn: e.high, Epoch: e.epoch}
	if e.linkPos == 0 {
		return head, nil
	}
	from := place{e.at.thread, areaLog, e.linkPos}
	found, err := s.read(ctx, []place{from})
	if err != nil {
		return head, err
	}
	if found[from] == nil {
		return head, missing(from.key())
	}
	if head.Link, err = record.DecodeLink(found[from].link); err != nil {
		return head, damaged(from.key(), err)
	}
	return head, nil
}

// write writes a commit that was admitted, and returns where the thread stands
// then. [segno.KindConflict] means that something is not as it was taken to be,
// and the commit was not made.
func (s *Store) write(ctx context.Context, w *written, st *state, from standpoint) (*state, error) {
	e := s.entryFor(w, st, from)
	next, err := st.after(e)
	if err != nil {
		return nil, err
	}
	if next.line.runs == nil {
		next.line, next.turn = from.headLine, from.headTurn
	}
	if err := s.renew(ctx, st, next); err != nil {
		return nil, err
	}
	ops := append(s.objectOps(w), s.aroundOps(w, st, e)...)
	if w.Create != nil && s.options.TTL > 0 {
		inherited, err := s.inherit(ctx, w, e, next)
		if err != nil {
			return nil, err
		}
		ops = append(ops, inherited...)
		if e.head == e.id {
			next.line = e.line
		}
	}
	if e.parts > 0 {
		ops = append(ops, s.bodyOps(w.Thread, e.tag, w.body)...)
	}
	next, err = s.append(ctx, st, next, e, ops)
	if err == nil && e.phase == segno.PhaseDone && st.pos > 0 && st.phase != segno.PhaseDone {
		s.closeOpen(context.WithoutCancel(ctx), w.Thread, e.at.pos)
	}
	return next, err
}

// append writes ops and then the record e, which makes next of st.
func (s *Store) append(ctx context.Context, st, next *state, e *entry, ops []Op) (*state, error) {
	key, head := e.at.key(), headKey(e.at.thread)
	packed, err := next.encode(s.code)
	if err != nil {
		return nil, err
	}
	ops = append(ops, Op{Key: key, Val: s.code.frame(key, e.encode(s.code)), If: RevNone, TTL: s.options.TTL})
	val := s.code.frame(head, packed)
	if s.batcher != nil {
		ops = append(ops, Op{Key: head, Val: val, If: st.rev, TTL: s.options.TTL})
	}
	if next.rev, err = s.run(ctx, arrange(e.at.thread, ops)); err != nil {
		return nil, err
	}
	if s.batcher == nil {
		// The record is there: it is done. This is the hint where to look for it, and
		// one that is not there or old costs a reader time and nothing else.
		_, _ = s.kv.Put(context.WithoutCancel(ctx), head, val, RevAny)
	}
	s.saw(next)
	return next, nil
}

// entryFor makes the record of a commit.
func (s *Store) entryFor(w *written, st *state, from standpoint) *entry {
	e := st.entryAfter(w.Thread)
	e.id, e.parent, e.node, e.digest = w.ID, w.Parent, w.IsNode(), w.digest
	e.seq++
	e.stamp = max(s.stamp(), st.stamp+1)
	e.turn = from.turn
	if w.Create != nil {
		e.create, e.high = w.create, from.turn
	}
	if w.Checkpoint != nil {
		e.checkpoint, e.turn = w.checkpoint, w.Checkpoint.Turn
		e.high = max(e.high, e.turn)
	}
	if e.node {
		e.line = from.line.extend(e.at)
	}
	move := segno.Move{Head: e.head, Tip: e.tip}
	switch {
	case w.Move != nil:
		move = *w.Move
	case e.node:
		move = segno.Move{Head: segno.Self, Tip: segno.Self}
	}
	e.head, e.tip = itself(move.Head, w.ID), itself(move.Tip, w.ID)
	if w.Link != nil {
		e.link = w.link
		if !w.Link.Detached {
			e.linkPos = e.at.pos
		}
	}
	e.pin, e.phase = w.Pin, segno.NextPhase(st.phase, &w.Commit)
	if s.options.TTL > 0 {
		e.objects = w.objects()
	}
	if e.body = w.body; len(w.body) > inlineBody {
		e.body, e.tag = nil, s.bodyTag(w.digest, w.body)
		e.parts = (len(w.body) + mostValue - 1) / mostValue
	}
	return e
}

func itself(id, self segno.CommitID) segno.CommitID {
	if id == segno.Self {
		return self
	}
	return id
}
