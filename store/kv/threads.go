package kv

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/phase"
)

// listedThread is the value of a thread's key in threadsGroup or openGroup. The thread may not exist
// yet, or no longer.
type listedThread struct {
	id    segno.ThreadID
	pos   uint64 // of the record for which the key was written; in openGroup only
	since int64  // when the key was written, in nanoseconds
	Item
}

func (x *listedThread) fields(f *fields) {
	text(f, &x.id)
	if Group(x.Key) == openGroup {
		unsigned(f, &x.pos)
	}
	signed(f, &x.since)
}

// listOp returns the change that writes a thread's key in one of the two groups.
func (s *Store) listOp(group string, id segno.ThreadID, pos uint64) Op {
	x := listedThread{id: id, pos: pos, since: s.options.Clock().UnixNano(), Item: Item{Key: group + escape(string(id))}}
	return Op{Key: x.Key, Val: s.code.frame(x.Key, encodeFields(x.fields)), If: RevAny}
}

func (s *Store) decodeListed(item Item) (listedThread, error) {
	x := listedThread{Item: item}
	err := s.code.decode(item.Key, item.Val, x.fields)
	return x, err
}

// listThreads reads threadsGroup or openGroup. The caller must read the states of the threads to determine
// which of them exist.
func (s *Store) listThreads(ctx context.Context, group string) ([]listedThread, error) {
	return listDecoded(ctx, s.kv, group, s.decodeListed)
}

// listStates reads threadsGroup or openGroup, and the states of its threads. It takes one round trip if
// the head keys are exact.
func (s *Store) listStates(ctx context.Context, group string) (all []listedThread, states []*threadState, err error) {
	if all, err = s.listThreads(ctx, group); err != nil {
		return nil, nil, err
	}
	vals := make([][]byte, len(all))
	if s.headIsAtomic {
		keys := make([]string, len(all))
		for i, x := range all {
			keys[i] = headKey(x.id)
		}
		if vals, err = s.getAll(ctx, keys); err != nil {
			return nil, nil, err
		}
	}
	states = make([]*threadState, len(all))
	for i, x := range all {
		if vals[i] != nil {
			states[i], err = decodeThreadState(s.code, headKey(x.id), vals[i])
		} else {
			states[i], err = s.readState(ctx, x.id, false)
		}
		if err != nil {
			return nil, nil, err
		}
		s.observeStamp(states[i].stamp)
	}
	return all, states, nil
}

// visibleThreads returns the states of all threads that are not deleted, the most recently changed
// first.
func (s *Store) visibleThreads(ctx context.Context) ([]*threadState, error) {
	listed, all, err := s.listStates(ctx, threadsGroup)
	if err != nil {
		return nil, err
	}
	var states []*threadState
	for i, st := range all {
		if st.visible() {
			states = append(states, st)
		} else if !st.Exists {
			if err := s.removeExpired(ctx, listed[i]); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(states, func(a, b *threadState) int {
		return cmp.Or(cmp.Compare(b.stamp, a.stamp), cmp.Compare(a.Head.Thread, b.Head.Thread))
	})
	return states, nil
}

// removeExpired removes an expired thread's key from a list, unless a writer may be about to create the
// thread again.
func (s *Store) removeExpired(ctx context.Context, x listedThread) error {
	if s.options.TTL == 0 || s.isYoung(x, max(s.options.TTL, time.Hour)) {
		return nil
	}
	return s.deleteUnchanged(ctx, x.Item)
}

func (s *Store) isYoung(x listedThread, age time.Duration) bool {
	return time.Duration(s.options.Clock().UnixNano()-x.since) < age
}

// deleteUnchanged deletes a key unless another writer has changed it.
func (s *Store) deleteUnchanged(ctx context.Context, x Item) error {
	err := s.kv.Delete(ctx, x.Key, x.Rev)
	if isKind(err, segno.KindConflict) {
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
		return phase.Threads(ctx, s, phaseIndex{s}, q)
	}
	return sequence(ctx, s, op, "", func() (found []segno.Thread, err error) {
		states, err := s.visibleThreads(ctx)
		if err != nil {
			return nil, err
		}
		var ofSession map[segno.ThreadID]bool
		if q.Session != "" {
			if ofSession, err = s.threadsOfSession(ctx, q.Session, byThread(states)); err != nil {
				return nil, err
			}
		}
		for _, st := range states {
			if (q.Session == "" || ofSession[st.Head.Thread]) && q.Matches(&st.info) && (q.Limit <= 0 || len(found) < q.Limit) {
				found = append(found, st.info)
			}
		}
		return found, nil
	})
}

// threadsOfSession returns the threads that have a session in their chains.
func (s *Store) threadsOfSession(
	ctx context.Context, id segno.SessionID, threads map[segno.ThreadID]*threadState,
) (map[segno.ThreadID]bool, error) {
	all, found, err := s.readLookUps(ctx, s.sessionGroup(id))
	if err != nil {
		return nil, err
	}
	of := map[segno.ThreadID]bool{}
	for _, l := range all {
		e := found[l.position]
		if e == nil {
			if mustExist(l.position, threads) {
				return nil, missing(l.position.key())
			}
			continue
		}
		link, err := e.decodeLink()
		if err != nil {
			return nil, err
		}
		of[l.thread] = of[l.thread] || link != nil && link.Session == id
	}
	return of, nil
}

func byThread(states []*threadState) map[segno.ThreadID]*threadState {
	threads := map[segno.ThreadID]*threadState{}
	for _, st := range states {
		threads[st.Head.Thread] = st
	}
	return threads
}

// mustExist reports whether a position is in the log of one of these threads, up to its head.
func mustExist(p position, threads map[segno.ThreadID]*threadState) bool {
	st := threads[p.thread]
	return st != nil && p.area == areaLog && p.pos <= st.pos
}

// Chain implements [segno.Chains]. It reads the thread's whole log.
func (s *Store) Chain(ctx context.Context, id segno.ThreadID) iter.Seq2[segno.Link, error] {
	return sequence(ctx, s, "read chain", string(id), func() (links []segno.Link, err error) {
		st, err := s.readVisible(ctx, id, false)
		if err != nil {
			return nil, err
		}
		var next *segno.Link // the newest session that is not detached
		err = s.eachRecord(ctx, run{id, areaLog, 1, st.pos}, func(e *logRecord) error {
			l, err := e.decodeLink()
			if l == nil || err != nil {
				return err
			}
			if !l.Detached {
				if next != nil {
					l.End = next.Start
				}
				next = l
			}
			links = append(links, *l)
			return nil
		})
		if err != nil {
			return nil, err
		}
		slices.Reverse(links)
		return links, nil
	})
}

// eachRecord calls do for all records of a run, newest first. It returns an error if one is missing.
func (s *Store) eachRecord(ctx context.Context, r run, do func(*logRecord) error) error {
	for rest := []run{r}; len(rest) > 0; {
		var positions []position
		positions, rest = splitNewest(rest, maxKeys)
		found, err := s.read(ctx, positions)
		if err != nil {
			return err
		}
		for _, p := range positions {
			if found[p] == nil {
				return missing(p.key())
			}
			if err := do(found[p]); err != nil {
				return err
			}
		}
	}
	return nil
}
