package kv

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/reach"
	"github.com/dalsegno/segno/internal/record"
)

// Erase implements [segno.Eraser]. It reads the records of all threads. It returns
// [segno.KindBusy] while another writer commits what it could remove, and the caller calls
// it again; commits of that kind wait for it. The package comment lists the copies that the
// key-value store itself keeps.
func (s *Store) Erase(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	const op = "erase"
	if !p.DryRun {
		end, err := s.begin(ctx, op)
		if err != nil {
			return segno.Collection{}, err
		}
		endErasing, err := s.beginErasing(ctx)
		end()
		if err != nil {
			return segno.Collection{}, fail(op, "", err)
		}
		defer endErasing()
	}
	x, err := s.planErase(ctx, op, &p)
	if err != nil || p.DryRun {
		return x.Collection, fail(op, "", err)
	}
	end, err := s.begin(ctx, op)
	if err != nil {
		return segno.Collection{}, err
	}
	defer end()
	if err := s.eraseObjects(ctx, x); err != nil {
		return segno.Collection{}, fail(op, "", err)
	}
	for _, t := range x.threads {
		if err := s.keepErasing(ctx); err != nil {
			return segno.Collection{}, fail(op, string(t.state.Thread), err)
		}
		if err := s.eraseThread(ctx, t, x); err != nil {
			return segno.Collection{}, fail(op, string(t.state.Thread), err)
		}
	}
	return x.Collection, nil
}

// erasure is what Erase drops.
type erasure struct {
	segno.Collection
	threads []*logged // that are deleted
	pins    map[segno.CommitID]string
	gone    map[segno.CommitID]reach.Node
	objects []segno.Hash
}

// logged is a thread with its records.
type logged struct {
	state   *state
	entries []*entry
}

func (s *Store) planErase(ctx context.Context, op string, p *segno.CollectPolicy) (*erasure, error) {
	x := &erasure{}
	end, err := s.begin(ctx, op)
	if err != nil {
		return x, err
	}
	all, err := s.allLogged(ctx)
	end()
	if err != nil {
		return x, err
	}
	nodes := map[segno.CommitID]reach.Node{}
	for _, t := range all {
		if t.state.hidden {
			x.threads = append(x.threads, t)
		}
		for _, e := range t.entries {
			if !e.node {
				continue
			}
			c, err := e.info()
			if err != nil {
				return x, err
			}
			known, twice := nodes[e.id] // of a fork that copied it
			nodes[e.id] = reach.Node{Parent: e.parent, Checkpoint: c, Deleted: t.state.hidden && (!twice || known.Deleted)}
		}
	}
	x.pins = currentPins(all)
	var roots []segno.CommitID
	for id := range x.pins {
		roots = append(roots, id)
	}
	var kept []*segno.Checkpoint
	for i := range p.Checkpoints {
		roots = append(roots, p.Checkpoints[i].ID, p.Checkpoints[i].Parent)
		kept = append(kept, &p.Checkpoints[i])
	}
	keptNodes, gone := reach.Split(nodes, roots)
	x.gone, x.Checkpoints = gone, len(reach.Checkpoints(gone))
	only, err := reach.Objects(ctx, s.Objects(), p, append(kept, reach.Checkpoints(keptNodes)...), reach.Checkpoints(gone))
	if err != nil {
		return x, err
	}
	return x, s.sizeObjects(ctx, x, only)
}

// allLogged reads all threads, also those that are deleted.
func (s *Store) allLogged(ctx context.Context) (all []*logged, err error) {
	listed, err := s.listed(ctx)
	if err != nil {
		return nil, err
	}
	for _, x := range listed {
		st, err := s.fresh(ctx, x.id, true)
		if err != nil {
			return nil, err
		}
		if st == nil {
			continue // it expired, or was never made
		}
		t := &logged{state: st}
		for rest := []run{{x.id, areaLog, 1, st.pos}, {x.id, areaOld, 1, st.copied}}; ; {
			var places []place
			if places, rest = newest(rest, mostKeys); len(places) == 0 {
				break
			}
			found, err := s.read(ctx, places)
			if err != nil {
				return nil, err
			}
			for _, p := range places {
				if found[p] == nil {
					return nil, missing(p.key())
				}
				t.entries = append(t.entries, found[p])
			}
		}
		all = append(all, t)
	}
	return all, nil
}

