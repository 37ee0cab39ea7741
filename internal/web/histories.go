package web

import (
	"context"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
)

// threadHistory is the history of one thread at one revision, with its layout. It never changes.
type threadHistory struct {
	*history.History
	shown    []segno.Checkpoint     // oldest first
	index    map[segno.CommitID]int // in shown
	places   []place
	revision int64
	read     time.Time
}

// historyCache keeps the histories of the threads that were read last.
type historyCache struct {
	mu   sync.Mutex
	open map[segno.ThreadID]*threadHistory
}

// maxHistories is how many histories the cache keeps.
const maxHistories = 16

// maxHistoryAge is how long a history is used. A collection may remove checkpoints from a thread
// without another sign.
const maxHistoryAge = 5 * time.Minute

func (c *historyCache) get(id segno.ThreadID) *threadHistory {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[id]
}

// put keeps a history, and drops the oldest if there are too many.
func (c *historyCache) put(id segno.ThreadID, h *threadHistory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[id] = h
	for len(c.open) > maxHistories {
		oldest := id
		for other, x := range c.open {
			if x.read.Before(c.open[oldest].read) {
				oldest = other
			}
		}
		delete(c.open, oldest)
	}
}

// history returns the history of a thread as it is now. After a commit it reads only what is new.
func (s *Server) history(ctx context.Context, thread segno.ThreadID) (*threadHistory, error) {
	head, err := s.Store.Head(ctx, thread)
	if err != nil {
		return nil, err
	}
	have := s.histories.get(thread)
	if have != nil && have.revision == head.Seq && time.Since(have.read) < maxHistoryAge {
		return have, nil
	}
	var earlier *history.History
	if have != nil && time.Since(have.read) < maxHistoryAge {
		earlier = have.History
	}
	h, err := history.ReadBrief(ctx, s.Store, thread, earlier)
	if err != nil {
		return nil, err
	}
	t := &threadHistory{History: h, revision: h.Revision(), read: time.Now()}
	if earlier != nil {
		t.read = have.read // the time of the last complete reading
	}
	newestFirst := h.WithoutInnerSteps()
	t.places = layOut(newestFirst, h.Head.Head)
	n := len(newestFirst)
	t.shown = make([]segno.Checkpoint, n)
	t.index = make(map[segno.CommitID]int, n)
	for i := range newestFirst {
		t.shown[n-1-i] = newestFirst[i]
		t.index[newestFirst[i].ID] = n - 1 - i
	}
	s.histories.put(thread, t)
	return t, nil
}
