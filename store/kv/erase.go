package kv

import (
	"bytes"
	"context"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/reach"
	"github.com/dalsegno/segno/internal/record"
)

// removal is what Erase removes, or a collection. Records are never deleted: a node that goes becomes a
// record without content, so that the positions of a log have no gaps.
type removal struct {
	segno.Collection
	threads []*threadLog              // whose records change
	names   map[segno.CommitID]string // of the pins that stay
	nodes   map[segno.CommitID]reach.Node
	objects []segno.Hash
	erase   bool // also remove what deleted threads have beside nodes
}

// threadLog is a thread with its records.
type threadLog struct {
	state   *threadState
	records []*logRecord
}

// Erase implements [segno.Eraser]. It reads the records of all threads. It returns [segno.KindBusy]
// during a commit that refers to values which Erase could remove; the caller then calls it again. Such
// commits wait for the end of Erase. The package comment lists the copies that the KV itself keeps.
func (s *Store) Erase(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	return s.removeWith(ctx, "erase", &p, func(all []*threadLog) (*removal, error) { return s.planErase(ctx, &p, all, nil) })
}

// removeWith plans a removal and carries it out. Only commits that name nothing that plan could
// remove are made meanwhile.
func (s *Store) removeWith(ctx context.Context, op string, p *segno.CollectPolicy, plan func([]*threadLog) (*removal, error)) (none segno.Collection, err error) {
	if !p.DryRun {
		end, err := call(ctx, s, op, "", func() (func(), error) { return s.beginErasing(ctx) })
		if err != nil {
			return none, err
		}
		defer end()
	}
	all, err := call(ctx, s, op, "", func() ([]*threadLog, error) { return s.readLogs(ctx) })
	if err != nil {
		return none, err
	}
	x, err := plan(all)
	if err != nil {
		return none, fail(op, "", err)
	}
	if p.DryRun {
		return x.Collection, nil
	}
	return x.Collection, s.run(ctx, op, "", func() error {
		return s.remove(ctx, x, func() error { return s.renewErasing(ctx) })
	})
}

// readLogs reads all threads, also those that are deleted.
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
			continue // it expired, or was never made
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

// readNodes returns the nodes of all threads. A node that a fork has copied is deleted only with the
// fork.
func readNodes(all []*threadLog) (map[segno.CommitID]reach.Node, error) {
	nodes := map[segno.CommitID]reach.Node{}
	for _, t := range all {
		for _, e := range t.records {
			if !e.node {
				continue
			}
			c, err := e.decodeCheckpoint()
			if err != nil {
				return nil, err
			}
			other, copied := nodes[e.id]
			nodes[e.id] = reach.Node{Parent: e.parent, Checkpoint: c, Deleted: t.state.Deleted && (!copied || other.Deleted)}
		}
	}
	return nodes, nil
}

// currentPins returns the names of the pins that are set.
func currentPins(all []*threadLog) map[segno.CommitID]string {
	var pins []*logRecord
	for _, t := range all {
		for _, e := range t.records {
			if e.pin != nil && e.at.area == areaLog {
				pins = append(pins, e)
			}
		}
	}
	return pinNames(pins)
}

// planErase plans the removal of what only deleted threads reach. alsoRemoved are checkpoints outside
// the tree whose objects are removed, too, unless a node that stays reaches them.
func (s *Store) planErase(ctx context.Context, p *segno.CollectPolicy, all []*threadLog, alsoRemoved []*segno.Checkpoint) (*removal, error) {
	nodes, err := readNodes(all)
	if err != nil {
		return nil, err
	}
	x := &removal{names: currentPins(all), erase: true}
	for _, t := range all {
		if t.state.Deleted {
			x.threads = append(x.threads, t)
		}
	}
	kept := x.split(p, nodes)
	only, err := reach.Objects(ctx, s.Objects(), p, kept, append(alsoRemoved, reach.Checkpoints(x.nodes)...))
	if err != nil {
		return nil, err
	}
	return x, s.run(ctx, "erase", "", func() error {
		for h := range only {
			if err := s.addObject(ctx, x, h); err != nil {
				return err
			}
		}
		return nil
	})
}