// currentPins returns the pins that are set.
func currentPins(all []*logged) map[segno.CommitID]string {
	var sets []*entry
	for _, t := range all {
		for _, e := range t.entries {
			if e.pin != nil && e.at.area == areaLog {
				sets = append(sets, e)
			}
		}
	}
	slices.SortFunc(sets, func(a, b *entry) int { return cmp.Compare(a.stamp, b.stamp) })
	pins := map[segno.CommitID]string{}
	for _, e := range sets {
		if e.pin.Name == "" {
			delete(pins, e.pin.Checkpoint)
		} else {
			pins[e.pin.Checkpoint] = e.pin.Name
		}
	}
	return pins
}

// sizeObjects notes those of names that the store has.
func (s *Store) sizeObjects(ctx context.Context, x *erasure, names map[segno.Hash]bool) error {
	end, err := s.begin(ctx, "erase")
	if err != nil {
		return err
	}
	defer end()
	for h := range names {
		items, size, err := s.objectItems(ctx, h)
		if err != nil {
			return err
		}
		if len(items) > 0 {
			x.objects, x.Objects, x.Bytes = append(x.objects, h), x.Objects+1, x.Bytes+size
		}
	}
	return nil
}

func (s *Store) objectItems(ctx context.Context, h segno.Hash) (items []Item, size int64, err error) {
	for item, err := range s.kv.List(ctx, s.objectGroup(h), "", 0) {
		if err != nil {
			return nil, 0, err
		}
		items, size = append(items, item), size+int64(len(item.Val))
	}
	return items, size, nil
}

// eraseObjects removes objects.
func (s *Store) eraseObjects(ctx context.Context, x *erasure) error {
	const some = 100
	for i, h := range x.objects {
		if i%some == 0 {
			if err := s.keepErasing(ctx); err != nil {
				return err
			}
		}
		items, _, err := s.objectItems(ctx, h)
		if err != nil {
			return err
		}
		for _, item := range items {
			if err := s.kv.Delete(ctx, item.Key, RevAny); err != nil {
				return err
			}
		}
	}
	return nil
}

// eraseThread writes a deleted thread's records again without what goes.
func (s *Store) eraseThread(ctx context.Context, t *logged, x *erasure) error {
	bodies := map[string]bool{}
	for _, e := range t.entries {
		if err := s.eraseEntry(ctx, e, x); err != nil {
			return err
		}
		bodies[e.tag] = true
	}
	prefix := threadGroup(t.state.Thread) + "body/"
	for item, err := range s.kv.List(ctx, prefix, "", 0) {
		if err != nil {
			return err
		}
		tag, _, _ := bytes.Cut([]byte(item.Key[len(prefix):]), []byte("/"))
		if bodies[string(tag)] {
			continue
		}
		if err := s.kv.Delete(ctx, item.Key, RevAny); err != nil {
			return err
		}
	}
	st := t.state.clone()
	st.thread, st.Link, st.linkPos = segno.Thread{ID: st.Thread}, segno.Link{}, 0
	packed, err := st.encode(s.code)
	if err != nil {
		return err
	}
	s.states.drop(st.Thread)
	key := headKey(st.Thread)
	_, err = s.kv.Put(ctx, key, s.code.frame(key, packed), RevAny)
	return err
}

// eraseEntry takes out of a record what goes: it stays at its place, with the ids that tell
// a late writer that its commit was made.
func (s *Store) eraseEntry(ctx context.Context, e *entry, x *erasure) error {
	before := e.encode(s.code)
	if len(e.create) > 0 {
		rec, err := record.EncodeThread(&segno.Thread{ID: e.thread})
		if err != nil {
			return err
		}
		e.create = rec
	}
	if l, err := e.session(); err != nil {
		return err
	} else if l != nil {
		if err := s.kv.Delete(ctx, s.sessionGroup(l.Session)+e.at.claim(), RevAny); err != nil {
			return err
		}
	}
	e.link, e.linkPos = nil, 0
	if e.pin != nil && x.pins[e.pin.Checkpoint] != e.pin.Name {
		e.pin = &segno.Pin{Checkpoint: e.pin.Checkpoint}
	}
	if _, gone := x.gone[e.id]; gone {
		e.node, e.checkpoint, e.objects, e.body, e.tag, e.parts = false, nil, nil, nil, "", 0
	}
	after := e.encode(s.code)
	if bytes.Equal(before, after) {
		return nil
	}
	_, err := s.kv.Put(ctx, e.at.key(), s.code.frame(e.at.key(), after), RevSome)
	return err
}
