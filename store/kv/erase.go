package kv

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/dalsegno/segno/store/internal/reach"
)

// erasure lists the records that Erase removes. Records are never deleted: a removed node becomes a record
// without content, so that the positions of a log have no gaps.
type erasure struct {
	threads []*threadLog              // the deleted threads
	pins    map[segno.CommitID]string // the pins that stay
	kept    []*segno.Checkpoint
	gone    map[segno.CommitID]reach.Node
	objects []segno.Hash // in the order in which they are removed
}

// threadLog is a thread with its records.
type threadLog struct {
	state   *threadState
	records []*logRecord
}

// Erase implements [segno.Eraser]. It reads the records of all threads. It returns [segno.KindBusy] during a
// commit that refers to values of other threads, and the caller then calls it again. Such commits wait for
// the end of Erase. The package comment lists the copies that the KV itself keeps.
func (s *Store) Erase(ctx context.Context, p segno.CollectPolicy) (done segno.Collection, err error) {
	const op = "erase"
	if !p.DryRun {
		end, err := call(ctx, s, op, "", func() (func(), error) { return s.beginErasing(ctx) })
		if err != nil {
			return done, err
		}
		defer end()
	}
	e, err := call(ctx, s, op, "", func() (*erasure, error) { return s.planErasure(ctx, &p) })
	if err != nil {
		return done, err
	}
	// The policy's Trace calls the store, so no call may be in progress here.
	if e.objects, err = reach.Objects(ctx, s.Objects(), &p, e.kept, reach.Checkpoints(e.gone)); err != nil {
		return done, fail(op, "", err)
	}
	return call(ctx, s, op, "", func() (segno.Collection, error) { return s.remove(ctx, e, p.DryRun) })
}

// planErasure divides the nodes of all threads into those that stay and those that only deleted threads
// reach. A node that a fork has copied is deleted only with the fork.
func (s *Store) planErasure(ctx context.Context, p *segno.CollectPolicy) (*erasure, error) {
	all, err := s.readLogs(ctx)
	if err != nil {
		return nil, err
	}
	e := new(erasure)
	nodes := map[segno.CommitID]reach.Node{}
	var pins []*logRecord
	for _, t := range all {
		if t.state.Deleted {
			e.threads = append(e.threads, t)
		}
		for _, r := range t.records {
			if r.pin != nil && r.at.area == areaLog {
				pins = append(pins, r)
			}
			if !r.node {
				continue
			}
			c, err := r.decodeCheckpoint()
			if err != nil {
				return nil, err
			}
			other, copied := nodes[r.id]
			nodes[r.id] = reach.Node{Parent: r.parent, Checkpoint: c, Deleted: t.state.Deleted && (!copied || other.Deleted)}
		}
	}
	e.pins = pinNames(pins)
	e.kept, e.gone = reach.Split(p, nodes, slices.Collect(maps.Keys(e.pins)))
	return e, nil
}

// readLogs reads all threads, including deleted ones.
func (s *Store) readLogs(ctx context.Context) (all []*threadLog, err error) {
	listed, err := s.listThreads(ctx, threadsGroup)
	if err != nil {
		return nil, err
	}
	for _, x := range listed {
		st, err := s.readState(ctx, x.id, true)
		if err != nil {
			return nil, err
		}
		if !st.Exists {
			continue // the thread expired, or was never made
		}
		t := &threadLog{state: st}
		for _, r := range []run{{x.id, areaLog, 1, st.pos}, {x.id, areaOld, 1, st.copied}} {
			if err := s.eachRecord(ctx, r, func(e *logRecord) error {
				t.records = append(t.records, e)
				return nil
			}); err != nil {
				return nil, err
			}
		}
		all = append(all, t)
	}
	return all, nil
}

// remove removes objects, and rewrites the records of threads. If dryRun is set, it only counts.
func (s *Store) remove(ctx context.Context, e *erasure, dryRun bool) (done segno.Collection, err error) {
	done.Checkpoints = len(reach.Checkpoints(e.gone))
	const renewAfter = 100
	for _, h := range e.objects {
		if done.Objects%renewAfter == 0 && !dryRun {
			if err := s.renewErasing(ctx); err != nil {
				return done, err
			}
		}
		found := false
		if err := s.deleteAll(ctx, s.objectGroup(h), func(item Item) bool {
			found, done.Bytes = true, done.Bytes+int64(len(item.Val))
			return !dryRun
		}); err != nil {
			return done, err
		}
		if found {
			done.Objects++
		}
	}
	for _, t := range e.threads {
		if dryRun {
			break
		}
		if err := s.renewErasing(ctx); err != nil {
			return done, err
		}
		if err := s.eraseThread(ctx, t, e); err != nil {
			return done, err
		}
	}
	return done, nil
}

// deleteAll deletes the keys with a prefix for which choose returns true.
func (s *Store) deleteAll(ctx context.Context, prefix string, choose func(Item) bool) error {
	for item, err := range s.kv.List(ctx, prefix, "", 0) {
		if err == nil && choose(item) {
			err = s.kv.Delete(ctx, item.Key, RevAny)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eraseThread removes the content of a deleted thread, except for content that another thread reaches.
func (s *Store) eraseThread(ctx context.Context, t *threadLog, e *erasure) error {
	tags := map[string]bool{}
	for _, r := range t.records {
		if err := s.eraseRecord(ctx, r, e); err != nil {
			return err
		}
		tags[r.tag] = true
	}
	id := t.state.Head.Thread
	bodies := threadGroup(id) + "body/"
	if err := s.deleteAll(ctx, bodies, func(item Item) bool {
		tag, _, _ := strings.Cut(item.Key[len(bodies):], "/")
		return !tags[tag]
	}); err != nil {
		return err
	}
	st := *t.state
	st.info, st.Link, st.linkPos = segno.Thread{ID: id}, segno.Link{}, 0
	return s.putState(ctx, &st, RevAny)
}

// eraseRecord removes the content of one record of a deleted thread. The record stays, with its ids, because
// a late writer that repeats the commit must find it.
func (s *Store) eraseRecord(ctx context.Context, r *logRecord, e *erasure) (err error) {
	before := r.encode(s.code)
	if len(r.create) > 0 {
		r.create = record.EncodeThread(&segno.Thread{ID: r.owner})
	}
	l, err := r.decodeLink()
	if err == nil && l != nil {
		err = s.kv.Delete(ctx, s.sessionGroup(l.Session)+r.at.lookUpName(), RevAny)
	}
	if err != nil {
		return err
	}
	r.link, r.linkPos = nil, 0
	if r.pin != nil && e.pins[r.pin.Checkpoint] != r.pin.Name {
		r.pin = &segno.Pin{Checkpoint: r.pin.Checkpoint}
	}
	if _, gone := e.gone[r.id]; gone {
		r.node, r.checkpoint, r.objects, r.body, r.tag, r.parts = false, nil, nil, nil, "", 0
	}
	after := r.encode(s.code)
	if bytes.Equal(before, after) {
		return nil
	}
	_, err = s.kv.Put(ctx, r.at.key(), s.code.frame(r.at.key(), after), RevSome)
	return err
}
