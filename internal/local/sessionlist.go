package local

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript"
)

// sessionLister collects the details of sessions. It reads only the sessions that the index lacks.
type sessionLister struct {
	index   *sessionIndex
	now     time.Time // before any of the stamps was taken
	out     []SessionDetail
	stamps  []fileStamp
	others  []uint64 // the stamps of other files; only if there is a store with which they may have to be compared
	headers []transcript.SessionHeader
	readers map[string]transcript.Discovery
}

// few is a number of sessions that can be read faster than an index with thousands of records.
const few = 8

// details implements Details. limits returns, for each changed session, the size up to which its transcript is read
// whole.
func (p Place) details(ctx context.Context, store *Store, found []FoundSession, limits func([]FoundSession) []int64) ([]SessionDetail, error) {
	l := &sessionLister{index: newSessionIndex(), now: p.Now(), out: make([]SessionDetail, len(found)), stamps: make([]fileStamp, len(found)), others: make([]uint64, len(found)),
		headers: make([]transcript.SessionHeader, len(found)), readers: map[string]transcript.Discovery{}}
	switch {
	case len(found) <= few:
	case store != nil:
		l.index = store.readSessionIndex()
	default:
		l.index = p.readSessionIndex(&hold{})
	}
	running := map[string]map[segno.SessionID]int{}
	for agent, t := range p.Transcripts(nil) {
		if d, ok := t.(transcript.Discovery); ok {
			l.readers[agent], running[agent] = d, d.Running(ctx)
		}
	}
	for i, f := range found {
		l.out[i].FoundSession, l.out[i].Live = f, running[f.Agent][f.Session]
		l.stamps[i] = stampOf(&f.SessionFile)
	}
	l.readHeaders(ctx, limits)
	if err := ctx.Err(); err != nil {
		return l.out, err
	}
	if store != nil {
		return l.out, l.lookUp(ctx, store)
	}
	if len(found) > few {
		for i := range l.out {
			l.remember(i, segno.Head{})
		}
		_ = l.index.saveWithoutStore(ctx, p) // then the next command reads the sessions again
	}
	return l.out, nil
}

// known returns the index's record of a session, and whether the session is unchanged since.
func (l *sessionLister) known(i int) (indexedSession, bool) {
	return l.index.find(keyOf(&l.out[i].FoundSession), l.stamps[i])
}

// readHeaders sets the headers. It takes those of unchanged sessions from the index, and reads the others from the
// transcripts in parallel. It reads an unchanged session again if earlier calls read only its beginning and end, and
// limits now allows to read it whole.
func (l *sessionLister) readHeaders(ctx context.Context, limits func([]FoundSession) []int64) {
	var places []int
	var changed []FoundSession
	for i := range l.out {
		in, ok := l.known(i)
		if l.headers[i] = in.Header; !ok || in.Header.Turns < 0 {
			places, changed = append(places, i), append(changed, l.out[i].FoundSession)
		}
	}
	most := limits(changed)
	next := make(chan int)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for at := range next {
				s := &l.out[places[at]]
				h, err := l.readers[s.Agent].Header(ctx, s.SessionFile, most[at])
				h.Title = timeline.Title(h.Title) // a prompt can be long
				l.headers[places[at]], s.Err = h, err
			}
		})
	}
	for at, i := range places {
		if in, ok := l.known(i); !ok || most[at] >= in.Stamp.Size {
			next <- at
		}
	}
	close(next)
	workers.Wait()
	for i := range l.out {
		l.out[i].SessionHeader = l.headers[i]
	}
	l.setPurges()
}

// setPurges sets when agents may delete their sessions according to the settings in the sessions' directories.
func (l *sessionLister) setPurges() {
	type place struct{ agent, dir string }
	type retention struct {
		age    time.Duration
		purges bool
	}
	known := map[place]retention{}
	for i := range l.out {
		s := &l.out[i]
		in, ok := l.readers[s.Agent].(transcript.DirRetention)
		if !ok || s.Dir == "" || s.Err != nil {
			continue
		}
		r, ok := known[place{s.Agent, s.Dir}]
		if !ok {
			r.age, r.purges = in.RetentionIn(s.Dir)
			known[place{s.Agent, s.Dir}] = r
		}
		s.Purge = time.Time{}
		if r.purges {
			s.Purge = s.Modified.Add(r.age)
		}
	}
}

