package web

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/workspace"
)

// changeList is a window of the changes between two checkpoints.
type changeList struct {
	From    segno.CommitID `json:"from"` // "" is the empty tree
	To      segno.CommitID `json:"to"`   // or "present"
	Total   int            `json:"total"`
	Changes []sizedChange  `json:"changes"`
}

// sizedChange is a change with the sizes of both sides; they are 0 for entities other than files.
type sizedChange struct {
	history.Change
	BytesBefore int64 `json:"bytes_before"`
	BytesAfter  int64 `json:"bytes_after"`
}

type changesParams struct {
	From   segno.CommitID `query:"from" max:"1024"`
	To     segno.CommitID `query:"to" max:"1024" required:"true"`
	Offset int            `query:"offset"`
	N      int            `query:"n" default:"500" min:"1" max:"2000"`
}

func (p *changesParams) resultKey() string {
	if p.To == present {
		return ""
	}
	return string(p.To) + "-" + shortHash([]byte(segno.DerivedID("changes", string(p.From), itoa(p.Offset), itoa(p.N))))
}

func (s *Server) listChanges(ctx context.Context, p *changesParams) (changeList, error) {
	list := changeList{From: p.From, To: p.To, Changes: []sizedChange{}}
	a, b, err := s.treesOf(ctx, p.From, p.To)
	if err != nil {
		return list, err
	}
	changes, err := s.compare(ctx, a, b)
	if err != nil {
		return list, err
	}
	list.Total = len(changes)
	shown := part(changes, p.Offset, p.N)
	for i, c := range history.Signed(shown) {
		list.Changes = append(list.Changes, sizedChange{c, shown[i].From.Size, shown[i].To.Size})
	}
	return list, nil
}

// treePair is the key of a comparison in the cache.
type treePair struct{ a, b segno.Hash }

// compare returns the changes between two trees.
func (s *Server) compare(ctx context.Context, a, b segno.Hash) ([]segno.Change, error) {
	if have, ok := s.comparisons.get(treePair{a, b}); ok {
		return have, nil
	}
	release, err := s.acquireHeavy(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	changes, err := workspace.Diff(ctx, s.Store.Objects(), a, b)
	if err == nil {
		s.comparisons.put(treePair{a, b}, changes, int64(len(changes))+1)
	}
	return changes, err
}

// acquireHeavy waits until fewer than maxHeavy other requests use much memory.
func (s *Server) acquireHeavy(ctx context.Context) (release func(), err error) {
	return acquire(ctx, s.heavy)
}

// acquire uses places as a semaphore: it waits for a free place, which release frees.
func acquire(ctx context.Context, places chan struct{}) (release func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, segno.NewError(segno.KindCancelled, "wait for other requests", "", ctx.Err())
	}
}
