package proxy

import (
	"context"
	"slices"

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
	s.story, s.at = preamble.FromCommits(line.Commits), h.head.Head
	return nil
}

// tellInterrupted has an agent that took a session up again told what it did in a
// last turn that had no end: it may have died before it wrote that down.
func (s *session) tellInterrupted(ctx context.Context, h foothold) error {
	if h.turn == nil || !h.turn.Interrupted || s.proxy.agent.identity().ours() {
		return nil
	}
	line, err := s.proxy.store.Load(ctx, h.turn.ID, segno.Window{Last: 1, Entries: true})
	if err != nil {
		return err
	}
	for _, n := range line.Commits {
		if slices.ContainsFunc(n.Entries, func(e segno.Entry) bool { return e.Kind == segno.EntryIntent }) {
			s.tell = append(s.tell, preamble.FromCommits(line.Commits).Text(preamble.Options{}))
		}
	}
	return nil
}

// grow adds what was just committed to the story. One that cannot be read is told
// from the beginning when it is needed.
func (s *session) grow(ctx context.Context, head segno.CommitID) {
	if err := s.growTo(ctx, head); err != nil {
		s.story = nil
	}
}

// growTo reads the entries behind the story's end, and no others: a turn may have
// thousands.
func (s *session) growTo(ctx context.Context, head segno.CommitID) error {
	const recent = 8
	line, err := s.proxy.store.Load(ctx, head, segno.Window{Last: recent})
	if err != nil {
		return err
	}
	end := slices.IndexFunc(line.Commits, func(n segno.Node) bool { return n.ID == s.at })
	if s.story == nil || end < 0 {
		s.story = nil
		return s.tellStory(ctx, foothold{head: segno.Head{Head: head}})
	}
	more := len(line.Commits) - 1 - end
	if more == 0 {
		return nil
	}
	if line, err = s.proxy.store.Load(ctx, head, segno.Window{Last: more, Entries: true}); err != nil {
		return err
	}
	for _, n := range line.Commits {
		s.story.Add(n)
	}
	s.at = head
	return nil
}
