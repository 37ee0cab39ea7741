package search

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// Freshness reports what an index does not have yet.
type Freshness struct {
	Pending int64 `json:"pending"` // commits of threads
	Damaged int   `json:"damaged"` // checkpoints that cannot be read
	// PendingSessions are sessions that were not read, and DamagedSessions those that cannot be read.
	PendingSessions int `json:"pending_sessions"`
	DamagedSessions int `json:"damaged_sessions"`
}

// IsComplete reports whether the index has everything.
func (f Freshness) IsComplete() bool { return f == Freshness{} }

// batchBytes is the text of one segment, at most. The builder needs a few times as much memory.
const batchBytes = 64 << 20

// Update adds the commits that the index lacks, until a deadline, and forgets deleted threads. After an error of the index
// itself, the answers are right but may be slower. progress may be nil.
func (x *Index) Update(ctx context.Context, r *Reader, deadline time.Time, progress func(done, total int64)) (Freshness, error) {
	u := &update{index: x, reader: r, deadline: deadline, progress: progress}
	defer u.end()
	err := u.run(ctx)
	return u.fresh, err
}

type update struct {
	index    *Index
	reader   *Reader
	deadline time.Time
	progress func(done, total int64)
	builder  *builder
	done     int64
	total    int64
	fresh    Freshness
}

// span is a part of a thread that the index lacks.
type span struct {
	thread   segno.ThreadID
	from, to int64
}

func (u *update) run(ctx context.Context) error {
	x := u.index
	x.mu.Lock()
	defer x.mu.Unlock()
	heads, err := u.heads(ctx)
	if err != nil {
		return err
	}
	x.readDir()
	if missing := x.missing(heads); len(missing) > 0 {
		unlock, err := x.lock(ctx)
		switch {
		case segno.KindOf(err) == segno.KindBusy: // another process adds them, or removes the index
			u.fresh.Pending = length(missing)
		case err != nil:
			return err
		default:
			defer unlock()
			x.readDir() // another process may have added them
			if err := u.addAll(ctx, x.missing(heads)); err != nil {
				return err
			}
		}
	}
	x.heads = heads
	x.markSources()
	return nil
}

// lock excludes other processes.
func (x *Index) lock(ctx context.Context) (unlock func(), err error) {
	if x.config.Lock == nil {
		return func() {}, nil
	}
	return x.config.Lock(ctx)
}

func length(spans []span) (n int64) {
	for _, s := range spans {
		n += s.to - s.from + 1
	}
	return n
}

// linkReader is implemented by stores that read the links of all threads at once, with the seqs of the newest commits.
type linkReader interface {
	EachLink(ctx context.Context, visit func(thread segno.ThreadID, seq int64, l segno.Link, isHead bool)) error
}

// heads returns the seqs of the newest commits of all threads.
func (u *update) heads(ctx context.Context) (map[segno.ThreadID]int64, error) {
	heads := map[segno.ThreadID]int64{}
	var ids []segno.ThreadID
	for t, err := range u.reader.Store.Threads(ctx, segno.ThreadQuery{}) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, t.ID)
	}
	if all, ok := u.reader.Store.(linkReader); ok { // one query instead of one for each thread
		err := all.EachLink(ctx, func(thread segno.ThreadID, seq int64, _ segno.Link, _ bool) { heads[thread] = seq })
		if err != nil && segno.KindOf(err) != segno.KindCorrupt {
			return nil, err
		}
	}
	for _, id := range ids {
		if heads[id] > 0 {
			continue
		}
		h, err := u.reader.Store.Head(ctx, id)
		if segno.KindOf(err) == segno.KindNotFound {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		heads[id] = h.Seq
	}
	return heads, nil
}

// missing returns the parts of threads that no segment has, the newest of each thread first.
func (x *Index) missing(heads map[segno.ThreadID]int64) (spans []span) {
	has := map[segno.ThreadID][]*Source{}
	for _, s := range x.segs {
		for i := range s.sources {
			if o := &s.sources[i]; !o.isSession() {
				has[o.Thread] = append(has[o.Thread], o)
			}
		}
	}
	for thread, to := range heads {
		slices.SortFunc(has[thread], func(a, b *Source) int { return cmp.Compare(b.To, a.To) })
		for _, o := range has[thread] {
			if o.To < to {
				spans = append(spans, span{thread, o.To + 1, to})
			}
			to = min(to, o.From-1)
		}
		if to > 0 {
			spans = append(spans, span{thread, 1, to})
		}
	}
	return spans
}

// isPresent reports whether the thread of a source exists, or the session in this state.
func (x *Index) isPresent(s *Source) bool {
	if s.isSession() {
		return s.Stamp != "" && x.sessions[s.sessionKey()] == s.Stamp
	}
	return x.heads[s.Thread] > 0
}

