package kv

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
	"github.com/dalsegno/segno/internal/store/record"
)

// pending is a commit that is encoded as far as possible without the KV.
type pending struct {
	segno.Commit
	digest     [16]byte
	checkpoint []byte // encoded; nil if there is none
	body       []byte // packed entries; nil if there are none
	create     []byte // an encoded thread
	link       []byte // an encoded link
	repeated   bool   // an earlier call made it
}

// Commit implements [segno.Store]. The first attempt assumes that the thread is unchanged since this store
// last read it, so that the commit takes one round trip. If that assumption causes a conflict, Commit reads
// the thread again and retries.
func (s *Store) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	digest, err := ledger.Prepare(&c)
	if err != nil {
		return segno.Head{}, err
	}
	p := &pending{Commit: c}
	head, err := call(ctx, s, "commit", string(c.ID), func() (head segno.Head, err error) {
		s.encode(p, digest)
		err = s.besideErasures(ctx, &c, func() (err error) {
			head, err = s.commitRetrying(ctx, p)
			return err
		})
		return head, err
	})
	if err != nil {
		s.states.remove(c.Thread)
		return segno.Head{}, err
	}
	s.notifier.Notify(c.Thread)
	return head, nil
}

// encode computes the digest, and encodes and compresses the parts of the commit.
func (s *Store) encode(p *pending, digest segno.Hash) {
	digest = s.code.seal.Hash("commit", digest)
	copy(p.digest[:], digest[:])
	if p.Checkpoint != nil {
		p.checkpoint = record.EncodeCheckpoint(p.Checkpoint, len(p.Entries) > 0)
	}
	if len(p.Entries) > 0 {
		p.body = s.code.Pack(record.EncodeEntries(p.Entries, p.Checkpoint != nil))
	}
	if p.Create != nil {
		p.create = record.EncodeThread(p.Create)
	}
	if p.Link != nil {
		p.link = record.EncodeLink(p.Link)
	}
}

// commitRetrying retries as long as another writer is faster but does not move the head.
func (s *Store) commitRetrying(ctx context.Context, p *pending) (segno.Head, error) {
	if st, ok := s.states.get(p.Thread); ok {
		if a := (&admission{parent: branch{st.line, st.turn}, head: branch{st.line, st.turn}}); p.continues(st) {
			head, err := s.write(ctx, p, st, a)
			if !isKind(err, segno.KindConflict) {
				return head, err
			}
		}
	}
	for doubt := false; ; doubt = true {
		head, err := s.findRepeated(ctx, p)
		if err != nil || p.repeated {
			return head, err
		}
		st, err := s.readState(ctx, p.Thread, doubt)
		if err != nil {
			return segno.Head{}, err
		}
		a := &admission{ctx: ctx, s: s, p: p, head: branch{st.line, st.turn}}
		if err := ledger.Admit(&st.Thread, &p.Commit, a); err != nil {
			return segno.Head{}, err
		}
		head, err = s.write(ctx, p, st, a)
		if !isKind(err, segno.KindConflict) {
			return head, err
		}
		if err := ctx.Err(); err != nil {
			return segno.Head{}, err
		}
	}
}

// continues reports whether p extends the line of st's head and names no other commit. st may be stale.
func (p *pending) continues(st *threadState) bool {
	return p.Create == nil && p.Move == nil && p.Pin == nil && p.Operation == nil && p.Parent == st.Head.Head && st.line.runs != nil &&
		ledger.AdmitHead(&st.Thread, &p.Commit) == nil
}

// branch holds the line of a node, and its turn. The record of a child contains both.
type branch struct {
	line lineage
	turn int
}

// admission is the [ledger.Reader] of a commit. It keeps the branches that the commit's record needs.
type admission struct {
	ctx    context.Context
	s      *Store
	p      *pending
	parent branch
	head   branch // of the node to which the commit moves the head, if it is another node
}

func (a *admission) HasNode(id segno.CommitID) (bool, error) {
	e, err := a.s.find(a.ctx, id)
	if err != nil || e == nil {
		return false, err
	}
	if id == a.p.Parent {
		a.parent = branch{e.line, e.lineTurn}
	}
	if a.p.Move != nil && id == a.p.Move.Head {
		a.head = branch{e.line, e.lineTurn}
	}
	return true, nil
}

func (a *admission) HasCheckpoint(id segno.CommitID) (bool, error) {
	e, err := a.s.find(a.ctx, id)
	return e != nil && e.checkpoint != nil, err
}

// HasOperation returns false, because the store does not keep operations.
func (a *admission) HasOperation(segno.OperationID) (bool, error) { return false, nil }

func (a *admission) MissingObject(names []segno.Hash) (segno.Hash, error) {
	return a.s.missingObject(a.ctx, names)
}

