package web

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/moves"
)

// nextMoves are the moves that a user makes most often: the undo of the last turn, and the redo of the last undo. Both
// depend only on where the thread is, not on the checkpoint that a client shows.
type nextMoves struct {
	Undo nextMove `json:"undo"`
	Redo nextMove `json:"redo"`
}

// nextMove is a previewed move, or the reason why it cannot be made now.
type nextMove struct {
	Preview *previewItem `json:"preview"` // null if it cannot be made
	Why     string       `json:"why"`     // why not, else ""
	Hint    string       `json:"hint"`
}

// nextMovesParams are the parameters of the next moves.
type nextMovesParams struct{ Body nextMovesBody }

// nextMovesBody names the thread.
type nextMovesBody struct {
	Thread segno.ThreadID `json:"thread"`
}

// nextMoves previews the undo of one turn and the redo of one.
func (s *Server) nextMoves(ctx context.Context, p *nextMovesParams) (next nextMoves, err error) {
	if next.Undo, err = s.nextMove(ctx, p.Body.Thread, segno.VerbUndo); err == nil {
		next.Redo, err = s.nextMove(ctx, p.Body.Thread, segno.VerbRedo)
	}
	return next, err
}

// nextMove previews one move. A thread without a turn to move over is not an error, and neither is a state in which the
// move would be unsafe, such as an open turn.
func (s *Server) nextMove(ctx context.Context, thread segno.ThreadID, verb segno.Verb) (nextMove, error) {
	if thread == "" {
		return nextMove{}, segno.Errorf(segno.KindInvalid, "preview", "", "no thread")
	}
	if _, err := s.Store.Head(ctx, thread); err != nil {
		return nextMove{}, err
	}
	item, err := s.preview(ctx, &previewParams{Body: moves.Request{Verb: string(verb), Thread: thread, Turns: 1}})
	switch kind := segno.KindOf(err); {
	case err == nil:
		return nextMove{Preview: &item}, nil
	case kind == segno.KindNotFound, kind == segno.KindRefused, kind == segno.KindBusy:
		return nextMove{Why: reason(err), Hint: segno.HintOf(err)}, nil
	}
	return nextMove{}, err
}

// reason returns the cause of an error without the operation and its object, which the client shows already.
func reason(err error) string {
	var e *segno.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err.Error()
	}
	return err.Error()
}
