package kv

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
)

// Check implements [segno.Checker]. It finds the threads by their own keys, not by the lists, and reports
// each thread, commit, session, pin or open turn that is missing from a list. [Store.RebuildIndex] writes
// these entries again. Check reads the records of all threads, and the objects that their checkpoints reach.
// Other processes may use the store meanwhile.
func (s *Store) Check(ctx context.Context, p segno.CheckPolicy, report func(error) bool) (segno.Checked, error) {
	k := &checker{s: s, report: report, seen: map[segno.Hash]bool{}}
	err := k.eachThread(ctx, func(t *threadLog) error {
		if err := k.checkThread(ctx, t); err != nil {
			return err
		}
		// The policy's Trace calls the store, so no call may be in progress here.
		for _, e := range t.records {
			if err := k.checkObjects(ctx, p, e); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errStopped) {
		err = nil
	}
	return k.Checked, err
}

// RebuildIndex writes the index entries that the KV has lost or damaged, as far as the records of the
// threads prove them: the lists of threads and of open turns, and the entries of commits, sessions and pins.
// It returns the number of written entries. It reads the records of all threads; other processes may use the
// store meanwhile. If records are damaged, it writes the entries of all others and returns the first damage
// as its error.
func (s *Store) RebuildIndex(ctx context.Context) (written int, err error) {
	var damage error
	k := &checker{s: s, report: func(err error) bool { damage = cmp.Or(damage, err); return true }}
	err = k.eachThread(ctx, func(t *threadLog) error {
		return s.run(ctx, "rebuild index", string(t.state.Head.Thread), func() error {
			ops, err := s.missingIndex(ctx, t)
			if err != nil || len(ops) == 0 {
				return err
			}
			written += len(ops)
			_, err = s.apply(ctx, ops)
			return err
		})
	})
	return written, cmp.Or(err, damage)
}

// checker reads all threads of a store.
type checker struct {
	segno.Checked
	s      *Store
	report func(error) bool
	seen   map[segno.Hash]bool // objects that were already checked
}

// errStopped ends a check that the caller stopped.
var errStopped = errors.New("the check was stopped")

// verdict reports err if it is damage. It returns any other error, which ends the check.
func (k *checker) verdict(err error) error {
	if !isKind(err, segno.KindCorrupt) && !isKind(err, segno.KindNewer) {
		return err
	}
	k.Damaged++
	if !k.report(err) {
		return errStopped
	}
	return nil
}

// eachThread calls do for each thread that has keys, with its undamaged records, newest first. It reports
// damaged records.
func (k *checker) eachThread(ctx context.Context, do func(*threadLog) error) error {
	for id, err := range k.s.threadIDs(ctx) {
		if err != nil {
			if err := k.verdict(err); err != nil {
				return err
			}
			continue
		}
		t, err := call(ctx, k.s, "check thread", string(id), func() (*threadLog, error) { return k.readLog(ctx, id) })
		if err := k.verdict(err); err != nil {
			return err
		}
		if t == nil {
			continue // the thread expired, or only has a lease
		}
		if err := do(t); err != nil {
			return err
		}
	}
	return nil
}

// threadIDs yields the threads that have keys, without duplicates. If the id of a thread is too long for a
// key, the head key's value contains it.
func (s *Store) threadIDs(ctx context.Context) iter.Seq2[segno.ThreadID, error] {
	return func(yield func(segno.ThreadID, error) bool) {
		const prefix = "t{"
		end, err := s.begin(ctx, "check")
		if err != nil {
			yield("", err)
			return
		}
		var ids []segno.ThreadID
		var errs []error
		last := ""
		for item, err := range s.kv.List(ctx, prefix, "", 0) {
			if err != nil {
				errs = append(errs, err)
				break
			}
			group := Group(item.Key)
			if group == last {
				continue
			}
			escaped := strings.TrimSuffix(strings.TrimPrefix(group, prefix), "}")
			isHead := item.Key == group+"head"
			switch {
			case escaped == "" || escaped[0] != hashMark:
				last, ids = group, append(ids, segno.ThreadID(unescape(escaped)))
			case isHead:
				last = group
				if st, err := decodeThreadState(s.code, item.Key, item.Val); err != nil {
					errs = append(errs, err)
				} else {
					ids = append(ids, st.Head.Thread)
				}
			case strings.HasPrefix(item.Key, group+"log/"): // the head key precedes the log
				last = group
				errs = append(errs, missing(group+"head"))
			}
		}
		end() // no call may be in progress, because the caller calls the store
		for _, err := range errs {
			if !yield("", fail("check", "", err)) {
				return
			}
		}
		for _, id := range ids {
			if !yield(id, nil) {
				return
			}
		}
	}
}

// readLog reads a thread and its records. It reports the records that are damaged or missing.
func (k *checker) readLog(ctx context.Context, id segno.ThreadID) (*threadLog, error) {
	st, err := k.s.readState(ctx, id, true)
	if err != nil || !st.Exists {
		return nil, err
	}
	t := &threadLog{state: st}
	for _, r := range []run{{id, areaLog, 1, st.pos}, {id, areaOld, 1, st.copied}} {
		for rest := []run{r}; len(rest) > 0; {
			var positions []position
			positions, rest = splitNewest(rest, maxKeys)
			found, err := k.s.read(ctx, positions)
			for _, p := range positions {
				if err != nil { // one of the records is damaged
					one, oneErr := k.s.read(ctx, []position{p})
					if oneErr := k.verdict(oneErr); oneErr != nil {
						return nil, oneErr
					}
					found[p] = one[p]
				} else if found[p] == nil {
					if err := k.verdict(missing(p.key())); err != nil {
						return nil, err
					}
				}
				if e := found[p]; e != nil {
					t.records = append(t.records, e)
				}
			}
		}
	}
	return t, nil
}

// checkThread decodes the records of a thread, follows the lines of its head and its tip, and verifies that
// the index has all entries.
func (k *checker) checkThread(ctx context.Context, t *threadLog) error {
	k.Threads++
	id := t.state.Head.Thread
	return k.s.run(ctx, "check thread", string(id), func() error {
		for _, e := range t.records {
			if err := k.verdict(k.s.decodeAll(ctx, e)); err != nil {
				return err
			}
			if e.checkpoint != nil {
				k.Checkpoints++
			}
		}
		for _, at := range []segno.CommitID{t.state.Head.Head, t.state.Tip} {
			if t.state.Deleted {
				break
			}
			line, err := k.s.ancestors(ctx, at, 0)
			if err == nil && line == nil {
				err = missing(commitGroup(at))
			}
			if err := k.verdict(err); err != nil {
				return err
			}
		}
		ops, err := k.s.missingIndex(ctx, t)
		if err != nil {
			return err
		}
		for _, o := range ops {
			err := segno.Errorf(segno.KindCorrupt, "check thread", string(id), "the index lacks %s, or it is damaged", o.Key).
				WithHint("RebuildIndex writes it again")
			if err := k.verdict(err); err != nil {
				return err
			}
		}
		return nil
	})
}

// decodeAll decodes everything in a record.
func (s *Store) decodeAll(ctx context.Context, e *logRecord) error {
	_, errCheckpoint := e.decodeCheckpoint()
	_, errLink := e.decodeLink()
	bodies, err := s.readBodies(ctx, []*logRecord{e})
	if err := cmp.Or(errCheckpoint, errLink, err); err != nil || bodies[0] == nil {
		return err
	}
	rec, err := s.code.Unpack(bodies[0])
	if err == nil {
		_, err = record.DecodeEntries(rec)
	}
	if err != nil {
		return damaged(e.at.key(), err)
	}
	return nil
}

// missingIndex returns the changes that write the missing or damaged index entries of a thread.
func (s *Store) missingIndex(ctx context.Context, t *threadLog) (ops []Op, err error) {
	id := t.state.Head.Thread
	ops = append(ops, s.listOp(threadsGroup, id, 0))
	if made, _, err := s.get(ctx, phasesKey); err != nil {
		return nil, err
	} else if made != nil && t.state.visible() && t.state.Phase != segno.PhaseDone {
		ops = append(ops, s.listOp(openGroup, id, t.state.pos))
	}
	for _, e := range t.records {
		l, err := e.decodeLink()
		if err != nil {
			continue // the damage is reported with its record
		}
		ops = append(ops, s.indexOps(e, l)...)
	}
	if ops, err = s.absent(ctx, ops); err != nil || len(ops) == 0 {
		return nil, err
	}
	// The thread may have changed since it was read: its turn may have ended, or its content may have been
	// erased.
	now, err := s.readState(ctx, id, true)
	if err != nil || now.pos != t.state.pos || now.Deleted != t.state.Deleted {
		return nil, err
	}
	return s.absent(ctx, ops)
}

// absent returns those changes whose keys are missing or damaged.
func (s *Store) absent(ctx context.Context, ops []Op) (missing []Op, err error) {
	keys := make([]string, len(ops))
	for i, o := range ops {
		keys[i] = o.Key
	}
	vals, err := s.getAll(ctx, keys)
	if err != nil {
		return nil, err
	}
	for i, o := range ops {
		if vals[i] != nil {
			if _, err := s.code.unframe(o.Key, vals[i]); err == nil {
				continue
			}
		}
		missing = append(missing, o)
	}
	return missing, nil
}

// checkObjects reads the objects that the checkpoint of a record reaches, except those that were already
// checked.
func (k *checker) checkObjects(ctx context.Context, p segno.CheckPolicy, e *logRecord) error {
	c, err := e.decodeCheckpoint()
	if c == nil || err != nil {
		return nil //nolint:nilerr // it is reported with its record
	}
	var stopped error
	visit := func(h segno.Hash) bool {
		if h.IsZero() || k.seen[h] || stopped != nil {
			return false
		}
		k.seen[h] = true
		data, err := k.s.Objects().Get(ctx, h)
		if isKind(err, segno.KindNotFound) {
			err = segno.Errorf(segno.KindCorrupt, "check checkpoint", string(c.ID), "object %s is missing", h)
		}
		if err != nil {
			stopped = k.verdict(err)
			return false
		}
		k.Objects++
		k.Bytes += int64(len(data))
		return true
	}
	if p.Trace != nil {
		if err := k.verdict(p.Trace(ctx, k.s.Objects(), *c, visit)); err != nil && stopped == nil {
			stopped = err
		}
	}
	for _, h := range c.Refs() {
		visit(h)
	}
	return stopped
}
