package web

import (
	"cmp"
	"context"
	"net/http"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/moves"
)

// moveBody names the preview to apply.
type moveBody struct {
	Preview string `json:"preview"`
	// Force overwrites the conflicts of the preview.
	Force bool `json:"force,omitempty"`
}

// moveParams are the parameters of a move.
type moveParams struct {
	Key string `header:"Idempotency-Key" required:"true" max:"200"`
	// Actor is the name of the client, for the log of operations.
	Actor string `header:"Segno-Actor" max:"64"`
	Body  moveBody
}

// moveRoutes are the endpoints of moves.
func moveRoutes() []endpoint {
	return []endpoint{
		handle(http.MethodPost, "/previews", "Work a move out and move nothing", http.StatusCreated, (*Server).preview),
		handle(http.MethodPost, "/previews/next", "Work out the undo of a thread's last turn and the redo of its last undo", http.StatusOK, (*Server).nextMoves),
		get("/previews/{id}/diff", "A window of the difference that a previewed move makes to one path", (*Server).getPreviewDiff),
		handle(http.MethodPost, "/demo", "Make the demo of a scripted agent in an empty store", http.StatusCreated, (*Server).makeDemo),
		handle(http.MethodPost, "/moves", "Make a previewed move", http.StatusOK, (*Server).move),
	}
}

// move applies a preview. A repeated request with the same key returns the same answer, even
// after a restart of the server if the log has the operation. A request with another key for an
// applied preview is a conflict.
func (s *Server) move(ctx context.Context, p *moveParams) (*moves.Outcome, error) {
	if p.Body.Preview == "" {
		return nil, segno.Errorf(segno.KindInvalid, "move", "", "no preview").WithHint("make a preview first")
	}
	// Derive the id from the key, so that a repeated request gets the same operation in every
	// process.
	id := segno.OperationID(segno.DerivedID("move", p.Body.Preview, p.Key))
	x := s.previews.find(p.Body.Preview)
	verb := ""
	if x != nil {
		verb = x.prepared.Verb
	}
	if err := requireVerb(ctx, verb); err != nil {
		return nil, err
	}
	if x == nil {
		if done, err := s.moves().Find(ctx, id); err == nil {
			return done, nil
		}
		return nil, segno.Errorf(segno.KindNotFound, "move", p.Body.Preview, "no such preview").WithHint("make a new preview")
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.answer != nil && x.key == p.Key:
		return x.answer, nil
	case x.answer != nil:
		return nil, segno.Errorf(segno.KindConflict, "move", x.id, "the preview was applied already").WithHint("make a new preview")
	case x.failed != nil:
		return nil, x.failed
	case s.Now().After(x.expires):
		return nil, outdated(segno.Errorf(segno.KindConflict, "move", x.id, "the preview has expired").WithHint("make a new preview"))
	}
	engine := s.moves()
	engine.Actor = cmp.Or(p.Actor, segno.ActorHTTP)
	done, err := engine.Apply(ctx, x.prepared, id, p.Body.Force)
	if moves.IsOutdated(err) {
		x.failed = outdated(err)
		return nil, x.failed
	}
	if err != nil {
		return nil, err // the same request may succeed later
	}
	x.key, x.answer = p.Key, done
	return done, nil
}
