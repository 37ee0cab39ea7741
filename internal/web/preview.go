package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/moves"
)

// previewTime is how long a preview can be applied.
const previewTime = 10 * time.Minute

// maxPreviews is how many previews the server keeps. A further one replaces the oldest.
const maxPreviews = 100

// previewParams are the parameters of a preview.
type previewParams struct{ Body moves.Request }

// previewItem is a previewed move.
type previewItem struct {
	ID string `json:"id"`
	moves.Preview
	Expires time.Time `json:"expires"`
}

// preview is a previewed move and the progress of it. The mutex of the move is held while it is applied, so that
// a repeated request waits for the answer of the first.
type preview struct {
	id       string
	expires  time.Time
	prepared *moves.Prepared

	mu     sync.Mutex
	key    string         // the idempotency key of the request that applied it
	answer *moves.Outcome // its answer
	failed error          // it can no longer be applied
}

// previews are the newest previews, the oldest first.
type previews struct {
	mu  sync.Mutex
	all []*preview
}

func (p *previews) add(x *preview) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all = append(p.all, x); len(p.all) > maxPreviews {
		p.all = append([]*preview{}, p.all[1:]...)
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

// preview works a move out.
func (s *Server) preview(ctx context.Context, p *previewParams) (previewItem, error) {
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

// checkMoves refuses moves of a store that cannot be written.
func (s *Server) checkMoves() error {
	if s.Local != nil && s.Local.ReadOnly() {
		return segno.Errorf(segno.KindRefused, "preview", s.Name, "the store can only be read")
	}
	return nil
}

// moves returns the engine of the moves.
func (s *Server) moves() *moves.Engine {
	return &moves.Engine{Store: s.Store, Local: s.Local, Actor: "web", Now: s.Now}
}

// outdated returns an error about a preview that cannot be applied any more.
func outdated(err error) error { return withStatus(http.StatusPreconditionFailed, err) }
