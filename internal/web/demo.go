package web

import (
	"context"

	"github.com/dalsegno/segno"
)

// Demo records the turns of a scripted agent in the store, and returns their thread.
type Demo func(ctx context.Context) (segno.ThreadID, error)

// demoItem is the demo that was made.
type demoItem struct {
	Thread segno.ThreadID `json:"thread"`
	Head   segno.CommitID `json:"head"`
}

// makeDemo makes a demo in an empty store. The deletion of its thread removes its files, too.
func (s *Server) makeDemo(ctx context.Context, _ *struct{}) (item demoItem, err error) {
	if s.Demo == nil {
		return item, segno.Errorf(segno.KindRefused, "demo", s.Name, "this server makes no demo").WithHint("run 'segno demo'")
	}
	if err := s.checkMoves(); err != nil {
		return item, err
	}
	s.demos.Lock()
	defer s.demos.Unlock()
	for t, err := range s.Store.Threads(ctx, segno.ThreadQuery{Limit: 1}) {
		if err == nil {
			err = segno.Errorf(segno.KindConflict, "demo", string(t.ID), "the store has a thread already").WithHint("run 'segno demo', which makes a separate store")
		}
		return item, err
	}
	if item.Thread, err = s.Demo(context.WithoutCancel(ctx)); err != nil {
		return item, err
	}
	head, err := s.Store.Head(ctx, item.Thread)
	item.Head = head.Head
	return item, err
}
