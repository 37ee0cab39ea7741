package moves

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// RequestLater records an undo or a restore that [Engine.Prepare] refused with a [timeline.TurnOpenError] of its thread. It is
// made under the id of the operation after the turn has ended; see [timeline.Timeline.RequestMove].
func (e *Engine) RequestLater(ctx context.Context, r Request, id segno.OperationID) (*timeline.Requested, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	t, err := e.target(ctx, &r)
	if err != nil {
		return nil, err
	}
	t.setActor(e.Actor)
	m, ok := newMover(t, r).(*fileMove)
	if !ok || t.root == "" {
		return nil, segno.Errorf(segno.KindInvalid, r.Verb, string(r.Thread), "it cannot wait for the end of a turn")
	}
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	m.ask.Operation = id
	return t.timeline.RequestMove(ctx, m.ask)
}
