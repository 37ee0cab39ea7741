package proxy

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
)

// site is the workspace of the session's directory, as it is found now.
func (s *session) site(ctx context.Context) (segno.Site, error) {
	rec, err := s.proxy.store.RegisterRoot(ctx, s.page.Dir)
	if err != nil {
		return segno.Site{}, err
	}
	site, err := s.proxy.store.Site(rec, nil)
	site.Lease = s.lease
	return site, err
}

// source says where the agent keeps the session.
func (s *session) source() segno.Source {
	return segno.Source{Session: s.up, Dir: s.page.Dir}
}

// own makes the session's thread, if it has none yet, and takes the lease on it.
func (s *session) own(ctx context.Context, t *turn) error {
	site, err := s.site(ctx)
	if err != nil {
		return err
	}
	if s.thread == "" {
		r := segno.Recorder{Site: site}
		s.thread, err = r.Open(ctx, segno.Opening{Agent: s.page.Agent, Source: segno.Source{Session: s.page.Upstream, Dir: s.page.Dir}, Title: t.text, Name: s.page.Name})
		if err != nil {
			return err
		}
		s.page.Thread = s.thread
		if s.page.Title == "" {
			s.page.Title = segno.Headline(t.text)
		}
		if err := s.proxy.book.write(s.page); err != nil {
			return err
		}
		h, err := s.footing(ctx)
		if err != nil {
			return err
		}
		s.has = h.turnID() // a session older than segno has turns
	}
	if err := s.acquire(ctx); err != nil {
		return err
	}
	t.keep(s.proxy, s.lease)
	return s.closeLeft(ctx)
}

// join records that the thread goes on in a session of the agent's.
func (s *session) join(ctx context.Context, link segno.Link) error {
	ctx = context.WithoutCancel(ctx) // the agent has the session already: it must not be forgotten
	if s.turn != nil && s.turn.unrecorded {
		return nil
	}
	site, err := s.site(ctx)
	if err != nil {
		return err
	}
	r := segno.Recorder{Site: site}
	if err := r.Join(ctx, s.thread, link); err != nil {
		return fmt.Errorf("record session: %w", err)
	}
	return nil
}

// goesOn records that the open turn goes on in the session and the process there are
// now.
func (s *session) goesOn(ctx context.Context, t *turn, proc *process) error {
	if !t.begun || t.unrecorded {
		return nil
	}
	site, err := s.site(ctx)
	if err != nil {
		return err
	}
	r := segno.Recorder{Site: site}
	return r.Amend(ctx, t.key, func(open *segno.OpenTurn) {
		open.Source = s.source()
		open.Group, open.GroupStart = proc.group()
	})
}

// adopt makes the thread of a session that had its turns before us.
func (s *session) adopt(ctx context.Context) error {
	site, err := s.site(ctx)
	if err != nil {
		return err
	}
	r := segno.Recorder{Site: site}
	if s.thread, err = r.Open(ctx, segno.Opening{Agent: s.page.Agent, Source: segno.Source{Session: s.page.Upstream, Dir: s.page.Dir}}); err != nil {
		return err
	}
	s.page.Thread = s.thread
	return s.proxy.book.write(s.page)
}