// split divides nodes. It returns the checkpoints that stay, with those that the policy names.
func (x *removal) split(p *segno.CollectPolicy, nodes map[segno.CommitID]reach.Node) (kept []*segno.Checkpoint) {
	var roots []segno.CommitID
	for id := range x.names {
		roots = append(roots, id)
	}
	for i := range p.Checkpoints {
		roots = append(roots, p.Checkpoints[i].ID, p.Checkpoints[i].Parent)
		kept = append(kept, &p.Checkpoints[i])
	}
	keptNodes, removed := reach.Split(nodes, roots)
	x.nodes, x.Checkpoints = removed, len(reach.Checkpoints(removed))
	return append(kept, reach.Checkpoints(keptNodes)...)
}

// addObject adds an object to x, if the store has it.
func (s *Store) addObject(ctx context.Context, x *removal, h segno.Hash) error {
	found := false
	for item, err := range s.kv.List(ctx, s.objectGroup(h), "", 0) {
		if err != nil {
			return err
		}
		x.Bytes += int64(len(item.Val))
		found = true
	}
	if found {
		x.objects, x.Objects = append(x.objects, h), x.Objects+1
	}
	return nil
}

// remove removes objects, and rewrites the records of threads. It calls renew now and then.
func (s *Store) remove(ctx context.Context, x *removal, renew func() error) error {
	const renewAfter = 100
	for i, h := range x.objects {
		if i%renewAfter == 0 {
			if err := renew(); err != nil {
				return err
			}
		}
		if err := s.deleteAll(ctx, s.objectGroup(h), func(string) bool { return true }); err != nil {
			return err
		}
	}
	for _, t := range x.threads {
		if err := renew(); err != nil {
			return err
		}
		if err := s.removeFromThread(ctx, t, x); err != nil {
			return err
		}
	}
	return nil
}

// deleteAll deletes the keys with a prefix that choose chooses by the rest of the key.
func (s *Store) deleteAll(ctx context.Context, prefix string, choose func(rest string) bool) error {
	for item, err := range s.kv.List(ctx, prefix, "", 0) {
		if err != nil {
			return err
		}
		if !choose(item.Key[len(prefix):]) {
			continue
		}
		if err := s.kv.Delete(ctx, item.Key, RevAny); err != nil {
			return err
		}
	}
	return nil
}

// removeFromThread rewrites a thread's records without what goes.
func (s *Store) removeFromThread(ctx context.Context, t *threadLog, x *removal) error {
	tags := map[string]bool{}
	for _, e := range t.records {
		if err := s.removeFromRecord(ctx, e, x); err != nil {
			return err
		}
		tags[e.tag] = true
	}
	id := t.state.Head.Thread
	if err := s.deleteAll(ctx, threadGroup(id)+"body/", func(rest string) bool {
		tag, _, _ := strings.Cut(rest, "/")
		return !tags[tag]
	}); err != nil || !x.erase {
		return err
	}
	st := *t.state
	st.info, st.Link, st.linkPos = segno.Thread{ID: id}, segno.Link{}, 0
	s.states.remove(id)
	key := headKey(id)
	_, err := s.kv.Put(ctx, key, s.code.frame(key, st.encode(s.code)), RevAny)
	return err
}

// removeFromRecord removes from a record what goes. The record stays, with the ids by which a late
// writer learns that its commit was made.
func (s *Store) removeFromRecord(ctx context.Context, e *logRecord, x *removal) error {
	before := e.encode(s.code)
	if x.erase {
		if err := s.eraseDetails(ctx, e, x); err != nil {
			return err
		}
	}
	if _, removed := x.nodes[e.id]; removed {
		e.node, e.checkpoint, e.objects, e.body, e.tag, e.parts = false, nil, nil, nil, "", 0
	}
	after := e.encode(s.code)
	if bytes.Equal(before, after) {
		return nil
	}
	_, err := s.kv.Put(ctx, e.at.key(), s.code.frame(e.at.key(), after), RevSome)
	return err
}

// eraseDetails removes what a record of a deleted thread has beside its node.
func (s *Store) eraseDetails(ctx context.Context, e *logRecord, x *removal) (err error) {
	if len(e.create) > 0 {
		e.create = record.EncodeThread(&segno.Thread{ID: e.owner})
	}
	l, err := e.decodeLink()
	if err != nil {
		return err
	}
	if l != nil {
		if err := s.kv.Delete(ctx, s.sessionGroup(l.Session)+e.at.lookUpName(), RevAny); err != nil {
			return err
		}
	}
	e.link, e.linkPos = nil, 0
	if e.pin != nil && x.names[e.pin.Checkpoint] != e.pin.Name {
		e.pin = &segno.Pin{Checkpoint: e.pin.Checkpoint}
	}
	return nil
}
