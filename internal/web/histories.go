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
	moves    map[segno.CommitID][]rowMove // the operations that moved to each checkpoint
	revision int64
	read     time.Time
}

// historyCache keeps the histories of the threads that were read last.
type historyCache struct {
	mu   sync.Mutex
	open map[segno.ThreadID]*threadHistory
}

// maxHistories is the number of histories in the cache.
const maxHistories = 16

// maxHistoryAge is the age at which a history is read again in full. It is needed because a
// garbage collection can remove checkpoints from a thread without a change of its revision.
const maxHistoryAge = 5 * time.Minute

func (c *historyCache) get(id segno.ThreadID) *threadHistory {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[id]
}

// put adds a history, and drops the oldest if there are too many.
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

// history returns the current history of a thread. After a commit, it reads only the newer
// checkpoints.
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
	if t.moves, err = s.movesOf(ctx, t); err != nil {
		return nil, err
	}
	s.histories.put(thread, t)
	return t, nil
}

// maxMoves is the number of operations of a workspace in a timeline.
const maxMoves = 500

// movesOf returns the newest operations on a thread, by the checkpoint that each moved to or
// pinned.
func (s *Server) movesOf(ctx context.Context, h *threadHistory) (map[segno.CommitID][]rowMove, error) {
	workspaces, ok := s.Store.(segno.Workspaces)
	if !ok {
		return nil, nil
	}
	at := map[segno.CommitID][]rowMove{}
	seen := map[segno.WorkspaceID]bool{}
	for i := range h.shown {
		if w := h.shown[i].Workspace; w != nil && !seen[w.Workspace] && len(seen) < maxMoveWorkspaces {
			seen[w.Workspace] = true
			if err := addMoves(ctx, workspaces, w.Workspace, h.Head.Thread, at); err != nil {
				return nil, err
			}
		}
	}
	return at, nil
}

// maxMoveWorkspaces is the number of workspaces of one thread with operations in the timeline.
const maxMoveWorkspaces = 4

// addMoves adds the operations of a workspace on a thread, newest first.
func addMoves(ctx context.Context, store segno.Workspaces, id segno.WorkspaceID, thread segno.ThreadID, at map[segno.CommitID][]rowMove) error {
	undone := map[segno.OperationID]bool{}
	n := 0
	for op, err := range store.Operations(ctx, id) {
		if err != nil {
			return err
		}
		if n++; n > maxMoves {
			break
		}
		undone[op.Undoes] = true
		to := op.After.Head
		if op.Pin != nil {
			to = op.Pin.Checkpoint
		}
		if op.Thread == thread {
			at[to] = append(at[to], rowMove{ID: op.ID, Verb: op.Verb, Args: history.Cut(op.Args, maxTitle), Time: op.Time, Undone: undone[op.ID]})
		}
	}
	return nil
}
