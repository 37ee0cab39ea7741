package web

import (
	"context"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/timeline"
)

// counts has the numbers of calls and notes of a checkpoint. They never change, so the server can cache them.
type counts struct{ calls, notes int }

// maxCounts is the number of counts in the cache.
const maxCounts = 100_000

// count counts the calls and notes of a checkpoint.
func (s *Server) count(ctx context.Context, c *segno.Checkpoint) (counts, error) {
	if c.Kind != segno.CheckpointTurn && c.Kind != segno.CheckpointStep {
		return counts{}, nil
	}
	if n, ok := s.counts.get(c.ID); ok {
		return n, nil
	}
	var n counts
	var err error
	if c.Step > 0 && c.Session == nil {
		var d history.Details
		d, err = new(history.History).ReadDetails(ctx, s.source(), c)
		n = counts{len(d.Calls), len(d.Notes)}
	} else {
		n, err = s.countEntries(ctx, c.ID)
	}
	if err == nil {
		s.counts.put(c.ID, n, 1)
	}
	return n, err
}

// countEntries counts the calls and notes of a commit without decoding them.
func (s *Server) countEntries(ctx context.Context, id segno.CommitID) (n counts, err error) {
	line, err := s.Store.Load(ctx, id, segno.Window{Last: 1, Entries: true})
	if err != nil {
		return n, err
	}
	seen := map[string]bool{}
	for _, e := range line.Commits[len(line.Commits)-1].Entries {
		switch {
		case e.Kind == segno.EntryNote:
			n.notes++
		case e.Kind == segno.EntryIntent && (e.ID == "" || !seen[e.ID]): // an agent may announce a call several times
			n.calls++
			seen[e.ID] = true
		}
	}
	return n, nil
}

// forkIndex maps checkpoints to the forks that begin there.
type forkIndex struct {
	mu   sync.Mutex
	at   map[segno.CommitID][]fork
	read time.Time
}

// The limits of a forkIndex: its age before it is read again, and the number of threads that it reads.
const (
	maxForkAge     = 2 * time.Second
	maxForkThreads = 20_000
)

// forksAt returns the forks of the store.
func (s *Server) forksAt(ctx context.Context) (map[segno.CommitID][]fork, error) {
	s.forks.mu.Lock()
	defer s.forks.mu.Unlock()
	if time.Since(s.forks.read) < maxForkAge {
		return s.forks.at, nil
	}
	at := map[segno.CommitID][]fork{}
	for t, err := range s.Store.Threads(ctx, segno.ThreadQuery{Limit: maxForkThreads}) {
		if err != nil {
			return nil, err
		}
		if t.Parent != "" {
			at[t.Parent] = append(at[t.Parent], fork{Thread: t.ID, Title: timeline.Title(t.Title), Checkpoint: t.Parent})
		}
	}
	s.forks.at, s.forks.read = at, time.Now()
	return at, nil
}