// lookUp looks the sessions up in the store, and writes to the index what the lister has read. If it cannot write the
// index, the only cost is that the next command reads the sessions again.
func (l *sessionLister) lookUp(ctx context.Context, store *Store) error {
	headOf, err := store.sessionHeads(ctx, len(l.out))
	if err != nil {
		return err
	}
	for i := range l.out {
		s := &l.out[i]
		if others, ok := l.readers[s.Agent].(transcript.OtherFiles); ok {
			l.others[i] = others.OthersStamp(s.SessionFile)
		}
		head, err := headOf(ctx, s.Agent, s.Session)
		if err != nil {
			return err
		}
		in, ok := l.known(i)
		isKept := ok && in.Thread != "" && in.Thread == head.Thread && in.Seq == head.Seq
		if err := store.setThread(ctx, s, head, isKept); err != nil {
			return err
		}
		s.IsChanged = l.stamps[i] != fileStamp{} && !l.headers[i].FromOthers && l.index.mayHaveChanged(keyOf(&s.FoundSession), l.stamps[i], l.others[i])
		l.remember(i, head)
	}
	if len(l.out) > few {
		_ = l.index.save(store)
	}
	return nil
}

// remember adds a session to the index, if its transcript alone determines its header. head is the head of the thread
// that has the session.
func (l *sessionLister) remember(i int, head segno.Head) {
	s := &l.out[i]
	if s.Err != nil || l.headers[i].FromOthers || l.stamps[i] == (fileStamp{}) {
		return
	}
	in := indexedSession{Stamp: l.stamps[i], Others: l.others[i], Header: l.headers[i]}
	if s.Kept {
		in.Thread, in.Seq = head.Thread, head.Seq
	}
	l.index.add(keyOf(&s.FoundSession), l.now, in)
}

// sessionHeads returns a function that is equivalent to headOf. If there are many sessions, sessionHeads reads the
// links of all threads once, instead of one query for each session.
func (s *Store) sessionHeads(ctx context.Context, sessions int) (func(context.Context, string, segno.SessionID) (segno.Head, error), error) {
	const many = 64
	if sessions < many {
		return s.headOf, nil
	}
	heads := map[segno.ThreadID]segno.Head{}
	type chained struct {
		thread segno.ThreadID
		agent  string
	}
	threads := map[segno.SessionID][]chained{}
	err := s.EachLink(ctx, func(thread segno.ThreadID, seq int64, l segno.Link, isHead bool) {
		head := heads[thread]
		if head.Thread, head.Seq = thread, seq; isHead {
			head.Link = l
		}
		heads[thread] = head
		threads[l.Session] = append(threads[l.Session], chained{thread, l.Agent})
	})
	return func(_ context.Context, agent string, session segno.SessionID) (segno.Head, error) {
		for _, c := range threads[session] {
			if c.agent == agent || c.agent == "" {
				return heads[c.thread], nil
			}
		}
		return segno.Head{}, nil
	}, err
}

// KeepSessions is [timeline.Timeline.KeepSessions]. It also records in the index which sessions are kept, so that
// the next call need not read them.
func (s *Store) KeepSessions(ctx context.Context, all []timeline.KeepRequest, done func(timeline.KeepRequest, timeline.Kept, error)) error {
	before, stored := s.readSessionIndex(), map[sessionKey]int64{}
	err := s.SessionTimeline().KeepSessions(ctx, all, func(r timeline.KeepRequest, k timeline.Kept, err error) {
		if err == nil && !k.IsOpen {
			stored[sessionKey{r.Agent, r.Source.Session, r.Source.Path}] = k.Stored
		}
		done(r, k, err)
	})
	ctx = context.WithoutCancel(ctx)
	headOf, headErr := s.sessionHeads(ctx, len(stored))
	if headErr != nil {
		return err // the next call reads the sessions again
	}
	index := s.readSessionIndex()
	for key, offset := range stored {
		if now, then := index.sessions[key], before.sessions[key]; now.Stamp != then.Stamp || now.Others != then.Others {
			continue // another command has since found that the session changed
		}
		if head, headErr := headOf(ctx, key.Agent, key.Session); headErr == nil {
			index.setKept(key, head, offset)
		}
	}
	_ = index.save(s)
	return err
}
