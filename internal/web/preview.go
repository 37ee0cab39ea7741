package web

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/moves"
)

// previewTime is how long a preview can be applied.
const previewTime = 10 * time.Minute

// The limits of the previews that the server keeps: their number, and the number of their paths in total. A new
// preview replaces the oldest.
const maxPreviews, maxPreviewPaths = 100, 300_000

// previewParams are the parameters of a preview.
type previewParams struct{ Body moves.Request }

// previewItem is a previewed move.
type previewItem struct {
	ID string `json:"id"`
	moves.Preview
	Expires time.Time `json:"expires"`
}

// preview is a previewed move and its progress. Its mutex is locked while the move is applied, so that a
// repeated request waits for the answer of the first one.
type preview struct {
	id       string
	expires  time.Time
	prepared *moves.Prepared

	mu     sync.Mutex
	key    string         // the idempotency key of the request that applied it
	answer *moves.Outcome // its answer
	failed error          // why it can no longer be applied
}

// previews are the newest previews, the oldest first.
type previews struct {
	mu  sync.Mutex
	all []*preview
}

func (p *previews) add(x *preview) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, x)
	paths := 0
	for i, x := range slices.Backward(p.all) {
		paths += x.prepared.Weight()
		if len(p.all)-i > maxPreviews || paths > maxPreviewPaths && i < len(p.all)-1 {
			p.all = slices.Clone(p.all[i+1:])
			return
		}
	}
}

// find returns the preview with an id, or nil.
func (p *previews) find(id string) *preview {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.all {
		if x.id == id {
			return x
		}
	}
	return nil
}

// preview plans a move and keeps the plan, so that a client can apply it.
func (s *Server) preview(ctx context.Context, p *previewParams) (previewItem, error) {
	if err := requireVerb(ctx, p.Body.Verb); err != nil {
		return previewItem{}, err
	}
	if err := s.checkMoves(); err != nil {
		return previewItem{}, err
	}
	prepared, err := s.moves().Prepare(ctx, p.Body)
	if err != nil {
		return previewItem{}, err
	}
	x := &preview{id: segno.NewID(), expires: s.Now().Add(previewTime).UTC(), prepared: prepared}
	s.previews.add(x)
	return previewItem{ID: x.id, Preview: prepared.Preview, Expires: x.expires}, nil
}

// checkMoves returns an error if the store is read-only.
func (s *Server) checkMoves() error {
	if s.Local != nil && s.Local.ReadOnly() {
		return segno.Errorf(segno.KindRefused, "preview", s.Name, "the store can only be read")
	}
	return nil
}

// moves returns the engine of the moves.
func (s *Server) moves() *moves.Engine {
	return &moves.Engine{Store: s.Store, Local: s.Local, OwnAgent: ownAgent{s}, Now: s.Now}
}

// outdated returns an error about a preview that can no longer be applied.
func outdated(err error) error { return withStatus(http.StatusPreconditionFailed, err) }
