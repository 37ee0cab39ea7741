package kv

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
)

// Checkpoints implements [segno.Store]. It yields the checkpoints that existed when it began. For a query
// without a thread, the clocks of the writers order checkpoints of different threads.
func (s *Store) Checkpoints(ctx context.Context, q segno.CheckpointQuery) iter.Seq2[segno.Checkpoint, error] {
	const op = "list checkpoints"
	return func(yield func(segno.Checkpoint, error) bool) {
		if err := ledger.CheckQuery(&q); err != nil {
			yield(segno.Checkpoint{}, err)
			return
		}
		l := &listing{s: s}
		err := s.run(ctx, op, string(q.Thread), func() error { return l.open(ctx, q) })
		for n := 0; err == nil && (q.Limit == 0 || n < q.Limit); {
			var c *segno.Checkpoint
			c, err = call(ctx, s, op, string(q.Thread), func() (*segno.Checkpoint, error) { return l.next(ctx) })
			if c == nil || err != nil {
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
			yield(segno.Checkpoint{}, err)
		}
	}
}

// listing merges the records of threads, newest first. It reads each thread in chunks, so that a short list
// of a long thread is cheap.
type listing struct {
	s       *Store
	streams []*stream
	names   map[segno.CommitID]string // of the pins, if the query is for pinned checkpoints
}

// stream holds the records of one thread, newest first.
type stream struct {
	rest  []run
	ready []*logRecord
	chunk int // the number of records to read at a time
}

func (l *listing) open(ctx context.Context, q segno.CheckpointQuery) (err error) {
	var states []*threadState
	if q.Thread == "" {
		states, err = l.s.visibleThreads(ctx)
	} else if st, readErr := l.s.readState(ctx, q.Thread, false); readErr != nil {
		err = readErr
	} else if st.visible() {
		states = append(states, st)
	}
	if err != nil {
		return err
	}
	if q.Pinned {
		return l.openPinned(ctx, byThread(states))
	}
	// A chunk has some more records than the query's limit, because not every record has a checkpoint. The
	// first chunk of each thread is small, because most of many threads may contribute nothing.
	const readAhead = 8
	chunk := 256
	switch {
	case len(states) > 1:
		chunk = readAhead
	case q.Limit > 0:
		chunk = min(chunk, q.Limit+readAhead)
	}
	for _, st := range states {
		from := st.pos
		if q.Before > 0 {
			from = min(from, uint64(q.Before)+st.pos-uint64(st.Seq)) // records that are not commits have no seq
		}
		l.streams = append(l.streams, &stream{rest: []run{{st.Head.Thread, areaLog, 1, from}}, chunk: chunk})
	}
	return nil
}

// fill reads the next chunks of all streams without a ready record, in one round trip. It repeats that until
// each stream has one or has ended.
func (l *listing) fill(ctx context.Context) error {
	const maxChunk = 256
	for {
		var positions []position
		chunks := map[*stream][]position{}
		for _, x := range l.streams {
			if len(x.ready) == 0 && len(x.rest) > 0 {
				chunks[x], x.rest = splitNewest(x.rest, x.chunk)
				x.chunk = min(4*x.chunk, maxChunk)
				positions = append(positions, chunks[x]...)
			}
		}
		if len(chunks) == 0 {
			return nil
		}
		found, err := l.s.read(ctx, positions)
		for x, chunk := range chunks {
			if err == nil {
				err = l.add(ctx, x, chunk, found)
			}
		}
		if err != nil {
			return err
		}
	}
}

// add adds records to a stream. A record may be missing only if its thread is missing, too.
func (l *listing) add(ctx context.Context, x *stream, positions []position, found map[position]*logRecord) error {
	for _, p := range positions {
		switch e := found[p]; {
		case e == nil:
			if st, err := l.s.readState(ctx, p.thread, false); err != nil || !st.visible() {
				return err
			}
			return missing(p.key())
		case e.checkpoint != nil:
			x.ready = append(x.ready, e)
		}
	}
	return nil
}

// next returns the newest remaining checkpoint, or nil.
func (l *listing) next(ctx context.Context) (*segno.Checkpoint, error) {
	if err := l.fill(ctx); err != nil {
		return nil, err
	}
	l.streams = slices.DeleteFunc(l.streams, func(x *stream) bool { return len(x.ready) == 0 })
	if len(l.streams) == 0 {
		return nil, nil
	}
	newest := slices.MaxFunc(l.streams, func(a, b *stream) int { return cmp.Compare(a.ready[0].stamp, b.ready[0].stamp) })
	e := newest.ready[0]
	newest.ready = newest.ready[1:]
	c, err := e.decodeCheckpoint()
	if err == nil && l.names != nil {
		c.Label = l.names[c.ID]
	}
	return c, err
}

// openPinned makes one stream of all checkpoints that have a pin.
func (l *listing) openPinned(ctx context.Context, threads map[segno.ThreadID]*threadState) error {
	all, found, err := l.s.readLookUps(ctx, pinsGroup)
	if err != nil {
		return err
	}
	var pins []*logRecord
	for _, p := range all {
		switch e := found[p.position]; {
		case e != nil && e.pin != nil:
			pins = append(pins, e)
		case e == nil && mustExist(p.position, threads):
			return missing(p.position.key())
		case e == nil && l.s.options.TTL > 0:
			if err := l.s.removeStale(ctx, p); err != nil {
				return err
			}
		}
	}
	l.names = pinNames(pins)
	x := new(stream)
	for id := range l.names {
		e, err := l.s.find(ctx, id)
		if err != nil {
			return err
		}
		if e != nil && e.checkpoint != nil && threads[e.owner] != nil {
			x.ready = append(x.ready, e)
		}
	}
	slices.SortFunc(x.ready, func(a, b *logRecord) int { return cmp.Compare(b.stamp, a.stamp) })
	l.streams = []*stream{x}
	return nil
}

// pinNames returns the names of the checkpoints that have a pin after all these records.
func pinNames(pins []*logRecord) map[segno.CommitID]string {
	slices.SortFunc(pins, func(a, b *logRecord) int { return cmp.Compare(a.stamp, b.stamp) })
	names := map[segno.CommitID]string{}
	for _, e := range pins {
		if e.pin.Name == "" {
			delete(names, e.pin.Checkpoint)
		} else {
			names[e.pin.Checkpoint] = e.pin.Name
		}
	}
	return names
}
