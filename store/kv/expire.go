package kv

import (
	"context"
	"slices"
	"time"
)

// The values of a thread expire as one group, and each commit renews that group. Look-ups and objects
// are outside the group. They live twice as long, from the time of writing, and the first commit of a
// thread after one TTL renews those of the thread. They thus never expire before the thread, and the
// cost of a commit does not depend on the length of the thread.

// renew extends the time to live of a thread's look-ups and objects, if that is due.
func (s *Store) renew(ctx context.Context, st, next *threadState) error {
	ttl, now := s.options.TTL, s.options.Clock().UnixNano()
	if ttl == 0 {
		return nil
	}
	if since := time.Duration(now - st.renewed); st.Exists && since >= 0 && since < ttl {
		return nil
	}
	next.renewed = now
	if !st.Exists {
		return nil
	}
	var ops []Op
	for _, r := range []run{{st.Head.Thread, areaLog, 1, st.pos}, {st.Head.Thread, areaOld, 1, st.copied}} {
		if err := s.eachRecord(ctx, r, func(e *logRecord) (err error) {
			ops, err = s.touchAll(ops, e)
			return err
		}); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(ownLast("", ops), maxKeys) {
		if _, err := s.apply(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// touchAll adds the changes that renew the look-ups and objects of a record to ops.
func (s *Store) touchAll(ops []Op, e *logRecord) ([]Op, error) {
	if e.id != "" {
		ops = append(ops, touch(commitGroup(e.id)+e.at.lookUpName(), 2*s.options.TTL))
	}
	l, err := e.decodeLink()
	if l != nil {
		ops = append(ops, touch(s.sessionGroup(l.Session)+e.at.lookUpName(), 2*s.options.TTL))
	}
	for _, h := range e.objects {
		ops = append(ops, touch(s.objectKey(h), s.objectTTL()))
	}
	return ops, err
}

// inherit copies the line on which a fork begins into the group of the fork, so that the line outlives
// its original thread.
func (s *Store) inherit(ctx context.Context, p *pending, e *logRecord, next *threadState) (ops []Op, err error) {
	if p.Parent == "" {
		return nil, nil
	}
	line, err := s.ancestors(ctx, p.Parent, 0)
	if err != nil {
		return nil, err
	}
	bodies, err := s.readBodies(ctx, line)
	if err != nil {
		return nil, err
	}
	// The copies have the positions 1 to n in the fork, oldest first. They keep the ids, digests and
	// sequence numbers of their commits, and the original thread.
	n := uint64(len(line))
	for i, old := range line {
		c := *old
		c.at = position{p.Thread, areaOld, n - uint64(i)}
		if c.node {
			c.line = lineage{runs: []run{{p.Thread, areaOld, 1, c.at.pos}}}
		}
		if c.body = bodies[i]; len(c.body) > inlineBody {
			c.tag = s.bodyTag(c.digest, c.body)
			ops = append(ops, s.bodyOps(p.Thread, c.tag, c.body)...)
			c.body = nil
		}
		ops = append(ops, Op{Key: c.at.key(), Val: s.code.frame(c.at.key(), c.encode(s.code)), If: RevAny, TTL: s.options.TTL})
		ops = append(ops, s.lookUpOp(commitGroup(c.id), c.at))
		for _, h := range c.objects {
			ops = append(ops, touch(s.objectKey(h), s.objectTTL()))
		}
	}
	next.copied = n
	e.line = lineage{runs: []run{{p.Thread, areaOld, 1, n}, {p.Thread, areaLog, e.at.pos, e.at.pos}}}
	return ops, nil
}