// findRepeated looks for a commit with p's id. If it is the same commit, findRepeated sets p.repeated and
// returns the recorded result. It removes look-ups of writers that can no longer make their commit.
func (s *Store) findRepeated(ctx context.Context, p *pending) (head segno.Head, err error) {
	all, found, err := s.readLookUps(ctx, commitGroup(p.ID))
	if err != nil {
		return head, err
	}
	inherited := false
	for _, l := range all {
		// A look-up may refer to the commit itself, to the copy of it that a fork inherited from an expired
		// thread, to another commit that was faster, or to a position without a record. expired, to another
		// commit that was faster, or to a position without a record.
		e := found[l.position]
		switch {
		case e != nil && e.id == p.ID && l.area == areaLog:
			p.repeated = true
			return s.repeatedResult(ctx, p, e)
		case e != nil && e.id == p.ID:
			inherited = true
		case e != nil:
			err = s.kv.Delete(ctx, l.key, RevAny)
		default:
			err = s.checkBegun(ctx, p, l)
		}
		if err != nil {
			return head, err
		}
	}
	if inherited {
		err = segno.Errorf(segno.KindNotFound, "commit", string(p.Thread), "the thread has expired")
	}
	return head, err
}

// checkBegun handles a look-up of p's id whose position has no record. Its writer may be about to write the
// record. If the position is in p's thread, only one of the two writers can create it. If it is in another
// thread, p must not be committed.
func (s *Store) checkBegun(ctx context.Context, p *pending, l lookUp) error {
	isNext, err := s.checkLookUp(ctx, l)
	switch {
	case err != nil:
		return err
	case isNext && l.thread != p.Thread:
		return segno.Errorf(segno.KindConflict, "commit", string(p.ID), "a commit with this id was started in thread %s", l.thread)
	}
	return s.removeStale(ctx, l)
}

// repeatedResult returns the recorded result of p, if e is its record.
func (s *Store) repeatedResult(ctx context.Context, p *pending, e *logRecord) (segno.Head, error) {
	st, err := s.readState(ctx, e.owner, false)
	if err == nil {
		err = ledger.Repeat(&p.Commit, st.Deleted, e.digest == p.digest)
	}
	if err != nil || e.linkPos == 0 {
		return e.Head, err
	}
	at := position{e.at.thread, areaLog, e.linkPos}
	found, err := s.read(ctx, []position{at})
	if err != nil {
		return segno.Head{}, err
	}
	if found[at] == nil {
		return segno.Head{}, missing(at.key())
	}
	head := e.Head
	if l, err := found[at].decodeLink(); err != nil {
		return segno.Head{}, err
	} else if l != nil {
		head.Link = *l
	}
	return head, nil
}

// write writes a commit that was admitted to st. [segno.KindConflict] means that the KV has changed since a
// and st were read, and that the commit was not made.
func (s *Store) write(ctx context.Context, p *pending, st *threadState, a *admission) (segno.Head, error) {
	e := s.recordOf(p, st, a)
	next, err := st.after(e)
	if err != nil {
		return segno.Head{}, err
	}
	if next.line.runs == nil { // the commit moves the head to another node
		next.line, next.turn = a.head.line, a.head.turn
	}
	ops := append(s.objectOps(&p.Commit), s.lookUpOps(p, st, e)...)
	if p.Create != nil && s.options.TTL > 0 {
		inherited, err := s.inherit(ctx, p, e, next)
		if err != nil {
			return segno.Head{}, err
		}
		ops = append(ops, inherited...)
		if e.Head.Head == e.id {
			next.line = e.line
		}
	}
	if e.parts > 0 {
		ops = append(ops, s.bodyOps(p.Thread, e.tag, p.body)...)
	}
	if err := s.putRecord(ctx, st, next, e, ops); err != nil {
		return segno.Head{}, err
	}
	// Remove the key in openGroup only after the record is written, because until then a reader must find the
	// thread.
	if e.Phase == segno.PhaseDone && st.pos > 0 && st.Phase != segno.PhaseDone {
		s.closeOpen(context.WithoutCancel(ctx), p.Thread, e.at.pos)
	}
	return next.headCopy(), nil
}

// recordOf returns the record of a commit that follows st.
func (s *Store) recordOf(p *pending, st *threadState, a *admission) *logRecord {
	e := s.nextRecord(st)
	e.Thread = ledger.Next(&st.Thread, &p.Commit, a.parent.turn)
	e.id, e.parent, e.node, e.digest, e.pin = p.ID, p.Parent, p.IsNode(), p.digest, p.Pin
	e.create, e.link, e.checkpoint = p.create, p.link, p.checkpoint
	e.lineTurn = ledger.Turn(&p.Commit, a.parent.turn)
	if e.node {
		e.line = a.parent.line.extend(e.at)
	}
	if p.Link != nil && !p.Link.Detached {
		e.linkPos = e.at.pos
	}
	if s.options.TTL > 0 {
		e.objects = objectsOf(&p.Commit)
	}
	if e.body = p.body; len(p.body) > inlineBody {
		e.body, e.tag = nil, s.bodyTag(p.digest, p.body)
		e.parts = (len(p.body) + maxValue - 1) / maxValue
	}
	return e
}
