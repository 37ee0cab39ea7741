package tui

import (
	"context"

	tea "charm.land/bubbletea/v2"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
)

// stream is a run under way.
type stream struct {
	events chan told
	cancel context.CancelFunc
}

// told is what a stream yields.
type told struct {
	event agent.Event
	err   error
	over  bool // the run has ended
}

// begin starts a run. What others did in the session since it was looked at comes
// first.
func begin(ctx context.Context, c Chat, in agent.Input, from chat.Status) *stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{events: make(chan told), cancel: cancel}
	go func() {
		defer close(s.events)
		for e, err := range c.Events(ctx, from.Seq) {
			if err != nil {
				break // there is no such session yet, or the run says what is wrong
			}
			s.events <- told{event: e}
		}
		for e, err := range c.Stream(ctx, in) {
			s.events <- told{event: e, err: err}
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

// end cancels the run and returns when it has ended. What it still tells is lost
// to the screen alone.
func (s *stream) end() {
	if s == nil {
		return
	}
	s.cancel()
	for range s.events {
	}
}
