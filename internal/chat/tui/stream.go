package tui

import (
	"context"

	tea "charm.land/bubbletea/v2"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
)

// stream is a run in progress.
type stream struct {
	events chan streamEvent
	cancel context.CancelFunc
}

// streamEvent is an event of a stream, or its end.
type streamEvent struct {
	event agent.Event
	err   error
	over  bool // the run has ended
}

// startStream starts a run. The stream begins with the events that other processes recorded since
// the status from.
func startStream(ctx context.Context, c Chat, in agent.Input, from chat.Status) *stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{events: make(chan streamEvent), cancel: cancel}
	go func() {
		defer close(s.events)
		for e, err := range c.Events(ctx, from.Seq) {
			if err != nil {
				break // the session does not exist yet, or the run reports the error
			}
			s.events <- streamEvent{event: e}
		}
		for e, err := range c.Stream(ctx, in) {
			s.events <- streamEvent{event: e, err: err}
		}
	}()
	return s
}

// next waits for the next event.
func (s *stream) next() tea.Msg {
	t, ok := <-s.events
	t.over = !ok
	return t
}

// stop cancels the run and returns when it has ended. It discards the remaining events.
func (s *stream) stop() {
	if s == nil {
		return
	}
	s.cancel()
	for range s.events {
	}
}
