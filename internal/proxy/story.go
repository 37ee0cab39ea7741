package proxy

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/preamble"
)

// tellStory makes the story that of the thread's line: a preamble must be ready
// before it is needed.
func (s *session) tellStory(ctx context.Context, h foothold) error {
	if s.story != nil && s.at == h.head.Head {
		return nil
	}
	line, err := s.proxy.store.Load(ctx, h.head.Head, segno.Window{Entries: true})
	if err != nil {
		return err
	}
	s.story, s.at = preamble.Of(line.Commits), h.head.Head
	return nil
}

// grow adds what was just committed to the story.
func (s *session) grow(ctx context.Context, head segno.CommitID) {
	const recent = 8
	line, err := s.proxy.store.Load(ctx, head, segno.Window{Last: recent, Entries: true})
	if err != nil {
		s.story = nil
		return
	}
	from := -1
	for i, n := range line.Commits {
		if n.ID == s.at {
			from = i
		}
	}
	if s.story == nil || from < 0 {
		h := foothold{}
		h.head.Head = head
		if s.tellStory(ctx, h) != nil {
			s.story = nil
		}
		return
	}
	for _, n := range line.Commits[from+1:] {
		s.story.Add(n)
	}
	s.at = head
}
