package kv

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/phase"
	"github.com/dalsegno/segno/internal/record"
)

// Checkpoints implements [segno.Store]. What it yields is of the moment it began.
// Without a thread it looks at all there are, in the order of their writers'
// clocks, which no commit's order in its own thread depends on.
func (s *Store) Checkpoints(ctx context.Context, q segno.CheckpointQuery) iter.Seq2[segno.Checkpoint, error] {
	const op = "list checkpoints"
	return func(yield func(segno.Checkpoint, error) bool) {
		if q.Before != 0 && q.Thread == "" || q.Before < 0 || q.Limit < 0 {
			yield(segno.Checkpoint{}, segno.Errorf(segno.KindInvalid, op, "", "before needs a thread, and neither it nor limit is negative"))
			return
		}
		l, err := s.listing(ctx, op, q)
		for n := 0; err == nil && (q.Limit == 0 || n < q.Limit); {
			var c *segno.Checkpoint
			if c, err = l.next(ctx); c == nil || err != nil {
				break
			}
			if q.Matches(c) {
				n++
				if !yield(*c, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(segno.Checkpoint{}, fail(op, string(q.Thread), err))
		}
	}
}

// listing is a list of checkpoints under way: a stream of records per thread,
// newest first, merged.
type listing struct {
	s       *Store
	streams []*stream
	labels  map[segno.CommitID]string // the pins, if only those are asked for
}

// stream is a thread's records, newest first.
type stream struct {
	rest  []run
	ready []*entry
	chunk int
}

func (s *Store) listing(ctx context.Context, op string, q segno.CheckpointQuery) (*listing, error) {
	end, err := s.begin(ctx, op)
	if err != nil {
		return nil, err
	}
	defer end()
	l := &listing{s: s}
	var states []*state
	if q.Thread != "" {
		st, err := s.fresh(ctx, q.Thread, false)
		if err != nil {
			return nil, err
		}
		if st != nil && !st.hidden {
			states = []*state{st}
		}
	} else if states, err = s.threads(ctx); err != nil {
		return nil, err
	}
	if q.Pinned {
		return l, l.pinned(ctx, states)
	}
	const few = 8
	for _, st := range states {
		from, chunk := st.pos, 256
		if q.Before > 0 {
			from = min(from, uint64(q.Before)+st.pos-uint64(st.Seq)) // records that are no commits have no seq
		}
		if q.Limit > 0 {
			chunk = min(chunk, q.Limit+few)
		}
		l.streams = append(l.streams, &stream{rest: []run{{st.Thread, areaLog, 1, from}}, chunk: chunk})
	}
	if len(states) > 1 {
		return l, l.start(ctx, few)
	}
	return l, nil
}

// start reads the first few records of all streams at once.
func (l *listing) start(ctx context.Context, few int) error {
	var all []place
	first := make([][]place, len(l.streams))
	for i, x := range l.streams {
		first[i], x.rest = newest(x.rest, few)
		all = append(all, first[i]...)
	}
	found, err := l.s.read(ctx, all)
	for i, x := range l.streams {
		if err == nil {
			err = l.take(ctx, x, first[i], found)
		}
	}
	return err
}

// take adds records to a stream. A record may be gone only if its thread is.
func (l *listing) take(ctx context.Context, x *stream, places []place, found map[place]*entry) error {
	for _, p := range places {
		switch e := found[p]; {
		case e == nil:
			if st, err := l.s.fresh(ctx, p.thread, false); err != nil || st == nil || st.hidden {
				return err
			}
			return missing(p.key())
		case e.checkpoint != nil:
			x.ready = append(x.ready, e)
		}
	}
	return nil
}

// next returns the newest checkpoint that is left, or nil.
func (l *listing) next(ctx context.Context) (*segno.Checkpoint, error) {
	var from *stream
	for _, x := range l.streams {
		for len(x.ready) == 0 && len(x.rest) > 0 {
			if err := l.more(ctx, x); err != nil {
				return nil, err
			}
		}
		if len(x.ready) > 0 && (from == nil || x.ready[0].stamp > from.ready[0].stamp) {
			from = x
		}
	}
	if from == nil {
		return nil, nil
	}
	e := from.ready[0]
	from.ready = from.ready[1:]
	c, err := e.info()
	if err == nil && l.labels != nil {
		c.Label = l.labels[c.ID]
	}
	return c, err
}

func (l *listing) more(ctx context.Context, x *stream) error {
	end, err := l.s.begin(ctx, "list checkpoints")
	if err != nil {
		return err
	}
	defer end()
	places, rest := newest(x.rest, x.chunk)
	found, err := l.s.read(ctx, places)
	x.rest = rest
	if err != nil {
		return err
	}
	return l.take(ctx, x, places, found)
}

// pinned makes one stream of all checkpoints that have a pin now.
func (l *listing) pinned(ctx context.Context, states []*state) error {
	keys, at, err := l.s.lookUps(ctx, pinsGroup)
	if err != nil {
		return err
	}
	found, err := l.s.read(ctx, at)
	if err != nil {
		return err
	}
	shown := byThread(states)
	var sets []*entry
	for i, p := range at {
		e := found[p]
		switch {
		case e != nil && e.pin != nil:
			sets = append(sets, e)
		case e == nil && isBehind(p, shown):
			return missing(p.key())
		case e == nil && l.s.options.TTL > 0:
			if _, err := l.s.stale(ctx, keys[i], p); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(sets, func(a, b *entry) int { return cmp.Compare(a.stamp, b.stamp) })
	l.labels = map[segno.CommitID]string{}
	for _, e := range sets {
		if e.pin.Name == "" {
			delete(l.labels, e.pin.Checkpoint)
		} else {
			l.labels[e.pin.Checkpoint] = e.pin.Name
		}
	}
	x := new(stream)
	for id := range l.labels {
		e, err := l.s.find(ctx, id)
		if err != nil {
			return err
		}
		if e == nil {
			_, at, err := l.s.lookUps(ctx, commitGroup(id))
			if i := slices.IndexFunc(at, func(p place) bool { return isBehind(p, shown) }); err == nil && i >= 0 {
				err = missing(at[i].key())
			}
			if err != nil {
				return err
			}
			continue
		}
		if e.checkpoint != nil && shown[e.thread] != nil {
			x.ready = append(x.ready, e)
		}
	}
	slices.SortFunc(x.ready, func(a, b *entry) int { return cmp.Compare(b.stamp, a.stamp) })
	l.streams = []*stream{x}
	return nil
}

func byThread(states []*state) map[segno.ThreadID]*state {
	threads := map[segno.ThreadID]*state{}
	for _, st := range states {
		threads[st.Thread] = st
	}
	return threads
}

// isBehind reports whether a place is in the log of one of these threads, up to its head: its
// record must be there.
func isBehind(p place, threads map[segno.ThreadID]*state) bool {
	st := threads[p.thread]
	return st != nil && p.area == areaLog && p.pos <= st.pos
}

// threads returns where all threads stand that are not deleted, the most recently
// changed first.
func (s *Store) threads(ctx context.Context) ([]*state, error) {
	listed, err := s.listed(ctx)
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(listed))
	for i, x := range listed {
		keys[i] = headKey(x.id)
	}
	found, err := s.statesAt(ctx, keys, func(i int) segno.ThreadID { return listed[i].id })
	if err != nil {
		return nil, err
	}
	var states []*state
	for i, st := range found {
		if st == nil {
			if err := s.forget(ctx, listed[i]); err != nil {
				return nil, err
			}
		} else if !st.hidden {
			states = append(states, st)
		}
	}
	slices.SortFunc(states, func(a, b *state) int {
		return cmp.Or(cmp.Compare(b.stamp, a.stamp), cmp.Compare(a.Thread, b.Thread))
	})
	return states, nil
}

// statesAt reads where threads stand, from their head keys if those are exact; nil for a
// thread that is not there.
func (s *Store) statesAt(ctx context.Context, keys []string, id func(i int) segno.ThreadID) ([]*state, error) {
	vals := make([][]byte, len(keys))
	if s.batcher != nil {
		var err error
		if vals, err = s.getAll(ctx, keys); err != nil {
			return nil, err
		}
	}
	states := make([]*state, len(keys))
	for i := range keys {
		var err error
		if vals[i] != nil {
			states[i], err = decodeState(s.code, keys[i], vals[i])
		} else {
			states[i], err = s.fresh(ctx, id(i), false)
		}
		if err != nil {
			return nil, err
		}
		if states[i] != nil {
			s.observe(states[i].stamp)
		}
	}
	return states, nil
}

// known is a thread in the list of all; it may not be there yet, or no longer.
type known struct {
	id    segno.ThreadID
	since int64 // when its creation began, in nanoseconds
	key   string
	rev   Rev
}

func (x known) encode() []byte {
	var w writer
	w.text(string(x.id))
	w.int(x.since)
	return w.b
}

func (s *Store) listed(ctx context.Context) (all []known, err error) {
	for item, err := range s.kv.List(ctx, threadsGroup, "", 0) {
		if err != nil {
			return nil, err
		}
		content, err := s.code.unframe(item.Key, item.Val)
		if err != nil {
			return nil, err
		}
		r := reader{b: content}
		x := known{id: segno.ThreadID(r.text()), since: r.int(), key: item.Key, rev: item.Rev}
		if r.err != nil {
			return nil, damaged(item.Key, r.err)
		}
		all = append(all, x)
	}
	return all, nil
}

// forget takes an expired thread off the list, unless somebody makes it again.
func (s *Store) forget(ctx context.Context, x known) error {
	grace := max(s.options.TTL, time.Hour)
	if s.options.TTL == 0 || time.Duration(s.options.Clock().UnixNano()-x.since) < grace {
		return nil
	}
	err := s.kv.Delete(ctx, x.key, x.rev)
	if err != nil && segno.KindOf(err) == segno.KindConflict {
		err = nil
	}
	return err
}

// Threads implements [segno.Store].
func (s *Store) Threads(ctx context.Context, q segno.ThreadQuery) iter.Seq2[segno.Thread, error] {
	const op = "list threads"
	if err := phase.Check(&q); err != nil {
		return func(yield func(segno.Thread, error) bool) { yield(segno.Thread{}, err) }
	}
	if q.Phase != segno.PhaseUnknown {
		return phase.Threads(ctx, s, index{s}, q)
	}
	return func(yield func(segno.Thread, error) bool) {
		found, err := s.query(ctx, op, q)
		for _, st := range found {
			if !yield(st.thread, nil) {
				return
			}
		}
		if err != nil {
			yield(segno.Thread{}, fail(op, "", err))
		}
	}
}

func (s *Store) query(ctx context.Context, op string, q segno.ThreadQuery) ([]*state, error) {
	end, err := s.begin(ctx, op)
	if err != nil {
		return nil, err
	}
	defer end()
	states, err := s.threads(ctx)
	if err != nil {
		return nil, err
	}
	var of map[segno.ThreadID]bool
	if q.Session != "" {
		if of, err = s.ofSession(ctx, q.Session, byThread(states)); err != nil {
			return nil, err
		}
	}
	states = slices.DeleteFunc(states, func(st *state) bool { return q.Session != "" && !of[st.Thread] || !q.Matches(&st.thread) })
	if q.Limit > 0 && len(states) > q.Limit {
		states = states[:q.Limit]
	}
	return states, nil
}

// ofSession returns which of these threads have a session in their chains.
func (s *Store) ofSession(ctx context.Context, session segno.SessionID, threads map[segno.ThreadID]*state) (map[segno.ThreadID]bool, error) {
	_, at, err := s.lookUps(ctx, s.sessionGroup(session))
	if err != nil {
		return nil, err
	}
	found, err := s.read(ctx, at)
	if err != nil {
		return nil, err
	}
	of := map[segno.ThreadID]bool{}
	for _, p := range at {
		e := found[p]
		if e == nil && isBehind(p, threads) {
			return nil, missing(p.key())
		}
		if e != nil {
			l, err := e.session()
			if err != nil {
				return nil, err
			}
			of[p.thread] = of[p.thread] || l != nil && l.Session == session
		}
	}
	return of, nil
}

// session decodes the link a record brought, or returns nil.
func (e *entry) session() (*segno.Link, error) {
	if len(e.link) == 0 {
		return nil, nil
	}
	l, err := record.DecodeLink(e.link)
	if err != nil {
		return nil, damaged(e.at.key(), err)
	}
	return &l, nil
}

// Chain implements [segno.Chains]. It reads the thread's whole log.
func (s *Store) Chain(ctx context.Context, id segno.ThreadID) iter.Seq2[segno.Link, error] {
	const op = "read chain"
	return func(yield func(segno.Link, error) bool) {
		links, err := s.chain(ctx, op, id)
		if err != nil {
			yield(segno.Link{}, fail(op, string(id), err))
			return
		}
		for _, l := range links {
			if !yield(l, nil) {
				return
			}
		}
	}
}

func (s *Store) chain(ctx context.Context, op string, id segno.ThreadID) (links []segno.Link, err error) {
	end, err := s.begin(ctx, op)
	if err != nil {
		return nil, err
	}
	defer end()
	st, err := s.visible(ctx, id, false)
	if err != nil {
		return nil, err
	}
	rest := []run{{id, areaLog, 1, st.pos}}
	var places []place
	for len(rest) > 0 {
		places, rest = newest(rest, mostKeys)
		found, err := s.read(ctx, places)
		if err != nil {
			return nil, err
		}
		for _, p := range places {
			if found[p] == nil {
				return nil, missing(p.key())
			}
			l, err := found[p].session()
			if err != nil {
				return nil, err
			}
			if l != nil {
				links = append(links, *l)
			}
		}
	}
	slices.Reverse(links)
	head := -1
	for i := range links {
		if links[i].Detached {
			continue
		}
		if head >= 0 {
			links[head].End = links[i].Start
		}
		head = i
	}
	return links, nil
}