// markSources hides sources that are not results, and sets which checkpoints others replace.
func (x *Index) markSources() {
	replaced := map[segno.ThreadID]map[int64]bool{}
	for _, s := range x.segs {
		for i := range s.sources {
			for _, seq := range s.sources[i].Replaced {
				of := replaced[s.sources[i].Thread]
				if of == nil {
					of = map[int64]bool{}
					replaced[s.sources[i].Thread] = of
				}
				of[seq] = true
			}
		}
	}
	for _, s := range x.segs {
		for i := range s.sources {
			s.hidden[i], s.replaced[i] = !x.isPresent(&s.sources[i]), replaced[s.sources[i].Thread]
		}
	}
}

// addAll adds spans. It stops at the deadline, and then counts the rest.
func (u *update) addAll(ctx context.Context, spans []span) error {
	u.total = length(spans)
	for _, s := range spans {
		if err := u.addSpan(ctx, s); err != nil {
			return err
		}
	}
	if err := u.flush(); err != nil {
		return err
	}
	return u.index.mergeSmall()
}

func (u *update) isLate() bool { return time.Now().After(u.deadline) }

// addSpan adds the checkpoints of a span, the newest first.
func (u *update) addSpan(ctx context.Context, s span) error {
	if u.isLate() {
		u.fresh.Pending += s.to - s.from + 1
		return nil
	}
	amended := map[segno.CommitID]bool{}
	u.begin(Source{Thread: s.thread, From: s.to + 1, To: s.to})
	for c, err := range u.reader.Store.Checkpoints(ctx, segno.CheckpointQuery{Thread: s.thread, Before: s.to + 1}) {
		if err != nil {
			return err
		}
		if c.Seq < s.from {
			break
		}
		if u.isLate() {
			u.fresh.Pending += u.builder.source().From - s.from
			return u.replaceAmended(ctx, amended)
		}
		isReplaced := amended[c.ID]
		if delete(amended, c.ID); c.Amends != "" {
			amended[c.Amends] = true
		}
		if !isReplaced {
			if err := u.addCheckpoint(ctx, s.thread, &c); err != nil {
				return err
			}
		}
		if u.builder.bytes >= batchBytes {
			rest := u.builder.source().From - 1
			if err := u.replaceAmended(ctx, amended); err != nil {
				return err
			}
			if err := u.flush(); err != nil {
				return err
			}
			u.begin(Source{Thread: s.thread, From: rest + 1, To: rest})
		}
	}
	u.advance(s.from)
	return u.replaceAmended(ctx, amended)
}

// begin begins a source.
func (u *update) begin(s Source) {
	if u.builder == nil {
		u.builder = newBuilder()
	}
	u.builder.addSource(s)
}

// advance extends the source down to a seq.
func (u *update) advance(seq int64) {
	s := u.builder.source()
	u.done += max(0, s.From-seq)
	s.From = min(s.From, seq)
	if u.progress != nil {
		u.progress(u.done, u.total)
	}
}

// addCheckpoint adds a checkpoint. If it cannot be read, it stays missing, so that the next update tries again.
func (u *update) addCheckpoint(ctx context.Context, thread segno.ThreadID, c *segno.Checkpoint) error {
	text, err := u.reader.Text(ctx, c, 0)
	switch kind := segno.KindOf(err); {
	case err == nil:
		u.advance(c.Seq)
		u.builder.add(Unit{Commit: c.ID, Seq: c.Seq, Time: c.Time.Unix()}, text)
	case ctx.Err() == nil && (kind == segno.KindCorrupt || kind == segno.KindNotFound):
		u.fresh.Damaged++
		u.advance(c.Seq + 1)
		u.begin(Source{Thread: thread, From: c.Seq, To: c.Seq - 1})
	default:
		return err
	}
	return nil
}

// replaceAmended records the seqs of amended checkpoints that an earlier update added.
func (u *update) replaceAmended(ctx context.Context, amended map[segno.CommitID]bool) error {
	for id := range amended {
		line, err := u.reader.Store.Load(ctx, id, segno.Window{Last: 1})
		if segno.KindOf(err) == segno.KindNotFound {
			continue
		}
		if err != nil {
			return err
		}
		s := u.builder.source()
		s.Replaced = append(s.Replaced, line.Commits[len(line.Commits)-1].Seq)
	}
	return nil
}

// end ends the builder after an error.
func (u *update) end() {
	if u.builder != nil {
		u.builder.stop()
	}
}

// flush writes the segment. A source without a seq is left out.
func (u *update) flush() error {
	b := u.builder
	if b == nil {
		return nil
	}
	u.builder = nil
	defer b.stop()
	if last := len(b.sources) - 1; last >= 0 && b.sources[last].From > b.sources[last].To {
		b.sources = b.sources[:last]
	}
	if len(b.sources) == 0 {
		return nil
	}
	return u.index.addSegment(b.content())
}
