package kv

import (
	"context"
	"time"
)

// What is a thread's own expires as one group, and each commit renews it. What
// crosses threads, look-ups and objects, gets twice that time when it is written,
// and all of a thread's get it again at the first commit after one such time has
// passed: so they never die before the thread, and a commit does not cost more
// the longer the thread is.

// renew gives all that a thread needs outside its group its time, if it is due.
func (s *Store) renew(ctx context.Context, st, next *state) error {
	ttl := s.options.TTL
	now := s.options.Clock().UnixNano()
	if ttl == 0 {
		return nil
	}
	if st.pos == 0 {
		next.renewed = now
		return nil
	}
	if since := time.Duration(now - st.renewed); since >= 0 && since < ttl {
		return nil
	}
	next.renewed = now
	for area, to := range map[byte]uint64{areaLog: st.pos, areaOld: st.copied} {
		rest := []run{{st.Thread, area, 1, to}}
		for {
			var places []place
			if places, rest = newest(rest, mostKeys); len(places) == 0 {
				break
			}
			found, err := s.read(ctx, places)
			if err != nil {
				return err
			}
			var ops []Op
			for _, e := range found {
				if ops, err = s.touchAll(ops, e); err != nil {
					return err
				}
			}
			if _, err := s.run(ctx, arrange("", ops)); err != nil {
				return err
			}
		}
	}
	return nil
}

// touchAll adds what gives the look-ups and objects of a record their time.
func (s *Store) touchAll(ops []Op, e *entry) ([]Op, error) {
	if e.id != "" {
		ops = append(ops, touch(commitGroup(e.id)+e.at.claim(), 2*s.options.TTL))
	}
	l, err := e.session()
	if l != nil {
		ops = append(ops, touch(s.sessionGroup(l.Session)+e.at.claim(), 2*s.options.TTL))
	}
	for _, h := range e.objects {
		ops = append(ops, touch(s.objectKey(h), s.objectTTL()))
	}
	return ops, err
}

// inherit copies the line a fork begins on into the fork's own group, so that it
// outlives the thread it came from.
func (s *Store) inherit(ctx context.Context, w *written, e *entry, next *state) (ops []Op, err error) {
	if w.Parent == "" {
		return nil, nil
	}
	line, err := s.ancestors(ctx, w.Parent, 0)
	if err != nil {
		return nil, err
	}
	bodies, err := s.bodies(ctx, line)
	if err != nil {
		return nil, err
	}
	n := uint64(len(line))
	for i, old := range line {
		c := *old
		c.at = place{w.Thread, areaOld, n - uint64(i)}
		if c.node {
			c.line = lineage{runs: []run{{w.Thread, areaOld, 1, c.at.pos}}}
		}
		if c.body = bodies[i]; len(c.body) > inlineBody {
			c.tag = s.bodyTag(c.digest, c.body)
			ops = append(ops, s.bodyOps(w.Thread, c.tag, c.body)...)
			c.body = nil
		}
		ops = append(ops, Op{Key: c.at.key(), Val: s.code.frame(c.at.key(), c.encode(s.code)), If: RevAny, TTL: s.options.TTL})
		ops = append(ops, s.lookUp(commitGroup(c.id), c.at))
		for _, h := range c.objects {
			ops = append(ops, touch(s.objectKey(h), s.objectTTL()))
		}
	}
	next.copied = n
	e.line = lineage{runs: []run{{w.Thread, areaOld, 1, n}, {w.Thread, areaLog, e.at.pos, e.at.pos}}}
	return ops, nil
}
